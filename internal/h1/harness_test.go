package h1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"carillon/internal/h1"
)

// config is one for this machine, without a guard.
func config() h1.Config {
	return h1.Config{
		Dial:    new(net.Dialer).DialContext,
		Timeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		MaxConnsPerHost: 8, IdlePerHost: 4, MaxConns: 16, IdleBytes: 1 << 20, SessionBytes: 1 << 20, IdleTimeout: time.Minute,
	}
}

func newClient(t testing.TB, cfg h1.Config) *h1.Client {
	t.Helper()
	c, err := h1.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func message(t testing.TB, body string) *h1.Message {
	t.Helper()
	m, err := h1.NewMessage([]byte(body), h1.Field{Name: "X-Test", Value: "a value"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// way is one of the ways in which bytes travel: each has code of its own.
type way struct {
	name   string
	secure bool
	cfg    h1.Config
	listen func(t testing.TB) net.Listener
}

// ways are past net, through net, and through TLS.
func ways(t *testing.T, test func(*testing.T, way)) {
	through := config()
	through.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return struct{ net.Conn }{c}, err
	}
	server, client := tlsPair(t)
	secured := config()
	secured.TLS = client
	for _, w := range []way{
		{"plain", false, config(), listenPlain},
		{"wrapped", false, through, listenPlain},
		{"TLS", true, secured, func(t testing.TB) net.Listener { return tls.NewListener(listenPlain(t), server) }},
	} {
		t.Run(w.name, func(t *testing.T) { test(t, w) })
	}
}

func listenPlain(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// tlsPair returns configurations of a server for 127.0.0.1 and of a client that
// trusts it.
func tlsPair(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	server = &tls.Config{Certificates: srv.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	return server, &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
}

// server hands each of its connections to a function, with its number from 1 on. They
// are closed when it returns.
type server struct {
	addr  string
	way   way
	mu    sync.Mutex
	conns int
}

func (w way) serve(t testing.TB, handle func(n int, c net.Conn, r *bufio.Reader)) *server {
	t.Helper()
	ln := w.listen(t)
	s := &server{addr: ln.Addr().String(), way: w}
	var wg sync.WaitGroup
	var open []net.Conn // guarded by mu
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			n := s.conns
			open = append(open, c)
			s.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// post makes a request to the root of the server.
func (s *server) post(ctx context.Context, t testing.TB, c *h1.Client, body string) (h1.Answer, error) {
	t.Helper()
	return c.Post(ctx, &h1.Request{Secure: s.way.secure, Authority: s.addr, Target: "/", Message: message(t, body)})
}

// status makes a request that is answered.
func (s *server) status(t testing.TB, c *h1.Client, body string) int {
	t.Helper()
	a, err := s.post(t.Context(), t, c, body)
	if err != nil {
		t.Fatal(err)
	}
	return a.Status
}

// take reads a request and returns its body.
func take(r *bufio.Reader) (string, bool) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", false
	}
	body, err := io.ReadAll(req.Body)
	return string(body), err == nil
}

// answering answers each request with the same bytes.
func answering(answer string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			if _, ok := take(r); !ok {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

const (
	ok204 = "HTTP/1.1 204 No Content\r\n\r\n"
	ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// held is what a client holds of hosts, connections and requests.
func held(c *h1.Client) h1.Stats {
	s := c.Stats()
	return h1.Stats{Hosts: s.Hosts, Conns: s.Conns, Idle: s.Idle, UnderWay: s.UnderWay}
}
