package h1_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// round makes a request to each of so many hosts, one after the other, a second apart.
func round(t *testing.T, client *h1.Client, from, hosts int) {
	t.Helper()
	for i := range hosts {
		if _, err := client.Post(t.Context(), to(t, from+i)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
}

// Rounds over more hosts than fit find the connections of those that fit. Dropping the
// connection that was used longest ago, they would find none.
func TestRoundsOverTooManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		cfg.MaxConns, cfg.IdleTimeout = 8, time.Hour
		client := newClient(t, cfg)
		const hosts = 12
		for range 3 {
			round(t, client, 0, hosts)
		}
		p.dials()
		const rounds = 10
		for range rounds {
			round(t, client, 0, hosts)
		}
		// At best it finds 7 of 12 each time: the eighth is the one that makes room.
		if opened := p.dials(); opened > rounds*(hosts-6) {
			t.Errorf("%d connections were opened in %d rounds", opened, rounds)
		}
		equal(t, "dropped, and no more", client.Stats().Conns, 8)
		client.CloseIdleConnections()
	})
}

// A connection in frequent use stays beside rounds over too many hosts.
func TestOftenUsedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		cfg.MaxConns, cfg.IdleTimeout = 8, time.Hour
		client := newClient(t, cfg)
		opened := 0
		for i := range 300 {
			round(t, client, i%20, 1)
			before := client.Stats()
			round(t, client, 100, 1)
			after := client.Stats()
			if i >= 20 {
				opened += int(after.Handshakes + after.Resumed - before.Handshakes - before.Resumed)
			}
		}
		if opened > 5 {
			t.Errorf("for the host that is used every other second %d connections were opened", opened)
		}
		client.CloseIdleConnections()
	})
}

// Hosts that are not used any more make room for those that are.
func TestOthersMoveIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		cfg.MaxConns, cfg.IdleTimeout = 8, time.Hour
		client := newClient(t, cfg)
		for range 5 {
			round(t, client, 0, 8)
		}
		for range 12 {
			round(t, client, 100, 8)
		}
		p.dials()
		round(t, client, 100, 8)
		equal(t, "connections opened for those that have moved in", p.dials(), 0)
		client.CloseIdleConnections()
	})
}

// The memory of idle connections is bounded, and counted.
func TestIdleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		cfg.IdleBytes = 6 * h1.TLSBytes
		client := newClient(t, cfg)
		round(t, client, 0, 10)
		s := client.Stats()
		equal(t, "idle", s.Idle, 4) // its certificate makes each a quarter larger, about
		equal(t, "connections", s.Conns, 4)
		equal(t, "dropped", s.Dropped, 6)
		if s.IdleBytes < 4*h1.TLSBytes || s.IdleBytes > cfg.IdleBytes {
			t.Errorf("they take %d bytes", s.IdleBytes)
		}
		client.CloseIdleConnections()
		equal(t, "left", client.Stats().IdleBytes, 0)
	})
}

// A host is remembered for its session when its connections are gone, and its connections
// resume that, whatever the number of hosts since.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		client := newClient(t, p.config())
		const hosts = 100
		round(t, client, 0, hosts)
		equal(t, "handshakes", client.Stats().Handshakes, hosts)
		client.CloseIdleConnections()
		s := client.Stats()
		equal(t, "remembered", s.Remembered, hosts)
		equal(t, "others", s.Hosts, 0)
		round(t, client, 0, hosts)
		s = client.Stats()
		equal(t, "full handshakes", s.Handshakes, hosts)
		equal(t, "resumed", s.Resumed, hosts)
		client.CloseIdleConnections()
	})
}

