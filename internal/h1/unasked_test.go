//go:build unix

package h1_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"carillon/internal/h1"
)

// What comes on an idle connection answers nothing, and its end is seen before anything
// is sent.
func TestUnasked(t *testing.T) {
	for name, unasked := range map[string]string{
		"a late answer": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
		"an end":        "",
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				if w.name == "wrapped" {
					return // nothing can be seen through it
				}
				var last *net.TCPConn
				dial := w.cfg.Dial
				w.cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := dial(ctx, network, address)
					if err == nil {
						last = c.(*net.TCPConn)
					}
					return c, err
				}
				say := make(chan bool)
				s := w.serve(t, func(n int, c net.Conn, r *bufio.Reader) {
					if n == 1 {
						take(r)
						_, _ = io.WriteString(c, ok204)
						<-say
						_, _ = io.WriteString(c, unasked)
						if unasked != "" {
							_, _ = io.Copy(io.Discard, c)
						}
						return
					}
					answering(ok204)(n, c, r)
				})
				client := newClient(t, w.cfg)
				equal(t, "status", s.status(t, client, "one"), 204)
				say <- true
				arrived(t, last)
				client.Age(time.Second)
				equal(t, "status", s.status(t, client, "two"), 204)
				equal(t, "connections", s.connections(), 2)
				equal(t, "left", client.Stats(), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
				client.Age(time.Second)
				equal(t, "status", s.status(t, client, "three"), 204)
				equal(t, "connections, all being quiet", s.connections(), 2)
			})
		})
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
