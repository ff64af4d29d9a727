package redistest

import (
	"os"
	"sync"
	"testing"
)

// Shared are the servers of a package's tests: a test has one to itself until its end, and
// then the next test has it, with a prefix or a database of its own. TestMain calls Stop after
// the tests.
type Shared struct {
	mu   sync.Mutex
	of   map[testing.TB]*Server
	idle []*Server
	all  []*Server
}

// NewShared returns Shared that have no server yet.
func NewShared() *Shared { return &Shared{of: map[testing.TB]*Server{}} }

// Server returns the server of a test, the same one each time.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	need(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if server := s.of[t]; server != nil {
		return server
	}
	server := s.next(t)
	s.of[t] = server
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.of, t)
		s.idle = append(s.idle, server)
	})
	return server
}

// next returns a server that no test has. s.mu is held.
func (s *Shared) next(t testing.TB) *Server {
	t.Helper()
	if n := len(s.idle); n > 0 {
		server := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return server
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{dir: dir}
	server.start(t)
	s.all = append(s.all, server)
	return server
}

// Stop stops all servers. No test runs any more.
func (s *Shared) Stop() {
	for _, server := range s.all {
		server.end()
		_ = os.RemoveAll(server.dir) // the rest lies among the system's temporary files
	}
	s.idle, s.all = nil, nil
}
