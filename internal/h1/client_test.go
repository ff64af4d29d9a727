package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"carillon/internal/h1"
)

func TestRequestOnTheWire(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for _, body := range []string{
			"", "small\x00body\r\n", strings.Repeat("b", 2<<10), strings.Repeat("c", 2<<10+1), strings.Repeat("d", 16<<10),
			strings.Repeat("e", 16<<10+1), strings.Repeat("f", 64<<10), strings.Repeat("g", 200<<10),
		} {
			got := make(chan string, 1)
			s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
				var seen bytes.Buffer
				req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(r, &seen)))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, ok204)
				got <- seen.String()
			})
			m, err := h1.NewMessage([]byte(body), h1.Field{Name: "A", Value: " b\t"}, h1.Field{Name: "Content-Type", Value: "text/plain"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = newClient(t, w.cfg).Post(t.Context(), &h1.Request{
				Secure: w.secure, Authority: s.addr, Target: "/a?b", Message: m, Lines: []byte("X-One: 1\r\nX-Two: 2\r\n"),
			})
			if err != nil {
				t.Fatal(err)
			}
			head, rest, _ := strings.Cut(<-got, "\r\n\r\n")
			want := "POST /a?b HTTP/1.1\r\nHost: " + s.addr + "\r\nA: b\r\nContent-Type: text/plain\r\nContent-Length: " +
				strconv.Itoa(len(body)) + "\r\nX-One: 1\r\nX-Two: 2"
			equal(t, "head", head, want)
			equal(t, "body arrived", rest == body, true)
		}
	})
}

// A character that ends a line would begin another.
func TestBadFields(t *testing.T) {
	for _, f := range []h1.Field{
		{"Link", "a\r\nX: y"},
		{"Link", "a\ny"},
		{"Link", "a\ry"},
		{"Link", "a\x00y"},
		{"Link", "a\x1fy"},
		{"Link", "a\x7f"},
		{"Li nk", "a"},
		{"", "a"},
		{"Link:", "a"},
		{"Link\r\n", "a"},
	} {
		if _, err := h1.NewMessage(nil, f); err == nil {
			t.Errorf("%q was taken", f)
		}
	}
}

// Hosts as net/http reads them.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		secure                   bool
		authority, dialed, named string
	}{
		{false, "H.example", "H.example:80", "H.example"},
		{true, "h.example", "h.example:443", "h.example"},
		{true, "h.example:80", "h.example:80", "h.example:80"},
		{false, "h.example:", "h.example:80", "h.example:"},
		{false, "[::1]", "[::1]:80", "[::1]"},
		{false, "[fe80::1%eth0]:81", "[fe80::1%eth0]:81", "[fe80::1]:81"},
		{false, "b\u00fccher.example:8080", "xn--bcher-kva.example:8080", "xn--bcher-kva.example:8080"},
		{false, "h<.example", "", ""},
		{false, "h\r\nX: y", "", ""},
		{false, ":80", "", ""},
	} {
		dialed, named := "", make(chan string, 1)
		cfg := config()
		cfg.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = address
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				if req, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
					_, _ = io.WriteString(server, ok204)
					named <- req.Host
				}
				close(named)
			}()
			return client, nil
		}
		_, err := newClient(t, cfg).Post(t.Context(), &h1.Request{Secure: c.secure, Authority: c.authority, Target: "/", Message: message(t, "")})
		equal(t, c.authority+": dialed", dialed, c.dialed)
		switch {
		case c.dialed == "":
			if !errors.Is(err, h1.ErrBadHost) {
				t.Errorf("%q: %v", c.authority, err)
			}
		case !c.secure:
			equal(t, c.authority+": named", <-named, c.named)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, spoil := range map[string]func(*h1.Config){
		"Dial":            func(c *h1.Config) { c.Dial = nil },
		"Timeout":         func(c *h1.Config) { c.Timeout = 0 },
		"IdleTimeout":     func(c *h1.Config) { c.IdleTimeout = -1 },
		"MaxHeaderBytes":  func(c *h1.Config) { c.MaxHeaderBytes = 0 },
		"MaxConnsPerHost": func(c *h1.Config) { c.MaxConnsPerHost = 0 },
		"IdlePerHost":     func(c *h1.Config) { c.IdlePerHost = 0 },
		"MaxConns":        func(c *h1.Config) { c.MaxConns = -1 },
		"IdleBytes":       func(c *h1.Config) { c.IdleBytes = 0 },
		"SessionBytes":    func(c *h1.Config) { c.SessionBytes = 0 },
	} {
		cfg := config()
		spoil(&cfg)
		if _, err := h1.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A kept connection that turns out to be closed costs a repetition, on a new one; one
// that was new, or had begun to answer, does not.
func TestStaleConnection(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for name, c := range map[string]struct {
			second string // what the first connection says to the second request
			all    bool   // and all others to their first
			failed bool
			conns  int
		}{
			"kept, silent":             {"", false, false, 2},
			"kept, began to answer":    {"HTTP/1.1 2", false, true, 1},
			"kept, then new, silent":   {"", true, true, 2},
			"kept, answers and closes": {ok204, false, false, 1},
		} {
			t.Run(name, func(t *testing.T) {
				s := w.serve(t, func(n int, conn net.Conn, r *bufio.Reader) {
					take(r)
					if n > 1 && c.all {
						return
					}
					_, _ = io.WriteString(conn, ok204)
					if n == 1 {
						take(r)
						_, _ = io.WriteString(conn, c.second)
					}
				})
				client := newClient(t, w.cfg)
				equal(t, "status", s.status(t, client, "one"), 204)
				_, err := s.post(t.Context(), t, client, "two")
				equal(t, "failed", err != nil, c.failed)
				equal(t, "connections", s.connections(), c.conns)
			})
		}
		t.Run("new, silent", func(t *testing.T) {
			s := w.serve(t, func(_ int, _ net.Conn, r *bufio.Reader) { take(r) })
			if _, err := s.post(t.Context(), t, newClient(t, w.cfg), "one"); err == nil {
				t.Error("an answer")
			}
			equal(t, "connections", s.connections(), 1)
		})
	})
}

