package archive

import (
	"slices"
	"sync"
)

// mostLoaded bounds the memory of a Loaded. The facts of one document are some MB at most.
const mostLoaded = 16

// Loaded keeps what was read of archived documents, those used last, as they never change. The zero
// value is ready. Its method may be called from any goroutine.
type Loaded[T any] struct {
	mu   sync.Mutex
	dirs []string // guarded by mu: used last is last
	all  []T      // guarded by mu: of dirs
}

// Get returns what load returns for the directory of a document, and calls load only where that is
// not kept. An error is not kept.
func (l *Loaded[T]) Get(dir string, load func(dir string) (T, error)) (one T, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.dirs, dir); i >= 0 {
		one = l.all[i]
		l.dirs, l.all = slices.Delete(l.dirs, i, i+1), slices.Delete(l.all, i, i+1)
	} else if one, err = load(dir); err != nil {
		return one, err
	}
	l.dirs, l.all = append(l.dirs, dir), append(l.all, one)
	if len(l.dirs) > mostLoaded {
		l.dirs, l.all = slices.Delete(l.dirs, 0, 1), slices.Delete(l.all, 0, 1)
	}
	return one, nil
}
