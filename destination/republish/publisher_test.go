package republish_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination/republish"
	"carillon/payload"
)

// queue is an outbox in memory: the first items are the sealed batch.
type queue struct {
	republish.Outbox
	mu      sync.Mutex
	items   []republish.Item // guarded by mu
	settled []string         // guarded by mu
	fails   int              // guarded by mu: calls of Next that fail
	wake    chan struct{}
}

func newQueue(paths ...string) *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	q.add(paths...)
	return q
}

func (q *queue) add(paths ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range paths {
		q.items = append(q.items, republish.Item{Path: at, Entry: payload.Entry{Change: payload.Created, Length: "7"}})
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) Collect(context.Context) error { return nil }
func (q *queue) Changed() <-chan struct{}      { return q.wake }
func (q *queue) Waiting(context.Context) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), nil
}

func (q *queue) Next(_ context.Context, limit, _ int) ([]republish.Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fails > 0 {
		q.fails--
		return nil, errStore
	}
	return slices.Clone(q.items[:min(limit, len(q.items))]), nil
}

func (q *queue) Settle(_ context.Context, n int, refused string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range q.items[:n] {
		q.settled = append(q.settled, strings.TrimSpace(i.Path+" "+refused))
	}
	q.items = q.items[n:]
	return nil
}

// answers are what an intake says, one after the other, and then that it accepts.
type answers struct {
	mu    sync.Mutex
	list  []func(*http.Request) (*http.Response, error) // guarded by mu
	at    []time.Duration                               // guarded by mu: when it was asked
	sent  []int                                         // guarded by mu: how many events
	begin time.Time
}

func say(status int, text string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
		for i := 0; i+1 < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.at, a.sent = append(a.at, time.Since(a.begin)), append(a.sent, bytes.Count(body, []byte("\n")))
	say := say(http.StatusAccepted, fmt.Sprintf(`{"accepted": %d}`, bytes.Count(body, []byte("\n"))))
	if len(a.list) > 0 {
		say, a.list = a.list[0], a.list[1:]
	}
	a.mu.Unlock()
	return say(r)
}

// running is a Publisher that runs within a bubble.
type running struct {
	*answers
	q     *queue
	log   bytes.Buffer
	ended chan struct{}
	stop  context.CancelFunc
}

