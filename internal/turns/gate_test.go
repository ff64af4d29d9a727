package turns_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/turns"
)

func newGate(slots, perPeer, slow int, slowAfter time.Duration) *turns.Gate {
	return turns.NewGate(turns.GateConfig{Config: turns.Config[string]{
		Slots: slots, PerPeer: perPeer, SlowSlots: slow, SlowAfter: slowAfter,
	}})
}

// TestGateTakesLong: however soon a slot turns slow, and however full those beside are, each
// is given back once.
func TestGateTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 100
		gate := newGate(slots, slots, 1, time.Nanosecond)
		enterAll := func() (passes []*turns.Pass) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range slots {
				wg.Go(func() {
					one, err := gate.Enter(t.Context(), "example.com")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					passes = append(passes, one)
				})
			}
			wg.Wait()
			return passes
		}
		for range 2 {
			passes := enterAll()
			time.Sleep(10 * time.Nanosecond)
			for _, one := range passes {
				one.Leave()
			}
			if n := gate.Inside(); n != 0 {
				t.Errorf("%d are inside when all have left", n)
			}
		}
	})
}

// TestGateSlow: a peer that hangs holds up only itself once it is slow.
func TestGateSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(1, 1, 1, time.Second)
		hanging, err := gate.Enter(t.Context(), "hanging")
		if err != nil {
			t.Fatal(err)
		}
		defer hanging.Leave()
		began := time.Now()
		one, err := gate.Enter(t.Context(), "well")
		if err != nil || time.Since(began) != time.Second {
			t.Fatalf("%v after %v, want to enter after a second", err, time.Since(began))
		}
		one.Leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := gate.Enter(ctx, "hanging"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the peer waits for its own", err)
		}
	})
}

// TestGateFair: of many goroutines of one peer and a few of others none of the few waits for
// more than one round of the peers.
func TestGateFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(2, 0, 0, 0)
		var wg sync.WaitGroup
		var inside, most atomic.Int64
		work := func(peer string) (waited time.Duration) {
			came := time.Now()
			pass, err := gate.Enter(t.Context(), peer)
			if err != nil {
				t.Error(err)
				return 0
			}
			defer pass.Leave()
			waited = time.Since(came)
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			inside.Add(-1)
			return waited
		}
		for range 1000 {
			wg.Go(func() { work("busy") })
		}
		synctest.Wait()
		for _, peer := range []string{"b", "c", "d"} {
			wg.Go(func() {
				if waited := work(peer); waited > 2*time.Second {
					t.Errorf("%s waited for %v, want two rounds of the two slots at most", peer, waited)
				}
			})
		}
		wg.Wait()
		if most.Load() != 2 {
			t.Errorf("%d were inside at once, want 2", most.Load())
		}
	})
}

// TestGateFull: so many may wait, in all and for a peer; one whose context ends waits no more.
func TestGateFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := turns.NewGate(turns.GateConfig{
			Config: turns.Config[string]{Slots: 1, PerPeer: 1}, MaxWaiting: 3, MaxWaitingPerPeer: 2,
		})
		held, err := gate.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wait := func(peer string) {
			wg.Go(func() {
				if _, err := gate.Enter(ctx, peer); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want that the context ended", err)
				}
			})
			synctest.Wait()
		}
		refused := func(peer string) {
			if _, err := gate.Enter(ctx, peer); !errors.Is(err, turns.ErrFull) {
				t.Errorf("%s: %v, want ErrFull", peer, err)
			}
		}
		wait("a")
		wait("a")
		refused("a")
		wait("b")
		refused("b")
		cancel()
		wg.Wait()
		held.Leave()
		if one, err := gate.Enter(t.Context(), "c"); err != nil {
			t.Errorf("after all have gone: %v", err)
		} else {
			one.Leave()
		}
	})
}

// TestGateLimit: a peer that leaves with another limit has that one until it is forgotten.
func TestGateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(10, 1, 0, 0)
		var wg sync.WaitGroup
		for range 7 {
			wg.Go(func() {
				pass, err := gate.Enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				pass.LeaveLimit(func(limit int) int { return limit + 1 })
			})
		}
		for _, want := range []int{1, 2, 4, 0} {
			synctest.Wait()
			if n := gate.Inside(); n != want {
				t.Errorf("%d are inside, want %d", n, want)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}
