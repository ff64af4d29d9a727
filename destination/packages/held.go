package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"carillon/destination/lists"
	"carillon/internal/fetch"
)

// Suffixes of the two files of a package.
const (
	zipSuffix  = ".zip"
	infoSuffix = ".json"
	newSuffix  = ".new" // of a note that is being written
)

// maxNote bounds the file that says what a package is, bytes.
const maxNote = 64 << 10

// directory is where packages are. Nothing outside of it is opened.
type directory struct {
	name string
	mu   sync.Mutex
	root *os.Root // guarded by mu; nil until something is downloaded
}

// open makes the directory where it is missing.
func (d *directory) open() (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil {
		return d.root, nil
	}
	if err := os.MkdirAll(d.name, 0o700); err != nil {
		return nil, fmt.Errorf("directory for packages: %w", err)
	}
	root, err := os.OpenRoot(d.name)
	if err != nil {
		return nil, fmt.Errorf("directory for packages: %w", err)
	}
	d.root = root
	return root, nil
}

// begun returns the directory where an earlier download has left something in it; nil where none has.
func (d *directory) begun() (*os.Root, error) {
	if entries, err := os.ReadDir(d.name); len(entries) == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	return d.open()
}

func (d *directory) close() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil {
		err = d.root.Close()
		d.root = nil
	}
	return err
}

func (d *directory) sweep() error {
	err := d.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, readErr := os.ReadDir(d.name)
	if errors.Is(readErr, fs.ErrNotExist) {
		return err
	}
	err = errors.Join(err, readErr)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == zipSuffix || ext == infoSuffix || ext == newSuffix {
			err = errors.Join(err, os.Remove(filepath.Join(d.name, e.Name())))
		}
	}
	if err == nil {
		err = os.Remove(d.name)
	}
	return err
}

// fileInfo says what the file of a package is.
type fileInfo struct {
	URI string `json:"uri"`
	// The dump's description of the package when the download began.
	Length  int64  `json:"length"`
	Hash    string `json:"hash,omitempty"`
	LastMod string `json:"lastmod,omitempty"`
	// ETag and LastModified are the server's validators, where they are strong; Total is how many
	// bytes there are, -1 where it does not tell.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	Total        int64  `json:"total"`
	// Whole: all of it is there, and matches the dump's description.
	Whole bool `json:"whole,omitempty"`
	// Used: all that it has was taken, and the file was removed.
	Used bool `json:"used,omitempty"`
}

// of reports whether the note is about a package as the dump describes it now.
func (n *fileInfo) of(p *lists.Package) bool {
	return n.URI == p.URI && n.Length == p.Length && n.Hash == p.Hash && n.LastMod == p.LastMod
}

func (n *fileInfo) validators() fetch.Validators {
	return fetch.Validators{ETag: n.ETag, LastModified: n.LastModified}
}

// held is what the directory has of one package.
type held struct {
	root *os.Root
	name string // of its files, without the suffix
	info fileInfo
	size int64 // of the file that is there
}

func nameOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return hex.EncodeToString(sum[:16])
}

// hold returns what is there of a package; nothing, where what is there is of another version.
func (c *Client) hold(p lists.Package) (*held, error) {
	root, err := c.dir.open()
	if err != nil {
		return nil, err
	}
	h := &held{root: root, name: nameOf(p.URI)}
	fresh := fileInfo{URI: p.URI, Length: p.Length, Hash: p.Hash, LastMod: p.LastMod, Total: -1}
	if n, ok := h.read(); ok && n.of(&p) {
		if info, err := root.Lstat(h.name + zipSuffix); err == nil && info.Mode().IsRegular() && (!n.Whole || info.Size() == n.Total) {
			h.info, h.size = n, info.Size()
			return h, nil
		}
	}
	if err := h.drop(); err != nil {
		return nil, err
	}
	h.info = fresh
	return h, nil
}

func (h *held) read() (n fileInfo, ok bool) {
	if info, err := h.root.Lstat(h.name + infoSuffix); err != nil || !info.Mode().IsRegular() || info.Size() > maxNote {
		return n, false
	}
	b, err := h.root.ReadFile(h.name + infoSuffix)
	return n, err == nil && json.Unmarshal(b, &n) == nil
}

// write writes the note. A process that is killed meanwhile leaves the one before.
func (h *held) write() error {
	b, err := json.Marshal(h.info)
	if err == nil {
		err = h.root.WriteFile(h.name+newSuffix, b, 0o600)
	}
	if err == nil {
		err = h.root.Rename(h.name+newSuffix, h.name+infoSuffix)
	}
	return err
}

// forget has the next request ask for all of it.
func (h *held) forget() {
	h.info.ETag, h.info.LastModified, h.info.Total, h.info.Whole = "", "", -1, false
	h.size = 0
}

func (h *held) open() (*os.File, error) { return h.root.Open(h.name + zipSuffix) }

// used records that all was taken, and removes the file.
func (h *held) used() error {
	h.info.Used = true
	err := h.write()
	if err == nil {
		err = h.root.Remove(h.name + zipSuffix)
	}
	return err
}

// writer opens the file to append what comes to the first h.size bytes.
func (h *held) writer() (*os.File, error) {
	file, err := h.root.OpenFile(h.name+zipSuffix, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = file.Truncate(h.size)
	if err == nil {
		_, err = file.Seek(h.size, 0)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// drop removes both files: the note first, so that no note is left of a file that is gone.
func (h *held) drop() error {
	h.forget()
	var all []error
	for _, suffix := range []string{infoSuffix, zipSuffix} {
		if err := h.root.Remove(h.name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}
