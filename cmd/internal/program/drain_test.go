package program_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

// Only SIGTERM is followed by a drain. A second signal ends it, and the next one has no drain
// to end.
func TestDrain(t *testing.T) {
	const within = 5 * time.Second
	for name, test := range map[string]struct {
		signal syscall.Signal // 0: ctx ends by itself
		within time.Duration
		second time.Duration // when a second signal comes; 0: never
		want   time.Duration
	}{
		"SIGTERM":             {syscall.SIGTERM, within, 0, within},
		"SIGTERM, no drain":   {syscall.SIGTERM, 0, 0, 0},
		"SIGTERM twice":       {syscall.SIGTERM, within, 2 * time.Second, 2 * time.Second},
		"SIGINT":              {syscall.SIGINT, within, 0, 0},
		"a part of it failed": {0, within, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				serving, stop := program.Drain(ctx, test.within)
				defer stop()
				var cause error
				again := func() bool { return false }
				if test.signal != 0 {
					again, cause = program.Asked(test.signal)
				}
				if synctest.Wait(); serving.Err() != nil {
					t.Fatal("it ended before the signal")
				}
				begun := time.Now()
				end(cause)
				if !errors.Is(context.Cause(ctx), context.Canceled) {
					t.Errorf("the cause %v is no context.Canceled", context.Cause(ctx))
				}
				if test.second > 0 {
					time.Sleep(test.second)
					if !again() {
						t.Error("the second signal found no drain")
					}
				}
				<-serving.Done()
				if took := time.Since(begun); took != test.want {
					t.Errorf("it served for %s after the signal; want %s", took, test.want)
				}
				if synctest.Wait(); again() {
					t.Error("a signal after the drain found one")
				}
			})
		})
	}
}

// After CloseEach the next answer of each connection closes it, and says so.
func TestCloseEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, program.Endpoint{}, 8, 8, hello)
		defer s.stop()
		conn := s.dial("192.0.2.7")
		defer conn.Close()
		from := bufio.NewReader(conn)
		for _, closing := range []bool{false, true} {
			if closing {
				s.listener.CloseEach()
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" || resp.Close != closing {
				t.Errorf("the answer %q, %v has Connection: close: %t; want %t", body, err, resp.Close, closing)
			}
		}
		if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}

// A Listener that was prepared has its address, and refuses connections until it is opened.
func TestPrepare(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	endpoint := program.Endpoint{Flag: "listen", Address: address}
	if _, err := program.Prepare(t.Context(), endpoint); err == nil || !strings.Contains(err.Error(), "--listen "+address) {
		t.Errorf("preparing a port in use: %v; want an error that names the flag", err)
	}
	taken.Close()
	ln, err := program.Prepare(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if got := ln.Addr().String(); got != address {
		t.Errorf("the address is %s; want %s", got, address)
	}
	taken, err = net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err) // it is free until Open
	}
	if err := ln.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen "+address) {
		t.Errorf("opening a port in use: %v; want an error that names the flag", err)
	}
	taken.Close()
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it accepts connections before it is open")
	}
	if err := errors.Join(ln.Open(t.Context()), ln.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, wrong := range []string{"", "127.0.0.1", "127.0.0.1:99999"} {
		if _, err := program.Prepare(
			t.Context(), program.Endpoint{Flag: "admin", Address: wrong},
		); err == nil || !strings.Contains(err.Error(), "--admin") {
			t.Errorf("%q: %v; want an error that names the flag", wrong, err)
		}
	}
}
