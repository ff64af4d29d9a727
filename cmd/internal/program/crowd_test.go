package program_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

// What clients and networks of IPv6 may take of a listener with 16 connections, all of which
// have a request under way: a client 2, a /48 network 4, whichever of its clients come.
func TestSharesOfAListener(t *testing.T) {
	for _, test := range []struct {
		name string
		from func(i int) string
		want int
	}{
		{"one address", func(int) string { return "203.0.113.1" }, 2},
		{"addresses", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, 16},
		{"one mapped address", func(int) string { return "::ffff:203.0.113.1" }, 2},
		{"one /64", func(i int) string { return fmt.Sprintf("2001:db8:1:1::%d", i) }, 2},
		{"/64s of one /48", func(i int) string { return fmt.Sprintf("2001:db8:1:%d::1", i) }, 4},
		{"/48s", func(i int) string { return fmt.Sprintf("2001:db8:%d::1", i) }, 16},
		{"this machine", func(int) string { return "127.0.0.1" }, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, release := make(chan struct{}, 17), make(chan struct{})
				s := serve(t, program.Endpoint{}, 16, 2, func(http.ResponseWriter, *http.Request) {
					begun <- struct{}{}
					<-release
				})
				for i := range 16 {
					c := s.dial(test.from(i + 1))
					defer c.Close()
					go ask(c, "/")
					synctest.Wait()
				}
				if len(begun) != test.want {
					t.Errorf("%d requests are under way, want %d", len(begun), test.want)
				}
				other := s.dial("198.51.100.1")
				defer other.Close()
				go ask(other, "/")
				synctest.Wait()
				if served := len(begun) > test.want; served != (test.want < 16) {
					t.Errorf("somebody else is served: %t", served)
				}
				close(release)
				s.stop()
				if n := s.listener.Connections(); n != 0 {
					t.Errorf("%d connections are counted at the end", n)
				}
			})
		})
	}
}

// When there is no room, the connection goes whose body has been silent for longest, after two
// seconds, whether the handler waits for it or has answered; one that sends stays, and
// so does one whose request is being worked on.
func TestSilentBodiesMakeRoom(t *testing.T) {
	for _, test := range []struct {
		name, path, begins string
		stays              bool
		trickles           bool
	}{
		{"silent", "/read", "Content-Length: 100\r\n\r\nabc", false, false},
		{"silent in chunks", "/read", "Transfer-Encoding: chunked\r\n\r\n5\r\nab", false, false},
		{"of a request that nobody reads", "/no", "Content-Length: 100\r\n\r\nabc", false, false},
		{"slow", "/read", "Content-Length: 100\r\n\r\nabc", true, true},
		{"whole", "/work", "Content-Length: 3\r\n\r\nabc", true, false},
		{"none", "/work", "\r\n", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, program.Endpoint{}, 1, 1, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/no" {
						_, _ = io.Copy(io.Discard, r.Body)
					}
					if r.URL.Path == "/work" {
						time.Sleep(20 * time.Second)
					}
				})
				first := s.dial("203.0.113.1")
				defer first.Close()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					_, _ = io.Copy(io.Discard, first)
				}()
				if _, err := io.WriteString(first, "POST "+test.path+" HTTP/1.1\r\nHost: a\r\n"+test.begins); err != nil {
					t.Fatal(err)
				}
				if test.trickles {
					go dribble(first)
				}
				synctest.Wait()
				start := time.Now()
				second := s.dial("203.0.113.2")
				defer second.Close()
				if got := ask(second, "/"); got != 200 {
					t.Errorf("the newcomer got %d", got)
				}
				waited := time.Since(start)
				if stayed := waited > 10*time.Second; stayed != test.stays || !stayed && waited != 2*time.Second {
					t.Errorf("the newcomer waited %v", waited)
				}
				<-closed
				second.Close()
				s.stop()
			})
		})
	}
}

// dribble sends a byte a second, for twelve seconds, and hangs up.
func dribble(c net.Conn) {
	defer c.Close()
	for range 12 {
		time.Sleep(time.Second)
		if _, err := io.WriteString(c, "x"); err != nil {
			return
		}
	}
}
