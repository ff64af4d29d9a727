package directory

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// happened takes an event of the file system.
func (d *Directory) happened(event fsnotify.Event) {
	rel, ok := d.names.relPath(event.Name)
	if !ok || hiddenPath(rel) {
		return
	}
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	if rel == "" {
		if gone {
			d.askRescan()
		}
		return
	}
	switch {
	case gone:
		if d.watches.forget(rel) {
			if event.Has(fsnotify.Rename) {
				d.askRescan() // no events come for the files below; a removed directory was empty
			}
			return
		}
	case event.Has(fsnotify.Create):
		if info, err := os.Lstat(d.names.pathOf(rel)); err == nil && info.IsDir() {
			d.appeared(rel)
			return
		}
	case d.watches.has(rel): // its attributes
		return
	}
	d.queue.await(rel, wait{gone: gone, touched: true})
}

// appeared takes a new directory with all that it has by now.
func (d *Directory) appeared(rel string) {
	if len(d.names.locOf(rel)) > maxLoc {
		return // a scan finds it
	}
	root, err := d.open()
	if err != nil {
		return // a scan was asked for, or will come
	}
	defer root.Close()
	d.adopt(root, rel)
}

// adopt watches a directory and takes its files; false if there is no room for
// more of them.
func (d *Directory) adopt(root *os.Root, rel string) bool {
	info, err := root.Lstat(rel)
	if err != nil || !info.IsDir() {
		return true
	}
	d.watches.add(rel, deviceOf(info))
	l, err := d.list(root, rel)
	if err != nil {
		d.askRescan() // which finds it
		return true
	}
	for i := range l.items {
		child := join(rel, l.name(i))
		if l.isDir(i) && !d.adopt(root, child) || !l.isDir(i) && !d.queue.await(child, wait{touched: true}) {
			return false
		}
	}
	return true
}
