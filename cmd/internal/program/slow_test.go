package program_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

// attackers is how many slow clients there are at a time.
const attackers = 500

// Each kind of slow client holds its connection just so long; meanwhile another gets
// its answer at once. When they are gone nothing of them is left: the bubble of
// the test would not end otherwise.
func TestSlowClients(t *testing.T) {
	for name, test := range map[string]struct {
		tls    bool
		attack func(net.Conn) // returns when the server has closed the connection
		within time.Duration
	}{
		"a handshake that does not begin": {tls: true, attack: read, within: program.ReadHeaderTimeout},
		"a handshake that trickles": {tls: true, attack: trickle(
			"\x16\x03\x01\x02\x00" + strings.Repeat("\x01", 1000),
		), within: program.ReadHeaderTimeout},
		"nothing": {attack: read, within: program.ReadHeaderTimeout},
		"a header that trickles": {attack: trickle(
			"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1000),
		), within: program.ReadHeaderTimeout},
		"a body that trickles": {attack: func(c net.Conn) {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
			trickle(strings.Repeat("x", 1000))(c)
		}, within: program.ReadTimeout},
		"a body that nobody reads": {attack: func(c net.Conn) {
			io.WriteString(c, "GET /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
			trickle(strings.Repeat("x", 1000))(c)
		}, within: program.ReadTimeout},
		"an answer that is not read": {attack: func(c net.Conn) {
			io.WriteString(c, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
			time.Sleep(program.WriteStall + time.Second/2)
			read(c)
		}, within: program.WriteStall},
		"an answer that is read byte by byte": {attack: func(c net.Conn) {
			io.WriteString(c, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
			for one := make([]byte, 1); ; time.Sleep(time.Second) {
				if _, err := c.Read(one); err != nil {
					return
				}
			}
		}, within: program.WriteStall},
		"a connection that is kept": {attack: func(c net.Conn) {
			ask(c, "/")
			read(c)
		}, within: program.IdleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e program.Endpoint
				if test.tls {
					e.TLS = newCertificate(t, time.Now().Add(365*24*time.Hour)).put(t, t.TempDir())
				}
				s := serve(t, e, 2*attackers, 2*attackers, large)
				began := time.Now()
				var all sync.WaitGroup
				var first, last time.Duration
				var mu sync.Mutex
				for range attackers {
					conn := s.dial("203.0.113.1")
					all.Go(func() {
						defer conn.Close()
						test.attack(conn)
						mu.Lock()
						defer mu.Unlock()
						if last = time.Since(began); first == 0 {
							first = last
						}
					})
				}
				time.Sleep(time.Second)
				if got := s.listener.Connections(); got != attackers {
					t.Errorf("%d connections are open of %d", got, attackers)
				}
				healthy := s.dial("203.0.113.2")
				if !test.tls {
					if got := ask(healthy, "/"); got != 200 || time.Since(began) > time.Second {
						t.Errorf("beside the slow ones: %d after %s", got, time.Since(began)-time.Second)
					}
				}
				healthy.Close()
				all.Wait()
				if first < test.within || last > test.within+time.Second {
					t.Errorf("they held their connections from %s to %s; want %s", first, last, test.within)
				}
				synctest.Wait()
				if got := s.listener.Connections(); got != 0 {
					t.Errorf("%d connections are left", got)
				}
				s.stop()
			})
		})
	}
}

// read reads until the connection is closed.
func read(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// trickle writes a byte each second, until the connection is closed.
func trickle(text string) func(net.Conn) {
	return func(c net.Conn) {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			read(c)
		}()
		for i := 0; i < len(text); i++ {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		<-closed
	}
}

// large answers /large with 1 MB, and does not look at what comes with /unread.
func large(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/unread":
	case "/large":
		_, _ = w.Write(make([]byte, 1<<20))
	default:
		hello(w, r)
	}
}

// A client that takes a large answer slowly, but not too slowly, gets all of it.
func TestASlowReaderGetsItAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, program.Endpoint{}, 10, 10, large)
		conn := s.dial("203.0.113.1")
		defer conn.Close()
		io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		got := 0
		for part := make([]byte, 4096); ; time.Sleep(time.Second) {
			n, err := conn.Read(part)
			if got += n; err != nil {
				break
			}
		}
		if got < 1<<20 {
			t.Errorf("got %d bytes of %d", got, 1<<20)
		}
		s.stop()
	})
}

// A header may have so many bytes and no more.
func TestHeaderTooLarge(t *testing.T) {
	for size, want := range map[int]int{program.MaxHeaderBytes / 2: 200, program.MaxHeaderBytes + 5000: 431} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, program.Endpoint{}, 10, 10, hello)
			conn := s.dial("203.0.113.1")
			defer conn.Close()
			if got := askWith(conn, "X: "+strings.Repeat("x", size)); got != want {
				t.Errorf("a header of %d bytes: %d; want %d", size, got, want)
			}
			s.stop()
		})
	}
}

// A handler's own deadline for the answer counts beside the one of each piece.
func TestDeadlineOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const own = program.WriteStall / 6
		s := serve(t, program.Endpoint{}, 10, 10, func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(own)); err != nil {
				t.Error(err)
			}
			large(w, r)
		})
		conn := s.dial("203.0.113.1")
		defer conn.Close()
		began := time.Now()
		io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		for part := make([]byte, 64<<10); ; time.Sleep(time.Second) {
			if _, err := conn.Read(part); err != nil {
				break
			}
		}
		if took := time.Since(began); took > own+2*time.Second {
			t.Errorf("the answer ended after %s; its handler gave it %s", took, own)
		}
		s.stop()
	})
}