// The memory of sessions is bounded.
func TestSessionMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		client := newClient(t, cfg)
		round(t, client, 0, 1)
		each := client.Stats().SessionBytes
		if each < 1000 {
			t.Fatalf("a session takes %d bytes", each)
		}
		client.CloseIdleConnections()

		cfg.SessionBytes, cfg.MaxConns = 10*each+each/2, 5
		client = newClient(t, cfg)
		for range 3 {
			round(t, client, 0, 30)
			s := client.Stats()
			if s.SessionBytes > cfg.SessionBytes || s.SessionBytes < 9*each {
				t.Errorf("%d bytes of sessions, of %d", s.SessionBytes, cfg.SessionBytes)
			}
			if s.Remembered+s.Hosts > 10 {
				t.Errorf("%d hosts are remembered", s.Remembered+s.Hosts)
			}
		}
		client.CloseIdleConnections()
	})
}

// The server's handshake data beside certificates counts, as it is kept with them, and is bounded.
func TestLargeHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		chain := &p.server.Certificates[0]
		chain.OCSPStaple = make([]byte, 60_000)
		cfg := p.config()
		client := newClient(t, cfg)
		for _, how := range []string{"full", "resumed"} {
			round(t, client, 0, 1)
			if s := client.Stats(); s.IdleBytes < h1.TLSBytes+40_000 {
				t.Errorf("a connection after a %s handshake of 60 KB takes %d bytes", how, s.IdleBytes)
			}
			client.CloseIdleConnections()
		}
		equal(t, "resumed", client.Stats().Resumed, 1)

		for range 60 {
			chain.Certificate = append(chain.Certificate, chain.Certificate[0])
		}
		_, err := client.Post(t.Context(), to(t, 1))
		if err == nil || !strings.Contains(err.Error(), "tls: the handshake of the server is too long") {
			t.Errorf("a handshake of 100 KB: %v", err)
		}
	})
}

// A host that gives no session is not remembered.
func TestNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		p.server.SessionTicketsDisabled = true
		client := newClient(t, p.config())
		round(t, client, 0, 3)
		client.CloseIdleConnections()
		s := client.Stats()
		equal(t, "remembered", s.Remembered, 0)
		equal(t, "bytes", s.SessionBytes, 0)
	})
}

// Connections that their servers have closed are noticed while they are unused, and those that got a
// ticket meanwhile stay.
func TestLookAtIdle(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		if w.name == "wrapped" {
			return // it cannot be read without waiting, and stays until its time
		}
		ended, closing := make(chan bool, 2), make(chan bool)
		s := w.serve(t, func(n int, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, ok204)
			if n == 1 {
				<-closing
				if secured, ok := c.(*tls.Conn); ok {
					_ = secured.CloseWrite()
				} else {
					_ = c.(*net.TCPConn).CloseWrite()
				}
				ended <- true
			}
			_, _ = r.ReadByte()
		})
		client := newClient(t, w.cfg)
		s.status(t, client, "x")
		client.LookAround()
		equal(t, "while it is open", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		close(closing)
		<-ended
		for client.Stats().Idle > 0 && t.Context().Err() == nil {
			client.LookAround() // the end is under way
		}
		equal(t, "when it is closed", held(client), h1.Stats{})
	})
}

// Tickets do not make a connection seem used: its server could make it last as long as it wants.
func TestTicketsAreNoUse(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		if !w.secure {
			return
		}
		client := newClient(t, w.cfg)
		for range 2 {
			w.serve(t, answering(ok204)).status(t, client, "x")
		}
		before, after := client.Hear()
		equal(t, "connections", len(after), 2)
		for host, since := range before {
			equal(t, "since when "+host+" is idle", after[host], since)
		}
	})
}

// Connections that take more than those that they replace do not exceed the memory either.
func TestIdleMemoryOfLargeCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 0)
		cfg := p.config()
		cfg.IdleBytes, cfg.IdleTimeout = 16*h1.TLSBytes, time.Hour
		client := newClient(t, cfg)
		round(t, client, 0, 10)
		time.Sleep(5 * time.Minute) // no request is expected on them any more
		chain := &p.server.Certificates[0].Certificate
		for range 20 {
			*chain = append(*chain, (*chain)[0])
		}
		round(t, client, 10, 10)
		if took := client.Stats().IdleBytes; took == 0 || took > cfg.IdleBytes {
			t.Errorf("they take %d bytes, of %d", took, cfg.IdleBytes)
		}
		client.CloseIdleConnections()
	})
}
