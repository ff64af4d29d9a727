package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/fetch"
)

var errDown = &fetch.Trouble{Kind: fetch.Unreachable, Err: errors.New("down")}

// pauses returns how long a slot of a host is waited for after 0, 1, … failures in a row; less than 0
// is a slot that is refused, for so long.
func pauses(t *testing.T, hosts *fetch.Hosts, failures int) (all []time.Duration) {
	h := hosts.Of("a.test")
	for n := range failures + 1 {
		begin := time.Now()
		err := h.Enter(t.Context())
		pause := time.Since(begin)
		if refused, is := errors.AsType[*fetch.Trouble](err); is {
			pause = -refused.After
			time.Sleep(refused.After)
			err = h.Enter(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pause)
		h.Leave()
		h.Note(errDown)
		if n >= hosts.Failures {
			h.Note(errDown) // of several that fail together one counts
		}
	}
	return all
}

// A host that fails repeatedly is paused for longer and longer, and not any more when it is well.
func TestFailingHost(t *testing.T) {
	const patience, most = 10 * time.Second, time.Minute
	for name, tt := range map[string]struct {
		hosts *fetch.Hosts
		want  []time.Duration // seconds; less than 0: refused
	}{
		"paused": {&fetch.Hosts{
			PerHost: 2, Failures: 5, MaxPause: most, Patience: patience,
		}, []time.Duration{0, 0, 0, 0, 0, 1, 2, 4, 8, -16, -32, -60, -60}},
		"all waited for": {&fetch.Hosts{PerHost: 2, Failures: 2, MaxPause: most}, []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 60, 60}},
		"never paused":   {&fetch.Hosts{PerHost: 2, MaxPause: most}, make([]time.Duration, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := tt.hosts
				told := 0
				hosts.OnPause = func(name string, pause time.Duration, _ int, last error) {
					if told++; name != "a.test" || pause <= 0 || !errors.Is(last, errDown) {
						t.Errorf("told of %s, %s, %v", name, pause, last)
					}
				}
				got := pauses(t, hosts, len(tt.want)-1)
				paused := 0
				for i, want := range tt.want {
					if got[i] != want*time.Second {
						t.Errorf("after %d failures: %s, want %s", i, got[i], want*time.Second)
					}
					if want != 0 {
						paused++
					}
				}
				if paused > 0 {
					paused++ // after the last failure
				}
				if told != paused {
					t.Errorf("told of %d pauses, want %d", told, paused)
				}
				h := hosts.Of("a.test")
				time.Sleep(most)
				h.Note(&fetch.Trouble{Kind: fetch.Missing, Err: errors.New("404")})
				begin := time.Now()
				h.Note(errDown)
				if err := h.Enter(t.Context()); err != nil || time.Since(begin) > 0 && hosts.Failures > 1 {
					t.Errorf("after one failure more: %s, %v", time.Since(begin), err)
				}
				if again := hosts.Of("b.test").Enter(t.Context()); again != nil {
					t.Error(again)
				}
			})
		})
	}
}

// A host that asks for it is paused at once, for a bounded time, and a shorter wish does not end a pause.
func TestAskedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&fetch.Hosts{PerHost: 1, MaxPause: 30 * time.Second}).Of("a.test")
		for _, after := range []time.Duration{time.Hour, time.Second} {
			h.Note(&fetch.Trouble{Kind: fetch.Busy, After: after, Err: errors.New("503")})
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		if err := h.Enter(t.Context()); err != nil || time.Since(begin) != 30*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

// No host has more requests at a time than PerHost.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := &fetch.Hosts{PerHost: 2, MaxPause: time.Minute}
		begin := time.Now()
		for range 5 {
			go func() {
				h := hosts.Of("a.test")
				if err := h.Enter(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				h.Leave()
			}()
		}
		synctest.Wait()
		h := hosts.Of("a.test")
		for range 2 {
			if err := h.Enter(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("two slots for five requests of a second were free after %s, want 3s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third slot: %v", err)
		}
	})
}

// Hosts that fail are forgotten when there are too many: those in use are not, and of the others
// first the ones whose pause is over.
func TestTooManyFailingHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := &fetch.Hosts{PerHost: 1, Failures: 1, MaxPause: time.Hour}
		fail := func(name string, after time.Duration) *fetch.Host {
			h := hosts.Of(name)
			h.Note(&fetch.Trouble{Kind: fetch.Busy, After: after, Err: errDown.Err})
			return h
		}
		used := fail("used", time.Hour)
		if err := used.Enter(t.Context()); err != nil { // after its pause
			t.Fatal(err)
		}
		paused := fail("paused", time.Hour)
		for n := range 50_000 {
			fail(fmt.Sprint("over", n), time.Second)
			if n%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		if hosts.Of("used") != used || hosts.Of("paused") != paused {
			t.Error("a host was forgotten that is in use or paused")
		}
		for n := range 50_000 {
			fail(fmt.Sprint("down", n), time.Hour)
		}
		if hosts.Of("used") != used {
			t.Error("a host in use was forgotten")
		}
		if n := fetch.Known(hosts); n > 10_000 {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}
