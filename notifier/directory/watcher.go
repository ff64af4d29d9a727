package directory

import (
	"errors"
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// Watcher reports the events in the directories that it is given, not below them: fsnotify's, or one
// of a test. Both channels are closed after Close.
type Watcher interface {
	Add(path string) error
	Remove(path string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

// NewFSWatcher watches by what the operating system has for it.
func NewFSWatcher() (Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching the file system: %w", err)
	}
	return fsWatcher{w}, nil
}

type fsWatcher struct{ w *fsnotify.Watcher }

func (f fsWatcher) Add(path string) error { return f.w.Add(path) }

func (f fsWatcher) Remove(path string) error {
	if err := f.w.Remove(path); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		return err
	}
	return nil
}

func (f fsWatcher) Events() <-chan fsnotify.Event { return f.w.Events }
func (f fsWatcher) Errors() <-chan error          { return f.w.Errors }
func (f fsWatcher) Close() error                  { return f.w.Close() }
