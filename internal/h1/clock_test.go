package h1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// drips writes a byte a second until the reader stops.
func drips(c net.Conn, s string) {
	for i := range len(s) {
		time.Sleep(time.Second)
		if _, err := io.WriteString(c, s[i:i+1]); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, c)
}

// troubles are servers that hold a request up, each in another stage.
var troubles = map[string]struct {
	body   string
	handle func(c net.Conn, r *bufio.Reader) // nil: dialing hangs
}{
	"dialing hangs":   {"x", nil},
	"nothing is said": {"x", func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }},
	"a dripping head": {"x", func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 1000))
	}},
	"a head in chunks": {"x", func(c net.Conn, r *bufio.Reader) { take(r); drips(c, "HTTP/1.1 200 OK\nX: "+strings.Repeat("y", 9000)) }},
	"a large body, not read": {strings.Repeat("x", 1<<20), func(_ net.Conn, r *bufio.Reader) {
		_, _ = r.ReadByte()
		time.Sleep(time.Hour)
	}},
	"interim answers": {"x", func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000))
	}},
}

// piped is a Dial to servers in this process, for a bubble.
func piped(handle func(c net.Conn, r *bufio.Reader)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		if handle == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			handle(server, bufio.NewReader(server))
		}()
		return client, nil
	}
}

func request(t testing.TB, body string) *h1.Request {
	return &h1.Request{Authority: "h.example", Target: "/", Message: message(t, body)}
}

// One deadline covers all stages, for short timeouts as for long ones.
func TestDeadline(t *testing.T) {
	for name, c := range troubles {
		for _, timeout := range []time.Duration{50 * time.Millisecond, 30 * time.Second} {
			t.Run(name+", "+timeout.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := config()
					cfg.Timeout, cfg.Dial = timeout, piped(c.handle)
					client := newClient(t, cfg)
					begun := time.Now()
					_, err := client.Post(t.Context(), request(t, c.body))
					took := time.Since(begun)
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					if late := min(max(timeout/32, time.Millisecond), 100*time.Millisecond); took < timeout || took > timeout+late {
						t.Errorf("it took %s", took)
					}
					equal(t, "left", held(client), h1.Stats{})
					time.Sleep(2 * time.Hour) // its server ends
				})
			})
		}
	}
}

// The end of the context breaks off whatever is under way, at once and by its cause.
func TestCancel(t *testing.T) {
	cause := errors.New("the reason")
	for name, c := range troubles {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Dial = piped(c.handle)
				client := newClient(t, cfg)
				ctx, cancel := context.WithCancelCause(t.Context())
				begun := time.Now()
				time.AfterFunc(5*time.Second, func() { cancel(cause) })
				if _, err := client.Post(ctx, request(t, c.body)); !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
				equal(t, "it took", time.Since(begun), 5*time.Second)
				if _, err := client.Post(ctx, request(t, c.body)); !errors.Is(err, cause) {
					t.Errorf("begun under it: %v", err)
				}
				equal(t, "left", held(client), h1.Stats{})
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// Only what was begun under a context ends with it.
func TestCancelOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
			take(r)
			time.Sleep(10 * time.Second)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		})
		client := newClient(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		errs := make(chan error, 1)
		go func() {
			_, err := client.Post(ctx, request(t, ""))
			errs <- err
		}()
		a, err := client.Post(t.Context(), request(t, ""))
		if err != nil || a.Status != 200 {
			t.Errorf("the other: %v, %v", a, err)
		}
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled: %v", err)
		}
	})
}

// Waiting for a connection counts, and what is waited for comes to the next.
func TestDeadlineWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.MaxConnsPerHost, cfg.Timeout = 1, 10*time.Second
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
			for {
				if _, ok := take(r); !ok {
					return
				}
				time.Sleep(8 * time.Second)
				_, _ = io.WriteString(c, ok204)
			}
		})
		client := newClient(t, cfg)
		first := make(chan error, 1)
		go func() {
			_, err := client.Post(t.Context(), request(t, "first"))
			first <- err
		}()
		synctest.Wait()
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := client.Post(cancelled, request(t, "second")); !errors.Is(err, context.Canceled) {
			t.Errorf("a waiting one, cancelled: %v", err)
		}
		begun := time.Now()
		if _, err := client.Post(t.Context(), request(t, "third")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a waiting one, with too little time left: %v", err)
		}
		if took := time.Since(begun); took < cfg.Timeout || took > cfg.Timeout+100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		if _, err := client.Post(t.Context(), request(t, "fourth")); err != nil {
			t.Errorf("with the slot of the one broken off: %v", err)
		}
		equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		client.CloseIdleConnections()
	})
}

