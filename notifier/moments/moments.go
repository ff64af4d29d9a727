// Package moments keeps directories that are named for a moment and appear whole: generations of
// Resource Lists and dumps.
//
//	DIR/{moment}.making   while its files are being written
//	DIR/{moment}          when all of them are durable
//
// Begin and Finish guarantee that names are durable, too, up to a directory that exists already. A
// crash leaves a directory of the first form at most, which List reports as not whole. The package
// does not know what the files are.
package moments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"carillon/internal/durable"
)

// Layout is the form of a moment in names and addresses: UTC, microseconds, sorted by time.
const Layout = "20060102T150405.000000Z"

// Making is the end of a name whose file or directory is not whole.
const Making = ".making"

// Name returns the name for a moment.
func Name(at time.Time) string { return at.UTC().Format(Layout) }

// Parse returns the moment of a name.
func Parse(name string) (time.Time, error) { return time.Parse(Layout, name) }

// Begin makes the directory in dir where the files of a moment are written. root is dir, or above
// it; it exists already, and its own name is durable.
func Begin(root, dir string, at time.Time) (making string, err error) {
	making = filepath.Join(dir, Name(at)+Making)
	return making, durable.MkdirAll(root, making)
}

// Finish gives a directory of Begin its final name. Its files must be durable.
func Finish(making string) (whole string, err error) {
	whole = strings.TrimSuffix(making, Making)
	if err := durable.SyncDirectory(making); err != nil {
		return "", err
	}
	if err := os.Rename(making, whole); err != nil {
		return "", err
	}
	return whole, durable.SyncDirectory(filepath.Dir(whole))
}

// Found is a directory that List has found.
type Found struct {
	Path  string
	At    time.Time
	Whole bool // Finish was called
}

// List returns the directories in dir that are named for a moment, oldest first. It is empty if dir
// does not exist.
func List(dir string) (all []Found, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		name, making := strings.CutSuffix(entry.Name(), Making)
		if at, err := Parse(name); err == nil && entry.IsDir() {
			all = append(all, Found{Path: filepath.Join(dir, entry.Name()), At: at, Whole: !making})
		}
	}
	return all, err
}

// ReadJSON reads a JSON file of at most so many bytes. Its errors name the file without its
// directory.
func ReadJSON(name string, most int64, into any) error {
	info, err := os.Stat(name)
	if err == nil && info.Size() > most {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(name), most)
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
