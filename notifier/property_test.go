package notifier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"carillon/notifier"
	"carillon/notifier/journaltest"
)

func newMem() vfs.FS { return vfs.NewMem() }

// TestIntervalsProperty: whatever the clock does, whatever datetimes clients ask for,
// however events arrive and the hub answers, the notifications of each set are a
// chain with every event once, and until is never in the future.
func TestIntervalsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt) // before the bubble, where rapid cannot work
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// plan is what happens to a notifier.
type plan struct {
	maxEntries int
	maxWait    time.Duration
	steps      []step
}

// step is one of: the clock is set, time passes, a restart, events.
type step struct {
	clock, sleep time.Duration
	restart      bool
	events       []arrival
}

type arrival struct {
	sets []string
	ago  time.Duration // how long ago the client says the change was; 0: it does not say
}

func drawPlan(rt *rapid.T) plan {
	duration := func(low, high time.Duration, name string) time.Duration {
		return time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(rt, name))
	}
	p := plan{
		maxEntries: rapid.IntRange(1, 5).Draw(rt, "max-entries"),
		maxWait:    duration(time.Millisecond, 3*time.Second, "max-wait"),
	}
	for range rapid.IntRange(1, 12).Draw(rt, "steps") {
		var s step
		switch rapid.IntRange(0, 4).Draw(rt, "step") {
		case 0:
			s.clock = duration(-time.Minute, time.Minute, "clock")
		case 1:
			s.sleep = duration(1, 5*time.Second, "sleep")
		case 2:
			s.restart = true
		default:
			for range rapid.IntRange(1, 9).Draw(rt, "events") {
				s.events = append(s.events, arrival{
					sets: rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}}).Draw(rt, "sets"),
					ago:  duration(-time.Second, 3*time.Second, "ago"),
				})
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

func (p plan) run(t *testing.T) error {
	clock := &wildClock{}
	h := &hub{}
	var mu sync.Mutex
	var future []time.Time
	seen := map[time.Time]bool{} // by until: at a repeat the clock may have been set back
	h.answer = func(number int, _ *http.Request) (*http.Response, error) {
		n, err := readNote(h.received()[number-1].body)
		if err != nil {
			return nil, err // the chain will be judged as a whole
		}
		mu.Lock()
		defer mu.Unlock()
		if !seen[n.until] && n.until.After(clock.now()) {
			future = append(future, n.until)
		}
		seen[n.until] = true
		if number%3 == 0 {
			return status(http.StatusInternalServerError), nil
		}
		return status(http.StatusOK), nil
	}
	w := &world{t: t, hub: h, fs: newMem(), cfg: notifier.Config{
		URL: base, Hub: hubURL, Transport: h, Sets: []string{"a", "b"}, Now: clock.now,
		MaxEntries: p.maxEntries, MaxWait: p.maxWait,
	}}
	w.start()
	defer func() { w.stop() }()
	want := map[string]int{}
	for i, s := range p.steps {
		synctest.Wait() // so that no notification is between its making and its sending
		clock.step(s.clock)
		time.Sleep(s.sleep)
		if s.restart {
			w.restart()
		}
		var events []notifier.Event
		for k, a := range s.events {
			e := journaltest.Created(fmt.Sprintf("http://a.example/%d/%d", i, k), a.sets...)
			if a.ago != 0 {
				e.Datetime = clock.now().Add(-a.ago)
			}
			events = append(events, e)
			for _, set := range a.sets {
				want[set]++
			}
		}
		if err := w.Append(context.Background(), events); err != nil {
			return err
		}
	}
	w.drain()
	for _, set := range w.cfg.Sets {
		notes := h.notes(t, set)
		got := 0
		for _, n := range notes {
			got += len(n.entries)
			if len(n.entries) > p.maxEntries {
				return fmt.Errorf("a notification of %d entries, not %d", len(n.entries), p.maxEntries)
			}
		}
		if err := checkChain(notes); err != nil || got != want[set] {
			return fmt.Errorf("%s has %d events, want %d: %v", set, got, want[set], err)
		}
	}
	if len(future) > 0 {
		return fmt.Errorf("until is in the future: %s", future)
	}
	return nil
}

// wildClock is a clock that someone sets.
type wildClock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *wildClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset).Round(0)
}

func (c *wildClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// TestFaultTable makes each call to the journal fail once, without and with its
// change kept, restarts, and looks at what the hub has in the end.
func TestFaultTable(t *testing.T) {
	for _, call := range []string{"Append", "Events", "Seal", "Body", "Accept"} {
		for _, fault := range []journaltest.Fault{journaltest.Lost, journaltest.Kept} {
			for _, restart := range []bool{false, true} {
				name := fmt.Sprintf("%s/kept=%t/restart=%t", call, fault == journaltest.Kept, restart)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { survives(t, call, fault, restart) })
				})
			}
		}
	}
}