// An answer whose body drips is an answer, cut short.
func TestDrippingBody(t *testing.T) {
	for name, head := range map[string]string{
		"a length":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
		"chunked":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n",
		"to the end": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
					take(r)
					_, _ = io.WriteString(c, head)
					time.Sleep(100 * time.Millisecond)
					drips(c, strings.Repeat("x", 40))
				})
				client := newClient(t, cfg)
				begun := time.Now()
				a, err := client.Post(t.Context(), request(t, ""))
				if err != nil || a.Status != 200 {
					t.Errorf("got %v, %v", a, err)
				}
				equal(t, "it took", time.Since(begun), time.Second)
				equal(t, "left", held(client), h1.Stats{})
				time.Sleep(time.Minute) // its server ends
			})
		})
	}
}

// Idle connections end after a time, and with them everything.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		ended := make(chan time.Time, 1)
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
			answering(ok204)(1, c, r)
			ended <- time.Now()
		})
		client := newClient(t, cfg)
		for range 3 {
			// Used again, it begins anew.
			if _, err := client.Post(t.Context(), request(t, "")); err != nil {
				t.Fatal(err)
			}
			equal(t, "idle", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
			time.Sleep(cfg.IdleTimeout - time.Second)
		}
		last := time.Now()
		equal(t, "idle", client.Stats().Idle, 1)
		took := (<-ended).Sub(last)
		if took < 800*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("closed %s after the last look", took)
		}
		equal(t, "left", held(client), h1.Stats{})
		synctest.Wait()
		ticking, watches := client.Watching()
		equal(t, "the clock runs", ticking, false)
		equal(t, "contexts watched", watches, 0)
	})
}

// Contexts that are seen once are not remembered.
func TestManyContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) { answering(ok204)(1, c, r) })
		client := newClient(t, cfg)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := client.Post(ctx, request(t, "")); err != nil {
				t.Fatal(err)
			}
			if _, watches := client.Watching(); watches > 16 {
				t.Fatalf("%d contexts", watches)
			}
		}
		if _, err := client.Post(context.Background(), request(t, "")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, watches := client.Watching()
		equal(t, "contexts watched", watches, 0)
		client.CloseIdleConnections()
	})
}

// The same on real sockets, past net and through TLS, with what holds up there.
func TestDeadlineOnSockets(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for name, c := range map[string]struct{ body, answer string }{
			"silent":                 {"x", ""},
			"half a head":            {"x", "HTTP/1.1 200 OK\r\n"},
			"half an odd head":       {"x", "HTTP/1.1 200 OK\n"},
			"a large body, not read": {strings.Repeat("x", 32<<20), ""},
		} {
			t.Run(name, func(t *testing.T) {
				asked := make(chan bool, 1)
				s := w.serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
					_, _ = r.ReadByte()
					_, _ = io.WriteString(conn, c.answer)
					asked <- true
					if len(c.body) == 1 {
						_, _ = io.Copy(io.Discard, conn)
						return
					}
					<-t.Context().Done()
				})
				w.cfg.Timeout = 200 * time.Millisecond
				if _, err := s.post(t.Context(), t, newClient(t, w.cfg), c.body); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("at the deadline: %v", err)
				}
				<-asked
				w.cfg.Timeout = time.Minute
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-asked; cancel() }()
				client := newClient(t, w.cfg)
				if _, err := s.post(ctx, t, client, c.body); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled: %v", err)
				}
				equal(t, "left", held(client), h1.Stats{})
			})
		}
	})
}

// A connection that is there too late serves the next request, as one that may have
// ended meanwhile.
func TestLateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		dial, dials := piped(func(c net.Conn, r *bufio.Reader) { answering(ok204)(1, c, r) }), 0
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				return dial(ctx, network, address)
			}
			time.Sleep(2 * cfg.Timeout)
			client, server := net.Pipe()
			return client, server.Close()
		}
		client := newClient(t, cfg)
		if _, err := client.Post(t.Context(), request(t, "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: %v", err)
		}
		equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		if _, err := client.Post(t.Context(), request(t, "")); err != nil {
			t.Errorf("the second: %v", err)
		}
		equal(t, "dials", dials, 2)
		client.CloseIdleConnections()
	})
}

// A slot that is lost, by a dial that failed, goes to who waits.
func TestSlotIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.MaxConnsPerHost = 1
		dials := 0
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			dials++
			time.Sleep(time.Second)
			return nil, io.ErrClosedPipe
		}
		client := newClient(t, cfg)
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() {
				_, err := client.Post(t.Context(), request(t, ""))
				errs <- err
			}()
		}
		synctest.Wait()
		equal(t, "while one dials", held(client), h1.Stats{Hosts: 1, Conns: 1, UnderWay: 3})
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
		}
		equal(t, "dials", dials, 3)
		equal(t, "left", held(client), h1.Stats{})
	})
}
