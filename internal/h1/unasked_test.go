//go:build unix

package h1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/internal/h1"
)

const gone = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"

// Bytes on an idle connection answer nothing, and its end is seen before anything is sent: also where
// the server reads on, and would never say more. However soon the next request follows.
func TestUnasked(t *testing.T) {
	for name, say := range map[string]func(net.Conn){
		"a late answer":  func(c net.Conn) { _, _ = io.WriteString(c, gone) },
		"an end":         func(c net.Conn) { _ = c.Close() },
		"half of an end": func(c net.Conn) { _ = c.(interface{ CloseWrite() error }).CloseWrite() },
	} {
		unasked := func(second func(*server, testing.TB, *h1.Client) int) func(*testing.T, way) {
			return func(t *testing.T, w way) {
				var last *net.TCPConn
				w.cfg.Dial = remembering(w.cfg.Dial, &last)
				w.cfg.Timeout = 10 * time.Second // to fail by
				now := make(chan bool)
				s := w.serve(t, func(n int, c net.Conn, r *bufio.Reader) {
					if n > 1 {
						answering(ok204)(n, c, r)
						return
					}
					take(r)
					_, _ = io.WriteString(c, ok204)
					<-now
					say(c)
					_, _ = io.Copy(io.Discard, r)
				})
				client := newClient(t, w.cfg)
				equal(t, "status", s.status(t, client, "one"), 204)
				now <- true
				arrived(t, last)
				equal(t, "status", second(s, t, client), 204)
				equal(t, "connections", s.connections(), 2)
				equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
				equal(t, "status", s.status(t, client, "three"), 204)
				equal(t, "connections, all being quiet", s.connections(), 2)
			}
		}
		t.Run(name, func(t *testing.T) {
			ways(t, unasked(func(s *server, t testing.TB, c *h1.Client) int { return s.status(t, c, "two") }))
		})
		t.Run(name+", before a round trip", func(t *testing.T) { ways(t, unasked((*server).headStatus)) })
	}
}

// headStatus makes a HEAD that is answered.
func (s *server) headStatus(t testing.TB, c *h1.Client) int {
	t.Helper()
	resp, err := s.get(t.Context(), t, c, http.MethodHead)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// What TLS has read together with an answer is seen, too.
func TestUnaskedInTheSameSegment(t *testing.T) {
	server, trusting := tlsPair(t)
	w := way{secure: true, cfg: config(), listen: listenPlain}
	w.cfg.TLS = trusting
	s := w.serve(t, func(n int, nc net.Conn, _ *bufio.Reader) {
		held := &holding{Conn: nc}
		c := tls.Server(held, server)
		r := bufio.NewReader(c)
		if _, ok := take(r); !ok {
			return
		}
		if n == 1 {
			held.hold()
			_, _ = io.WriteString(c, ok204)
			_, _ = io.WriteString(c, gone)
			held.release()
		} else {
			_, _ = io.WriteString(c, ok204)
		}
		answering(ok204)(n, c, r)
	})
	client := newClient(t, w.cfg)
	for _, body := range []string{"one", "two", "three"} {
		equal(t, "status of "+body, s.status(t, client, body), 204)
	}
	equal(t, "connections", s.connections(), 2)
}

// holding is a connection that can hold back what is written, to send it in one piece.
type holding struct {
	net.Conn
	mu      sync.Mutex
	holds   bool
	written []byte
}

func (h *holding) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = true
}

func (h *holding) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holds {
		h.written = append(h.written, b...)
		return len(b), nil
	}
	return h.Conn.Write(b)
}

func (h *holding) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = false
	_, _ = h.Conn.Write(h.written)
}

// A server that is too busy to read may say so at once, and then only read: no more is
// waited for.
func TestAnswerBeforeTheRequest(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		if w.secure {
			return // it says nothing before the handshake
		}
		w.cfg.Timeout = 10 * time.Second // to fail by
		dial := w.cfg.Dial
		w.cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			var tcp *net.TCPConn
			c, err := remembering(dial, &tcp)(ctx, network, address)
			if err == nil {
				arrived(t, tcp)
			}
			return c, err
		}
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, r)
		})
		equal(t, "status", s.status(t, newClient(t, w.cfg), "x"), 503)
	})
}

// remembering records the socket that was dialed last, below what wraps it.
func remembering(
	dial func(context.Context, string, string) (net.Conn, error), last **net.TCPConn,
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		switch c := c.(type) {
		case *net.TCPConn:
			*last = c
		case struct{ net.Conn }:
			*last, _ = c.Conn.(*net.TCPConn)
		}
		return c, err
	}
}

// arrived waits until something can be read.
func arrived(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}