// An answer that comes before the request is out counts, and its connection is closed.
func TestEarlyAnswer(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
			<-t.Context().Done() // it reads no more
		})
		client := newClient(t, w.cfg)
		equal(t, "status", s.status(t, client, strings.Repeat("b", 32<<20)), 413)
		equal(t, "left", held(client), h1.Stats{})
	})
}

// A large body goes out whole, whatever the pace at which it is read, and its
// connection is kept.
func TestLargeBody(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		body := strings.Repeat("0123456789abcde\n", 1<<19)
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				got, ok := take(bufio.NewReaderSize(slowly{r}, 64<<10))
				if !ok {
					return
				}
				if got != body {
					t.Errorf("%d bytes arrived, or others", len(got))
				}
				_, _ = io.WriteString(c, ok204)
			}
		})
		client := newClient(t, w.cfg)
		for range 2 {
			equal(t, "status", s.status(t, client, body), 204)
		}
		equal(t, "connections", s.connections(), 1)
	})
}

// slowly reads a little at a time.
type slowly struct{ r io.Reader }

func (s slowly) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), 1500)]) }

// The connections to a host are bounded; a later request waits, and takes over.
func TestConnectionBound(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		w.cfg.MaxConnsPerHost = 2
		asked, release := make(chan bool, 8), make(chan bool)
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				if _, ok := take(r); !ok {
					return
				}
				asked <- true
				<-release
				_, _ = io.WriteString(c, ok204)
			}
		})
		client := newClient(t, w.cfg)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if _, err := s.post(t.Context(), t, client, "x"); err != nil {
					t.Error(err)
				}
			})
		}
		for range 6 {
			<-asked
			if n := client.Stats().Conns; n > 2 {
				t.Errorf("%d connections", n)
			}
			release <- true
		}
		wg.Wait()
		if n := s.connections(); n > 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// Idle connections are bounded, for a host and in all, and end after a time.
func TestIdleBounds(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		w.cfg.IdlePerHost, w.cfg.MaxConns = 2, 5
		asked, release := make(chan bool, 4), make(chan bool)
		handle := func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				if _, ok := take(r); !ok {
					return
				}
				asked <- true
				<-release
				if _, err := io.WriteString(c, ok204); err != nil {
					return
				}
			}
		}
		client := newClient(t, w.cfg)
		for i, want := range []int{2, 3} {
			s := w.serve(t, handle)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { s.status(t, client, "x") })
			}
			for range 4 {
				<-asked
			}
			for range 4 {
				release <- true
			}
			wg.Wait()
			stats := client.Stats()
			equal(t, "idle", stats.Idle, want)
			equal(t, "connections", stats.Conns, want)
			equal(t, "hosts", stats.Hosts, i+1)
		}
		client.CloseIdleConnections()
		equal(t, "left", held(client), h1.Stats{})
	})
}

