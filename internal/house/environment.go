package house

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"carillon/internal/machine"
)

// lookAroundEvery is how often it is looked who else may read the store's files.
const lookAroundEvery = time.Minute

// environment collects warnings about the machine: the permissions of the hub's files, and its limit
// of memory.
type environment struct {
	look func() []string

	mu     sync.Mutex
	looked time.Time // guarded by mu
	found  []string  // guarded by mu
}

// environment returns the surroundings of a hub.
func (c Config) environment() *environment {
	return &environment{look: func() []string {
		all := c.Engine().Exposed()
		if warning := machine.WarnOfMemory(machine.MemoryLimit(), machine.GroupLimit(os.DirFS("/"))); warning != "" {
			all = append(all, warning)
		}
		return all
	}}
}

// warnings are what was found a minute ago at most.
func (s *environment) warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked.IsZero() || time.Since(s.looked) >= lookAroundEvery {
		s.found, s.looked = s.look(), time.Now()
	}
	return s.found
}

// logWarnings logs what /readyz warns of.
func (s *environment) logWarnings(logger *slog.Logger) {
	for _, warning := range s.warnings() {
		logger.Warn(warning)
	}
}