func publish(t *testing.T, q *queue, list ...func(*http.Request) (*http.Response, error)) *running {
	t.Helper()
	r := &running{answers: &answers{list: list, begin: time.Now()}, q: q, ended: make(chan struct{})}
	p, err := republish.New(republish.Config{
		Outbox: q, Target: republish.Target{Intake: "http://n.test/sets/a/events", Base: base}, Transport: r.answers,
		Logger: slog.New(slog.NewJSONHandler(&r.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		defer close(r.ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return r
}

// lines are the messages of the log.
func (r *running) lines() (all []string) {
	for line := range strings.Lines(r.log.String()) {
		var l map[string]any
		_ = json.Unmarshal([]byte(line), &l)
		all = append(all, strings.TrimSpace(fmt.Sprint(l["msg"], " ", orNothing(l["hint"]))))
	}
	return all
}

func orNothing(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// Whatever an intake says, nothing is let go but what it has accepted, and what is refused by itself.
func TestAnswers(t *testing.T) {
	const again = "the intake did not take changes; they are handed over again"
	const aside = "the intake refuses a change: it is set aside until the copy changes, or the next start"
	const tooLarge = "the intake, or a proxy before it, finds this change too large (413): allow requests of 1 MB there"
	cut := func(*http.Request) (*http.Response, error) { return nil, errCut }
	for name, tc := range map[string]struct {
		list    []func(*http.Request) (*http.Response, error)
		sent    []int
		settled []string
		wait    [2]time.Duration // before the second request
		line    string
	}{
		"accepted":           {nil, []int{3}, []string{"a", "b", "c"}, [2]time.Duration{}, ""},
		"no answer":          {list(cut), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"busy":               {list(say(503, "busy", "Retry-After", "7")), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{7 * time.Second, 7 * time.Second}, again},
		"busy for very long": {list(say(503, "busy", "Retry-After", "86400")), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Minute, time.Minute}, again},
		"too many":           {list(say(429, "")), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"no such set": {
			list(say(404, "There is no such set.")),
			[]int{3, 3},
			[]string{"a", "b", "c"},
			[2]time.Duration{time.Second / 2, 2 * time.Second},
			again + " the notifier has no such set: name it by its --set, or correct --publish",
		},
		"a watched set": {
			list(say(403, "no")),
			[]int{3, 3},
			[]string{"a", "b", "c"},
			[2]time.Duration{time.Second / 2, 2 * time.Second},
			again + " a watched set takes no events: name another set by --publish",
		},
		"some web server": {
			list(say(200, "<html>")),
			[]int{3, 3},
			[]string{"a", "b", "c"},
			[2]time.Duration{time.Second / 2, 2 * time.Second},
			again + " what --publish names is no intake of a notifier: it answers 202 and how many events it took",
		},
		"another queue": {
			list(say(202, "")),
			[]int{3, 3},
			[]string{"a", "b", "c"},
			[2]time.Duration{time.Second / 2, 2 * time.Second},
			again + " what --publish names is no intake of a notifier: it answers 202 and how many events it took",
		},
		"not all": {list(say(202, `{"accepted": 2}`)), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"a redirect": {list(
			say(302, "", "Location", "http://x.test/"),
		), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"TLS is wanted": {list(
			say(400, "Client sent an HTTP request to an HTTPS server."),
		), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"the first is bad": {
			list(say(400, "line 1: loc is bad"), say(400, "line 1: loc is bad")),
			[]int{3, 2, 1},
			[]string{"a line 1: loc is bad", "b line 1: loc is bad", "c"},
			[2]time.Duration{},
			aside,
		},
		"one is bad": {
			list(say(400, "line 2: hash is bad"), say(202, `{"accepted":1}`), say(400, "line 1: hash is bad")),
			[]int{3, 1, 2, 1},
			[]string{"a", "b line 1: hash is bad", "c"},
			[2]time.Duration{},
			aside,
		},
		"a line beyond":    {list(say(400, "line 4: hash is bad")), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"too large":        {list(say(413, "")), []int{3, 1, 2}, []string{"a", "b", "c"}, [2]time.Duration{}, ""},
		"one is too large": {list(say(413, ""), say(413, "")), []int{3, 1, 1, 1}, []string{"a " + tooLarge, "b", "c"}, [2]time.Duration{}, aside},
		"all are too large": {list(
			say(413, ""), say(413, ""), say(413, ""), say(413, ""),
		), []int{3, 1, 1, 1}, []string{"a " + tooLarge, "b " + tooLarge, "c " + tooLarge}, [2]time.Duration{}, aside},
		"another protocol": {list(func(*http.Request) (*http.Response, error) {
			body, _ := io.Pipe() // of which nothing comes
			return &http.Response{StatusCode: 101, Header: http.Header{}, Body: body}, nil
		}), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
		"an answer that ends": {list(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 202, Header: http.Header{},
				Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"acc`), failing{})),
			}, nil
		}), []int{3, 3}, []string{"a", "b", "c"}, [2]time.Duration{time.Second / 2, 2 * time.Second}, again},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := publish(t, newQueue("a", "b", "c"), tc.list...)
				time.Sleep(50 * time.Second)
				if strings.Contains(name, "long") {
					time.Sleep(15 * time.Second)
				}
				synctest.Wait()
				r.stop()
				<-r.ended
				if !slices.Equal(r.sent, tc.sent) || !slices.Equal(r.q.settled, tc.settled) {
					t.Errorf("sent %v, settled %q; want %v, %q", r.sent, r.q.settled, tc.sent, tc.settled)
				}
				if len(r.at) > 1 && (r.at[1] < tc.wait[0] || r.at[1] > tc.wait[1]) {
					t.Errorf("asked at %v; want the second within %v", r.at, tc.wait)
				}
				if lines := r.lines(); tc.line != "" && (len(lines) == 0 || !slices.ContainsFunc(
					lines, func(l string) bool { return strings.HasPrefix(l, tc.line) },
				)) {
					t.Errorf("logged %q; want %q", lines, tc.line)
				}
			})
		})
	}
}

func list(all ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	return all
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errCut }

// A change is handed over at once; a line a minute has the counts. Trouble with the store ends
// nothing.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.fails = 2
		r := publish(t, q)
		time.Sleep(10 * time.Second)
		q.add("a")
		synctest.Wait()
		if got := q.settled; !slices.Equal(got, []string{"a"}) || r.at[0] != 10*time.Second {
			t.Errorf("settled %q at %v", got, r.at)
		}
		time.Sleep(2 * time.Minute)
		q.add("b", "c")
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		r.stop()
		<-r.ended
		own, described, again := 0, 0, 0
		for _, line := range r.lines() {
			switch line {
			case "changes are not published for now: trouble with the own store":
				own++
			case "changes were handed to the intake":
				described++
			case "changes are published again":
				again++
			default:
				t.Error(line)
			}
		}
		if own != 2 || described != 2 || again != 1 || !slices.Equal(r.sent, []int{1, 2}) {
			t.Errorf("sent %v; logged\n%s", r.sent, &r.log)
		}
	})
}

// A request that is under way when the publisher stops may end, within a time; an acceptance then
// counts.
func TestStop(t *testing.T) {
	for name, slow := range map[string]time.Duration{"soon": time.Second, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := publish(t, newQueue("a"), func(req *http.Request) (*http.Response, error) {
					select {
					case <-time.After(slow):
						return say(202, `{"accepted": 1}`)(req)
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
				})
				synctest.Wait()
				begin := time.Now()
				r.stop()
				<-r.ended
				if took := time.Since(begin); took > 5*time.Second || len(r.q.settled) != 1 && name == "soon" || len(r.q.settled) != 0 && name == "never" {
					t.Errorf("settled %q after %s", r.q.settled, took)
				}
			})
		})
	}
}
