package directory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// maxNames bounds what one directory may have, as it is listed in memory, with some 60
	// bytes for each name. One that has more is not read.
	maxNames = 10_000_000
	// namesAtOnce is how many are asked for at a time.
	namesAtOnce = 1024
)

var errTooManyNames = fmt.Errorf("it has more than %d entries", maxNames)

// listing is what a directory has of regular files and directories, in the order of
// the URIs of what is in them: a directory's key ends with the slash that follows it
// there, so that sorting each directory by itself sorts the tree.
type listing struct {
	keys  []byte
	items []item
}

type item struct {
	begin, end int // of its key
	size       int64
	modified   time.Duration // since the epoch
}

func (l *listing) key(i int) []byte { return l.keys[l.items[i].begin:l.items[i].end] }

// isDir reports what an item is.
func (l *listing) isDir(i int) bool { return l.keys[l.items[i].end-1] == '/' }

// name is the name of an item in its directory.
func (l *listing) name(i int) string {
	key := strings.TrimSuffix(string(l.key(i)), "/")
	name, err := url.PathUnescape(key)
	if err != nil {
		return key // cannot be: it was escaped here
	}
	return name
}

func (l *listing) add(name string, info fs.FileInfo) {
	begin := len(l.keys)
	l.keys = append(l.keys, url.PathEscape(name)...)
	if info.IsDir() {
		l.keys = append(l.keys, '/')
	}
	l.items = append(l.items, item{
		begin: begin, end: len(l.keys), size: info.Size(), modified: time.Duration(info.ModTime().UnixNano()),
	})
}

// list reads a directory. Files that come and go meanwhile may be in it or not.
func list(root *os.Root, rel string) (*listing, error) {
	dir, err := root.Open(slash(rel))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l := &listing{}
	for {
		entries, err := dir.ReadDir(namesAtOnce)
		for _, e := range entries {
			if hidden(e.Name()) {
				continue
			}
			// It was asked for with the name, as the directory was opened in a Root.
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if info.IsDir() || info.Mode().IsRegular() {
				l.add(e.Name(), info)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(l.items) > maxNames {
			return nil, errTooManyNames
		}
	}
	slices.SortFunc(l.items, func(a, b item) int {
		return bytes.Compare(l.keys[a.begin:a.end], l.keys[b.begin:b.end])
	})
	return l, nil
}

// slash is rel as os.Root wants it.
func slash(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}