func survives(t *testing.T, call string, fault journaltest.Fault, restart bool) {
	h := &hub{}
	w := &world{t: t, hub: h, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL, Transport: h}}
	var mu sync.Mutex
	armed, failed := false, 0
	w.wrap = func(j notifier.Store) notifier.Store {
		return journaltest.NewFaulty(j, func(name string) journaltest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if !armed || name != call {
				return journaltest.Works
			}
			armed = false
			failed++
			return fault
		})
	}
	w.start()
	defer func() { w.stop() }()
	w.add(inDefault, "before")
	w.drain()
	mu.Lock()
	armed = true
	mu.Unlock()
	err := w.Append(context.Background(), []notifier.Event{journaltest.Created("http://a.example/during", inDefault...)})
	if call == "Append" && !errors.Is(err, notifier.ErrUnavailable) || call != "Append" && err != nil {
		t.Fatalf("Append: %v", err)
	}
	if restart {
		time.Sleep(1100 * time.Millisecond)
		w.restart()
	}
	w.add(inDefault, "after")
	w.drain()
	if failed != 1 {
		t.Fatalf("%d calls failed, want 1", failed)
	}
	notes := h.notes(t, notifier.DefaultSet)
	if err := checkChain(notes); err != nil {
		t.Error(err)
	}
	var locs []string
	for _, n := range notes {
		locs = append(locs, n.locs()...)
	}
	want := "http://a.example/before http://a.example/during http://a.example/after"
	if call == "Append" && fault == journaltest.Lost {
		want = "http://a.example/before http://a.example/after"
	}
	if got := strings.Join(locs, " "); got != want {
		t.Errorf("the hub has %s\nwant %s", got, want)
	}
	byFrom := map[time.Time][]byte{}
	for _, p := range h.received() {
		n, err := readNote(p.body)
		if err != nil {
			t.Fatal(err)
		}
		if first := byFrom[n.from]; first != nil && !bytes.Equal(first, p.body) {
			t.Error("a notification was sent with other bytes")
		}
		byFrom[n.from] = p.body
	}
}

func TestConfigRefusals(t *testing.T) {
	ok := notifier.Config{URL: base, Hub: hubURL}
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*notifier.Config)) notifier.Config {
		c := ok
		change(&c)
		return c
	}
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	for want, c := range map[string]notifier.Config{
		"max-entries must be":                    with(func(c *notifier.Config) { c.MaxEntries = 50_001 }),
		"max-entries must be 1 to 50000, not -1": with(func(c *notifier.Config) { c.MaxEntries = -1 }),
		"MaxBytes must be":                       with(func(c *notifier.Config) { c.MaxBytes = 50_000_001 }),
		"max-wait must be":                       with(func(c *notifier.Config) { c.MaxWait = -1 }),
		"max-wait must be over 0 and at most":    with(func(c *notifier.Config) { c.MaxWait = 2 * time.Hour }),
		"keep must":                              with(func(c *notifier.Config) { c.Keep = -1 }),
		`set: ".well-known" is not a name`:       with(func(c *notifier.Config) { c.Sets = []string{".well-known"} }),
		`set: "a/b" is not a name`:               with(func(c *notifier.Config) { c.Sets = []string{"a/b"} }),
		`set: "" is not a name`:                  with(func(c *notifier.Config) { c.Sets = []string{""} }),
		`set: "xxxxxxxx`: with(
			func(c *notifier.Config) { c.Sets = []string{strings.Repeat("x", 65)} },
		),
		`set: "a" is there twice`:               with(func(c *notifier.Config) { c.Sets = []string{"a", "b", "a"} }),
		"changelist-entries must be 1 to 50000": with(func(c *notifier.Config) { c.ChangeListEntries = 50_001 }),
		"changelist-entries must be 1":          with(func(c *notifier.Config) { c.ChangeListEntries = -1 }),
		"ChangeListBytes must be":               with(func(c *notifier.Config) { c.ChangeListBytes = 1 << 20 }),
		"changelist-for must be over 0":         with(func(c *notifier.Config) { c.ChangeListFor = 745 * time.Hour }),
		`describedby: "b" is no set here`: with(
			func(c *notifier.Config) { c.DescribedBy = map[string]string{"b": "https://a.example/"} },
		),
		`describedby: "about" must be`: with(
			func(c *notifier.Config) { c.DescribedBy = map[string]string{"": "about"} },
		),
		`hide-channel: "b" is no set`: with(
			func(c *notifier.Config) { c.HideChannels = []string{"default", "b"} },
		),
		"set: there may be 256": with(func(c *notifier.Config) { c.Sets = many }),
		`url: "http://h.example:99999/" has no valid host and port`:      with(func(c *notifier.Config) { c.URL = "http://h.example:99999/" }),
		`url: "http://h.example/a%7Bb/" must have no braces in its path`: with(func(c *notifier.Config) { c.URL = "http://h.example/a%7Bb/" }),
		`url: "/" is not an absolute`:                                    with(func(c *notifier.Config) { c.URL = "" }),
		`url: "ftp://a/" is not`:                                         with(func(c *notifier.Config) { c.URL = "ftp://a/" }),
		`url: "http://a/?x/" must have no query`:                         with(func(c *notifier.Config) { c.URL = "http://a/?x" }),
		`hub: "http://u@a/" must have no user`:                           with(func(c *notifier.Config) { c.Hub = "http://u@a/" }),
		`hub: "http://a/#x" must have no user`:                           with(func(c *notifier.Config) { c.Hub = "http://a/#x" }),
		`hub: "http://a/>" has characters`:                               with(func(c *notifier.Config) { c.Hub = "http://a/>" }),
		`hub: "http://:80/" has no valid host`:                           with(func(c *notifier.Config) { c.Hub = "http://:80/" }),
		"hub: \"http://a/xxx": with(
			func(c *notifier.Config) { c.Hub = "http://a/" + strings.Repeat("x", 2000) },
		),
	} {
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %s", err, want)
		}
	}
	if _, err := notifier.New(t.Context(), ok); err == nil {
		t.Error("New without a journal")
	}
}