// A connection that finds no room among the idle ones is closed by a request that has
// its answer, and must not wait: so there is no farewell of TLS.
func TestNoRoomToIdle(t *testing.T) {
	server, client := tlsPair(t)
	w := way{secure: true, cfg: config(), listen: listenPlain}
	w.cfg.TLS = client
	for name, bound := range map[string]*int{"of a host": &w.cfg.IdlePerHost, "in all": &w.cfg.MaxConns} {
		t.Run(name, func(t *testing.T) {
			was := *bound
			defer func() { *bound = was }()
			*bound = 1
			asked, release, ended := make(chan bool), make(chan bool), make(chan bool, 2)
			s := w.serve(t, func(_ int, nc net.Conn, _ *bufio.Reader) {
				below := &counting{Conn: nc}
				c := tls.Server(below, server)
				r := bufio.NewReader(c)
				take(r)
				asked <- true
				<-release
				before := below.n
				_, _ = io.WriteString(c, ok204)
				_, _ = r.ReadByte()
				ended <- below.n > before
			})
			client := newClient(t, w.cfg)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { s.status(t, client, "x") })
			}
			for range 2 {
				<-asked
			}
			close(release)
			wg.Wait()
			equal(t, "farewell without room", <-ended, false)
			client.CloseIdleConnections()
			equal(t, "farewell otherwise", <-ended, true)
		})
	}
}

// counting counts the bytes that are read.
type counting struct {
	net.Conn
	n int // of the reader
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	return n, err
}

func TestTLS(t *testing.T) {
	server, client := tlsPair(t)
	var states []tls.ConnectionState
	var mu sync.Mutex
	w := way{secure: true, cfg: config(), listen: func(t testing.TB) net.Listener {
		ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}}
	s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, ok := take(r); ok {
			mu.Lock()
			states = append(states, c.(*tls.Conn).ConnectionState())
			mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	w.cfg.TLS = client
	trusting := newClient(t, w.cfg)
	for range 2 {
		equal(t, "status", s.status(t, trusting, "x"), 200)
	}
	mu.Lock()
	equal(t, "protocol", states[0].NegotiatedProtocol, "http/1.1")
	equal(t, "first resumed", states[0].DidResume, false)
	equal(t, "second resumed", states[1].DidResume, true)
	mu.Unlock()

	var unknown *tls.CertificateVerificationError
	w.cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	if _, err := s.post(t.Context(), t, newClient(t, w.cfg), "x"); !errors.As(err, &unknown) {
		t.Errorf("an unknown authority: %v", err)
	}
	w.cfg.TLS = &tls.Config{RootCAs: client.RootCAs, ServerName: "other.example.org"}
	if _, err := s.post(t.Context(), t, newClient(t, w.cfg), "x"); !errors.As(err, &unknown) {
		t.Errorf("another name: %v", err)
	}
	plain := way{listen: listenPlain}.serve(t, answering(ok204))
	var record tls.RecordHeaderError
	plain.way.secure = true
	if _, err := plain.post(t.Context(), t, newClient(t, w.cfg), "x"); !errors.As(err, &record) && err == nil {
		t.Errorf("no TLS: %v", err)
	}
}

// In the steady state nothing is allocated: neither for the request nor for the answer,
// the deadline or the context.
func TestPostCostsNoMemory(t *testing.T) {
	w := way{cfg: config(), listen: listenPlain}
	s := w.serve(t, func(_ int, c net.Conn, _ *bufio.Reader) { drink(c, len("a body")) })
	client := newClient(t, w.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &h1.Request{Authority: s.addr, Target: "/", Message: message(t, "a body"), Lines: []byte("X: y\r\n")}
	n := testing.AllocsPerRun(500, func() {
		if _, err := client.Post(ctx, r); err != nil {
			t.Fatal(err)
		}
	})
	if n > droppedByPool {
		t.Errorf("%v allocations", n)
	}
}
