package directory

import (
	"context"
	"io/fs"
	"os"

	"carillon/payload"
)

// Scanned has f called at the end of each scan.
func (d *Directory) Scanned(f func(error)) { d.scanned = f }

// FailReading makes reading of files, and listing of directories, fail as fails says.
func (d *Directory) FailReading(fails func(rel string) error) {
	d.list = func(root *os.Root, rel string) (*listing, error) {
		if err := fails(rel); err != nil {
			return nil, err
		}
		return list(root, rel)
	}
	d.read = func(ctx context.Context, root *os.Root, rel string, info fs.FileInfo) (payload.Entry, error) {
		if err := fails(rel); err != nil {
			return payload.Entry{}, err
		}
		return read(ctx, root, rel, info)
	}
}

// LimitPending bounds how many files may wait.
func (d *Directory) LimitPending(most int) { d.queue.most = most }

// WasMounted has a directory remembered as one with a file system of its own.
func (d *Directory) WasMounted(rel string) {
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	d.watches.folders[rel].device++
}

// Kept is how many files and directories something is in memory for.
func (d *Directory) Kept() (files, directories int) {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	return len(d.queue.pending) + len(d.queue.busy), len(d.watches.folders)
}

// LocOf, RelOf and UnescapePath are the names' ways to and from URIs.
func (d *Directory) LocOf(rel string) string         { return d.names.locOf(rel) }
func (d *Directory) RelOf(loc string) (string, bool) { return d.names.relOf(loc) }

var UnescapePath = unescapePath
