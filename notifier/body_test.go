package notifier_test

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
)

// stalling is a body that has some bytes and then stands still until it is released.
type stalling struct {
	bytes int
	end   <-chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	if s.bytes == 0 {
		<-s.end
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), s.bytes)
	for i := range p[:n] {
		p[i] = ' '
	}
	s.bytes -= n
	return n, nil
}

// TestIntakeBesideStalledUploads: uploads that stand still hold up no sender of little, however many
// they are and whatever they have sent. Only the bytes sent count against others that send much.
func TestIntakeBesideStalledUploads(t *testing.T) {
	const one = `{"loc":"http://a.example/","change":"created"}`
	large := one + strings.Repeat(" ", 4<<20)
	for _, c := range []struct {
		name         string
		stalled, had int
		largeCode    int
	}{
		{"before their first byte", 20, 0, 202},
		{"nearly at their end", 4, 43 << 20, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, notifier.Config{}, &hub{})
				end := make(chan struct{})
				for range c.stalled {
					go func() {
						r := httptest.NewRequest("POST", "/sets/default/events", &stalling{c.had, end})
						r.Header.Set("Content-Type", "application/json")
						w.Intake().ServeHTTP(httptest.NewRecorder(), r)
					}()
				}
				synctest.Wait()
				begun := time.Now()
				if got := ask(w.Intake(), "POST", "/sets/default/events", one, asJSON); got.Code != 202 || time.Since(begun) > 0 {
					t.Errorf("a small request: %d %s after %s", got.Code, got.Body, time.Since(begun))
				}
				got := ask(w.Intake(), "POST", "/sets/default/events", large, asJSON)
				if got.Code != c.largeCode || time.Since(begun) > 0 {
					t.Errorf("a large request: %d %s after %s", got.Code, got.Body, time.Since(begun))
				}
				if got.Code == 503 && (!strings.Contains(got.Body.String(), "too many large requests") || got.Header().Get("Retry-After") == "") {
					t.Errorf("%s %v; want its own text, with Retry-After", got.Body, got.Header())
				}
				close(end)
				synctest.Wait()
				if got := ask(w.Intake(), "POST", "/sets/default/events", large, asJSON); got.Code != 202 {
					t.Errorf("a large request when they are gone: %d %s", got.Code, got.Body)
				}
			})
		})
	}
}

// TestIntakeOfLinks: tiny links take far more memory than bytes; they are counted
// over all events of a request.
func TestIntakeOfLinks(t *testing.T) {
	many := func(events, links int) string {
		one := `{"loc":"http://a.example/","change":"created","ln":[` +
			strings.TrimSuffix(strings.Repeat(`{"rel":"a","href":"http://a"},`, links), ",") + `]}`
		return strings.TrimSuffix(strings.Repeat(one+"\n", events), "\n")
	}
	const each = 4000
	over := many(notifier.MaxIntakeLinks/each, each) + "\n" + many(1, 1)
	asArray := "[" + strings.ReplaceAll(over, "\n", ",") + "]"
	for _, c := range []struct{ name, body, kind, want string }{
		{"lines", over, asLines, "line 126: ln[0] is beyond the 500000 links that one request may have"},
		{"elements", asArray, asJSON, "element 126: ln[0] is beyond the 500000 links that one request may have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, notifier.Config{}, &hub{})
			got := ask(w.Intake(), "POST", "/sets/default/events", c.body, c.kind)
			if got.Code != 413 || !strings.Contains(got.Body.String(), c.want) {
				t.Errorf("%d %s, want 413 with %q", got.Code, got.Body, c.want)
			}
		})
	}
}

// heldAppend is a journal that a test can stop before an Append.
type heldAppend struct {
	notifier.Store
	before func()
}

func (h *heldAppend) Append(ctx context.Context, events []notifier.Event, now time.Time) error {
	h.before()
	return h.Store.Append(ctx, events, now)
}

// TestIntakeOfLargeRequests: they go through the journal one at a time, and small
// ones beside them.
func TestIntakeOfLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one = `{"loc":"http://a.example/","change":"created"}`
		large := one + strings.Repeat(" ", 2<<20)
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		hold, inside := make(chan struct{}), make(chan struct{}, 10)
		var free atomic.Bool
		w.wrap = func(j notifier.Store) notifier.Store {
			return &heldAppend{j, func() {
				if !free.Load() {
					inside <- struct{}{}
					<-hold
				}
			}}
		}
		w.start()
		defer w.stop()
		codes := make(chan int, 3)
		post := func(body string) { codes <- ask(w.Intake(), "POST", "/sets/default/events", body, asJSON).Code }
		go post(large)
		go post(large)
		synctest.Wait()
		if got := len(inside); got != 1 {
			t.Errorf("%d large requests are in the journal at a time, want 1", got)
		}
		free.Store(true)
		if post(one); <-codes != 202 {
			t.Error("a small request has to wait for a large one")
		}
		close(hold)
		if a, b := <-codes, <-codes; a != 202 || b != 202 {
			t.Errorf("the large requests are answered %d and %d", a, b)
		}
	})
}

// TestIntakeOverAJournalThatHangs: the client has its answer in time.
func TestIntakeOverAJournalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		hangs := func() { time.Sleep(time.Minute) }
		w.wrap = func(j notifier.Store) notifier.Store { return &heldAppend{j, hangs} }
		w.start()
		defer w.stop()
		begun := time.Now()
		got := ask(w.Intake(), "POST", "/sets/default/events", `{"loc":"http://a.example/","change":"created"}`, asJSON)
		if took := time.Since(begun); got.Code != 503 || took != 20*time.Second {
			t.Errorf("%d after %s, want 503 after 20 s", got.Code, took)
		}
		time.Sleep(time.Minute)
	})
}

// onConn is an answer's writer whose connection has deadlines.
type onConn struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (c onConn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// TestIntakeOfSlowBodies: a body that stands still, or trickles, is cut off in time.
func TestIntakeOfSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name     string
		every    time.Duration // between two bytes; 0: never a second one
		min, max time.Duration
	}{
		{"standing still", 0, 30 * time.Second, 31 * time.Second},
		{"trickling", 3 * time.Second, 30 * time.Second, 31 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, notifier.Config{}, &hub{})
				ours, theirs := net.Pipe()
				var sender sync.WaitGroup
				sender.Go(func() {
					for {
						if _, err := theirs.Write([]byte(" ")); err != nil || c.every == 0 {
							return
						}
						time.Sleep(c.every)
					}
				})
				begun := time.Now()
				r := httptest.NewRequest("POST", "/sets/default/events", ours)
				r.Header.Set("Content-Type", "application/json")
				got := onConn{httptest.NewRecorder(), ours}
				w.Intake().ServeHTTP(got, r)
				if took := time.Since(begun); got.Code != 408 || took < c.min || took > c.max {
					t.Errorf("%d %s after %s", got.Code, got.Body, took)
				}
				ours.Close()
				sender.Wait()
			})
		})
	}
}
