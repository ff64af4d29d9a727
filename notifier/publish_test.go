package notifier_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
)

// slowly answers 200 after d.
func slowly(d time.Duration) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return status(http.StatusOK), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func TestPublishIsAPostAsTheSpecificationHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{Sets: []string{"dataset1"}, UserAgent: "Carillon/test"}, &hub{})
		w.add([]string{"dataset1"}, "1")
		w.drain()
		posts := w.hub.received()
		if len(posts) != 1 {
			t.Fatalf("%d POSTs", len(posts))
		}
		got := posts[0].header
		want := http.Header{
			"Content-Type": {"application/xml"},
			"User-Agent":   {"Carillon/test"},
			"Link": {`<http://source.example/dataset1/change/>; rel="self", <http://hub.example/websub/>; rel="hub", ` +
				`<http://source.example/dataset1/capabilitylist.xml>; rel="resourcesync"`},
		}
		for name := range want {
			if len(got[name]) != 1 || got.Get(name) != want.Get(name) {
				t.Errorf("%s is %q, want %q", name, got[name], want[name])
			}
		}
		if up := `<rs:ln rel="up" href="http://source.example/dataset1/capabilitylist.xml"/>`; !bytes.Contains(posts[0].body, []byte(up)) {
			t.Errorf("no %s in\n%s", up, posts[0].body)
		}
	})
}

// TestPublishOutcomes is the table of what counts as accepted: 2xx does.
func TestPublishOutcomes(t *testing.T) {
	for _, code := range []int{101, 200, 202, 204, 299, 301, 304, 307, 400, 403, 404, 410, 413, 429, 500, 502, 503, 0} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hub{answer: func(number int, _ *http.Request) (*http.Response, error) {
					switch {
					case number > 1:
						return status(http.StatusOK), nil
					case code == 0:
						return nil, errors.New("connection reset")
					}
					resp := status(code)
					if code == http.StatusSwitchingProtocols {
						resp.Body, _ = io.Pipe() // the connection, on which nothing comes
					}
					resp.Header.Set("Location", "http://elsewhere.example/")
					return resp, nil
				}}
				w := newWorld(t, notifier.Config{}, h)
				w.add(inDefault, "1")
				w.drain()
				posts := h.received()
				if accepted := len(posts) == 1; accepted != (code/100 == 2) {
					t.Fatalf("answered with %d: %d POSTs", code, len(posts))
				}
				for _, p := range posts {
					if !bytes.Equal(p.body, posts[0].body) {
						t.Error("the second POST has other bytes")
					}
				}
			})
		})
	}
}

// TestPublishTellsTheHubsReason: the operator reads in one line why, and when
// it is tried again.
func TestPublishTellsTheHubsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{answer: func(number int, _ *http.Request) (*http.Response, error) {
			if number > 1 {
				return status(http.StatusOK), nil
			}
			resp := status(http.StatusForbidden)
			resp.Header.Set("Retry-After", "20")
			resp.Body = io.NopCloser(strings.NewReader("the topic does\r\nnot name this hub \x1b[31m" + strings.Repeat("x", 1000)))
			return resp, nil
		}}
		var logs bytes.Buffer
		w := newWorld(t, notifier.Config{Logger: slog.New(slog.NewJSONHandler(&logs, nil))}, h)
		w.add(inDefault, "1")
		w.drain()
		w.stop()
		for _, want := range []string{`"reason":"the topic does not name this hub ?[31mxxx`, `"retry_in":"20s"`} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, logs.String())
			}
		}
		if strings.Contains(logs.String(), strings.Repeat("x", 501)) {
			t.Error("the hub decides how long a log line is")
		}
	})
}

func TestPublishRetriesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		refuses.Store(true)
		h := &hub{answer: func(int, *http.Request) (*http.Response, error) {
			if refuses.Load() {
				return status(http.StatusForbidden), nil
			}
			return status(http.StatusOK), nil
		}}
		w := newWorld(t, notifier.Config{}, h)
		w.add(inDefault, "1")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		posts := h.received()
		for i := 1; i < len(posts); i++ {
			if gap := posts[i].at.Sub(posts[i-1].at); gap > time.Minute || gap < 200*time.Millisecond {
				t.Fatalf("POST %d came after %s; the pauses go up to a minute", i+1, gap)
			}
		}
		if gap := posts[len(posts)-1].at.Sub(posts[len(posts)-2].at); gap < 25*time.Second {
			t.Errorf("after a day the pause is %s only", gap)
		}
		if since := time.Since(posts[len(posts)-1].at); since > time.Minute {
			t.Errorf("the last POST was %s ago: it gave up", since)
		}
		refuses.Store(false)
		w.drain()
	})
}

func TestPublishHonoursRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"20": 20 * time.Second, "86400": time.Minute, "Sat, 01 Jan 2000 00:00:31 GMT": 30 * time.Second,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins at midnight, 1 January 2000
				h := &hub{answer: func(number int, _ *http.Request) (*http.Response, error) {
					if number > 1 {
						return status(http.StatusOK), nil
					}
					resp := status(http.StatusServiceUnavailable)
					resp.Header.Set("Retry-After", value)
					return resp, nil
				}}
				w := newWorld(t, notifier.Config{}, h)
				w.add(inDefault, "1")
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				posts := h.received()
				if len(posts) != 2 {
					t.Fatalf("%d POSTs, want 2", len(posts))
				}
				if gap := posts[1].at.Sub(posts[0].at); gap != want {
					t.Errorf("the second POST came after %s, want %s", gap, want)
				}
			})
		})
	}
}

func TestPublishGivesUpOnAHubThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		h.answer = func(number int, r *http.Request) (*http.Response, error) {
			if number == 1 {
				return slowly(time.Hour)(number, r)
			}
			return status(http.StatusOK), nil
		}
		w := newWorld(t, notifier.Config{}, h)
		w.add(inDefault, "1")
		w.drain()
		posts := h.received()
		if len(posts) != 2 || !bytes.Equal(posts[0].body, posts[1].body) {
			t.Fatalf("%d POSTs, want the same twice", len(posts))
		}
		if gap := posts[1].at.Sub(posts[0].at); gap < time.Minute || gap > 62*time.Second {
			t.Errorf("the second POST came after %s, want a minute and the first pause", gap)
		}
	})
}

func TestSetsPublishOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		h.answer = func(number int, r *http.Request) (*http.Response, error) {
			if strings.Contains(r.Header.Get("Link"), "/stuck/") {
				return slowly(time.Hour)(number, r)
			}
			return status(http.StatusOK), nil
		}
		w := newWorld(t, notifier.Config{Sets: []string{"stuck", "fine"}}, h)
		for _, loc := range []string{"1", "2", "3"} {
			w.add([]string{"stuck", "fine"}, loc)
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := h.notes(t, "fine"); len(got) != 3 {
			t.Errorf("%d notifications of the other set, want 3", len(got))
		}
	})
}

// TestStopWhileTheHubHangs: the end comes in time, and the same bytes are sent
// at the next start, before anything else.
func TestStopWhileTheHubHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{answer: slowly(time.Hour)}
		w := newWorld(t, notifier.Config{}, h)
		w.add(inDefault, "1")
		time.Sleep(2 * time.Second)
		w.add(inDefault, "2")
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("stopping took %s", took)
		}
		h.set(nil)
		w.start()
		w.drain()
		posts := h.received()
		if len(posts) != 3 || !bytes.Equal(posts[0].body, posts[1].body) {
			t.Fatalf("%d POSTs, want the first repeated byte for byte", len(posts))
		}
		if err := checkChain(h.notes(t, notifier.DefaultSet)); err != nil {
			t.Error(err)
		}
	})
}

func TestStopFinishesAPostThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{answer: slowly(3 * time.Second)}
		w := newWorld(t, notifier.Config{}, h)
		w.add(inDefault, "1")
		time.Sleep(2 * time.Second)
		w.restart()
		w.drain()
		if got := len(h.received()); got != 1 {
			t.Errorf("%d POSTs; the one under way was accepted and noted", got)
		}
	})
}
