package page_test

import (
	"errors"
	"slices"
	"sync"
)

// level is that of log lines.
type level struct {
	mu   sync.Mutex
	name string
}

func (l *level) Get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

func (l *level) Set(name string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, name) {
		return errors.New("the log level must be debug, info, warn or error")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = name
	return nil
}
