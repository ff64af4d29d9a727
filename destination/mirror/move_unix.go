//go:build unix

package mirror

import (
	"errors"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFolders is how many directories stay open, and keepFolder how long. A file may go to a
	// directory that was moved away within that time.
	maxFolders = 64
	keepFolder = time.Second
)

// mover moves files out of the directory ownName. It keeps the directories open that it moves them
// to: most files go where the one before went, and os.Root would walk to it for each.
type mover struct {
	root *os.Root
	own  *os.File // the directory ownName

	mu   sync.RWMutex       // held for reading while a directory is in use
	open map[string]*folder // guarded by mu
}

type folder struct {
	*os.File
	since time.Time
}

func newMover(root *os.Root) (*mover, error) {
	own, err := root.Open(ownName)
	if err != nil {
		return nil, err
	}
	return &mover{root: root, own: own, open: map[string]*folder{}}, nil
}

// move moves a file of ownName to a path below the root. Its errors are those of rename(2).
func (m *mover) move(name, to string) error {
	dir, base := path.Dir(to), path.Base(to)
	for {
		m.mu.RLock()
		if f := m.open[dir]; f != nil && time.Since(f.since) < keepFolder {
			err := unix.Renameat(int(m.own.Fd()), name, int(f.Fd()), base)
			m.mu.RUnlock()
			if err == nil {
				return nil
			}
			// It may not be the directory that has the path now.
			m.mu.Lock()
			defer m.mu.Unlock()
			return &os.LinkError{Op: "renameat", Old: name, New: to, Err: errors.Join(err, m.forget(dir))}
		}
		m.mu.RUnlock()
		if err := m.reopen(dir); err != nil {
			return err
		}
	}
}

// reopen opens a directory anew.
func (m *mover) reopen(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.open) >= maxFolders {
		if err := m.forgetAll(); err != nil {
			return err
		}
	}
	// Only a directory: to open a named pipe would wait for its other end.
	file, err := m.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = m.forget(dir)
		m.open[dir] = &folder{file, time.Now()}
	}
	return err
}

// forget closes a directory. The caller holds mu.
func (m *mover) forget(dir string) error {
	f := m.open[dir]
	if f == nil {
		return nil
	}
	delete(m.open, dir)
	return f.Close()
}

func (m *mover) forgetAll() (err error) {
	for dir := range m.open {
		err = errors.Join(err, m.forget(dir))
	}
	return err
}

func (m *mover) close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.forgetAll(), m.own.Close())
}
