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

// surroundings are what a hub is warned of that is not its own doing: who may read its
// files, and how much memory it may have.
type environment struct {
	look func() []string

	mu     sync.Mutex
	looked time.Time // guarded by mu
	found  []string  // guarded by mu
}

// around returns the surroundings of a hub.
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

// tell logs what /readyz warns of.
func (s *environment) logWarnings(logger *slog.Logger) {
	for _, warning := range s.warnings() {
		logger.Warn(warning)
	}
}
