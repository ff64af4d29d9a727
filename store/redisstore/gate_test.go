package redisstore_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate stands between one process and the server. While it is shut nothing gets
// through, as if the process were stopped or the network gone.
type gate struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	shut  bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu
	done  sync.WaitGroup
}

// newGate opens a gate to the server's address.
func newGate(t testing.TB, server string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, server: server, conns: make(map[net.Conn]struct{})}
	g.done.Go(g.serve)
	t.Cleanup(func() {
		_ = g.listener.Close() // it only listened
		g.close()
		g.done.Wait()
	})
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// close shuts the gate.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.conns {
		_ = c.Close() // which is the end that was wanted
	}
}

// open opens it again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

func (g *gate) serve() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.server)
		if err != nil {
			_ = client.Close() // as the server does that is not there
			continue
		}
		if g.admit(client, server) {
			g.done.Go(func() { g.pass(client, server) })
			g.done.Go(func() { g.pass(server, client) })
		}
	}
}

func (g *gate) admit(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		if g.shut {
			_ = c.Close() // nothing gets through
			continue
		}
		g.conns[c] = struct{}{}
	}
	return !g.shut
}

// pass copies until one side ends, which ends the other.
func (g *gate) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // both ends see how it ended
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close() // perhaps once more
		delete(g.conns, c)
	}
}
