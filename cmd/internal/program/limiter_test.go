package program_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"carillon/cmd/internal/program"
)

// ask sends a request over the connection and returns the status of the answer; 0: the
// connection is closed.
func ask(conn net.Conn, path string) int {
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// alive reports whether the connection was not closed by the server.
func alive(conn net.Conn) bool {
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = conn.Read(make([]byte, 1))
	}()
	synctest.Wait()
	select {
	case <-read:
		return false
	default:
		return true
	}
}

// The connection that has waited longest makes room, whether it never said anything
// or was used before; those with a request under way do not.
func TestTheLongestWaitMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		s := serve(t, program.Endpoint{}, 4, 4, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				begun <- struct{}{}
				<-release
			}
		})
		var conns [8]net.Conn
		dial := func(i int) {
			conns[i] = s.dial(fmt.Sprintf("203.0.113.%d", i))
			t.Cleanup(func() { conns[i].Close() })
		}
		for i := range 4 {
			dial(i)
		}
		synctest.Wait()
		answers := make(chan int, 4)
		go func() { answers <- ask(conns[0], "/long") }()
		<-begun
		if ask(conns[1], "/") != 200 { // waits since now
			t.Error("no answer")
		}
		synctest.Wait()
		for i, gone := range []int{2, 3, 1} {
			dial(4 + i)
			if alive(conns[gone]) {
				t.Errorf("connection %d is open; it waited longest", gone)
			}
		}
		// 0 works and 4, 5, 6 wait. When those work, too, a new one must wait.
		for i := 4; i < 7; i++ {
			go func() { answers <- ask(conns[i], "/long") }()
			<-begun
		}
		dial(7)
		late := make(chan int, 1)
		go func() { late <- ask(conns[7], "/") }()
		synctest.Wait()
		if len(late) > 0 || s.listener.Connections() != 4 {
			t.Errorf("%d connections are open, and the one too many got an answer: %t", s.listener.Connections(), len(late) > 0)
		}
		close(release)
		for range 4 {
			if got := <-answers; got != 200 {
				t.Errorf("a request under way got %d", got)
			}
		}
		if got := <-late; got != 200 {
			t.Errorf("who waited for room got %d", got)
		}
		if idle, refused := s.listener.Closed(); idle != 4 || refused != 0 {
			t.Errorf("%d were closed to make room, %d refused; want 4 and 0", idle, refused)
		}
		s.stop()
	})
}

// No client has more than its share; an IPv6 network of 64 bits is one client. Its own
// connections make room for its new ones, and if none waits it is refused.
func TestNoClientLocksOutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		proxy := netip.MustParsePrefix("198.51.100.0/24")
		s := serve(t, program.Endpoint{Proxies: []netip.Prefix{proxy}}, 100, 2, func(_ http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			<-release
		})
		for name, test := range map[string]struct {
			from [3]string
			same bool // they are one client
		}{
			"one address":    {[3]string{"203.0.113.1", "203.0.113.1", "203.0.113.1"}, true},
			"three":          {[3]string{"203.0.113.2", "203.0.113.3", "203.0.113.4"}, false},
			"one network":    {[3]string{"2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3"}, true},
			"three networks": {[3]string{"2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"}, false},
			"mapped":         {[3]string{"::ffff:203.0.113.9", "203.0.113.9", "::ffff:203.0.113.9"}, true},
			"loopback":       {[3]string{"127.0.0.1", "127.0.0.1", "127.0.0.1"}, false},
			"a proxy":        {[3]string{"198.51.100.7", "198.51.100.7", "198.51.100.7"}, false},
		} {
			var conns [3]net.Conn
			for i, from := range test.from {
				conns[i] = s.dial(from)
				defer conns[i].Close()
			}
			synctest.Wait()
			if got := !alive(conns[0]); got != test.same {
				t.Errorf("%s: the first was closed for the third: %t", name, got)
			}
			conns[0].Close()
			for _, c := range conns[1:] {
				go ask(c, "/")
				<-begun
			}
			last := s.dial(test.from[0])
			defer last.Close()
			if got := !alive(last); got != test.same {
				t.Errorf("%s: a third beside two that work was refused: %t", name, got)
			}
			last.Close()
			synctest.Wait()
		}
		if idle, refused := s.listener.Closed(); idle != 3 || refused != 3 {
			t.Errorf("%d made room and %d were refused; want 3 and 3", idle, refused)
		}
		close(release)
		s.stop()
		if got := s.listener.Connections(); got != 0 {
			t.Errorf("%d connections are counted at the end", got)
		}
	})
}

// A connection that waits for room gets it when another ends, and is closed when the server is to
// stop, although a request is under way.
func TestWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		s := serve(t, program.Endpoint{}, 1, 1, func(http.ResponseWriter, *http.Request) {
			begun <- struct{}{}
			<-release
		})
		first := s.dial("203.0.113.1")
		defer first.Close()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = io.WriteString(first, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, first)
		}()
		<-begun
		second := s.dial("203.0.113.2")
		defer second.Close()
		go ask(second, "/")
		release <- struct{}{}
		<-answered
		<-begun // of the second
		third := s.dial("203.0.113.3")
		defer third.Close()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.stop()
		}()
		if alive(third) {
			t.Error("who waits for room is kept although the server stops")
		}
		select {
		case <-stopped:
			t.Error("the request under way was not waited for")
		default:
		}
		release <- struct{}{}
		<-stopped
	})
}

// Endpoint.Most bounds the connections of a listener: one beyond it has another closed.
func TestMostOfAnEndpoint(t *testing.T) {
	l, err := program.Listen(t.Context(), program.Endpoint{Flag: "listen", Address: "127.0.0.1:0", Most: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var clients []net.Conn
	for range 10 {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if idle, _ := l.Closed(); idle != int64(len(clients)/10) {
			t.Errorf("with %d connections %d are closed", len(clients), idle)
		}
	}
	if n := l.Connections(); n != 9 {
		t.Errorf("%d connections are open, want 9", n)
	}
}
