package house

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/internal/engine"
	"carillon/subscription"
)

// awaiting is what /readyz says of a hub that has nothing but a store, which answers Ready as
// given.
func awaiting(ready func(context.Context) error) (*readiness, *bytes.Buffer) {
	log := &bytes.Buffer{}
	shared := &engine.Engine{Ready: ready, Listen: func(context.Context, engine.Ear) error { return nil }}
	return &readiness{
		store:  newAttachment(shared, slog.New(slog.NewTextHandler(log, nil))),
		holder: &holder{Surety: &subscription.Surety{}},
	}, log
}

var errAway = fmt.Errorf("%w: the test callback is not listening", subscription.ErrUnavailable)

// The store is asked until it is there; the log says once that it is waited for
// and once that it came.
func TestAwaitStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h, log := awaiting(func(ctx context.Context) error {
			switch asked++; asked {
			case 1, 2:
				return errAway
			case 3: // it hangs
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		begun := time.Now()
		if err := h.store.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); asked != 4 || took != 3*askEvery+askWithin {
			t.Errorf("asked %d times in %s; want 4 in %s", asked, took, 3*askEvery+askWithin)
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "the test callback is not listening") != 1 {
			t.Errorf("logged\n%s", text)
		}
		if h.store.missing.Load() != nil {
			t.Error("the store counts as missing after it was reached")
		}
	})
}

// Trouble that waiting does not mend comes back; the end of the context does not.
func TestAwaitStoreInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("the format is another")
		h, _ := awaiting(func(context.Context) error { return refused })
		if err := h.store.await(t.Context()); !errors.Is(err, refused) {
			t.Errorf("err = %v", err)
		}
		h, _ = awaiting(func(context.Context) error { return errAway })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := h.store.await(ctx); err != nil {
			t.Errorf("err = %v after the end of the context", err)
		}
		if missing := h.store.missing.Load(); missing == nil || !errors.Is(*missing, errAway) {
			t.Errorf("the reason is %v", missing)
		}
	})
}

// TestWatchStore checks that a warning is logged when a store gets settings that a start
// would refuse, and none for a store that is away or well.
func TestWatchStore(t *testing.T) {
	for _, test := range []struct {
		ready error
		lines int
	}{{nil, 0}, {errAway, 0}, {errors.New("maxmemory-policy is allkeys-lru"), 2}} {
		synctest.Test(t, func(t *testing.T) {
			h, log := awaiting(func(context.Context) error { return test.ready })
			ctx, cancel := context.WithTimeout(t.Context(), 2*lookEvery+time.Second)
			defer cancel()
			h.store.watch(ctx)
			if n := strings.Count(log.String(), "\n"); n != test.lines {
				t.Errorf("%v: %d log lines, want %d\n%s", test.ready, n, test.lines, log)
			}
		})
	}
}

// Before the store was checked nothing gets into it, and afterwards everything.
func TestGate(t *testing.T) {
	h, _ := awaiting(nil)
	reached := 0
	requests := gatedRequests{submits{reached: &reached}, h.store}
	log := gatedLog{nil, h.store}
	pings := gatedPings{nil, h.store}
	if err := requests.Submit(t.Context(), subscription.Request{}); !errors.Is(err, subscription.ErrUnavailable) {
		t.Errorf("Submit: %v", err)
	}
	if _, err := log.Append(t.Context(), delivery.Publication{}, [16]byte{}, time.Now()); !errors.Is(err, subscription.ErrUnavailable) {
		t.Errorf("Append: %v", err)
	}
	if _, err := pings.Ping(t.Context(), nil); !errors.Is(err, subscription.ErrUnavailable) {
		t.Errorf("Ping: %v", err)
	}
	h.store.missing.Store(nil)
	if err := requests.Submit(t.Context(), subscription.Request{}); err != nil || reached != 1 {
		t.Errorf("Submit after the check: %v, reached %d times", err, reached)
	}
}

// submits is a store that counts the requests it is given.
type submits struct {
	subscription.Store
	reached *int
}

func (s submits) Submit(context.Context, subscription.Request) error { *s.reached++; return nil }

// Each state in which a process of several cannot deliver has its reason.
func TestDeliveriesReadyAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := awaiting(nil)
		var err error
		if h.dispatcher, err = dispatch.New(dispatch.Config{}, dispatch.Stores{}, nil, nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		fair, joined := 2, false
		h.store.Fair = func() (int, bool) { return fair, joined }
		want := func(reason string) {
			t.Helper()
			if err := h.deliveriesReady(t.Context()); err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("not ready because %v; want %q", err, reason)
			}
		}
		want("wait for the store")
		h.store.missing.Store(nil)
		want("joining")
		h.holder.Sure(time.Now().Add(time.Second))
		want("0 of 2 shards")
		h.holder.set(3, takeoverState{begun: 1})
		h.holder.set(4, takeoverState{begun: 3, held: true})
		want("1 of 2 shards")
		h.holder.set(3, takeoverState{begun: 3, held: true})
		want("2 of 2 shards") // its part is not known yet
		joined = true
		ready := func() {
			t.Helper()
			if err := h.deliveriesReady(t.Context()); err != nil {
				t.Errorf("not ready because %v", err)
			}
		}
		ready()
		fair = 64 // it takes over from one that is gone, and goes on meanwhile
		ready()
		time.Sleep(time.Second)
		want("did not confirm in time")
	})
}

// TestReachStoreKeepsTheReason checks that the error of a silent store names the question, and
// that the error of a store that gives a reason has that reason.
func TestReachStoreKeepsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := awaiting(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("dial host: %w", ctx.Err())
		})
		err := h.store.reach(t.Context())
		if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 10s") ||
			!strings.Contains(err.Error(), "dial host") {
			t.Errorf("err = %v of a store that hangs", err)
		}
		h, _ = awaiting(func(context.Context) error { return fmt.Errorf("%w: TLS: %w", errAway, context.DeadlineExceeded) })
		if err := h.store.reach(t.Context()); !errors.Is(err, errAway) || strings.Contains(err.Error(), "no answer within") {
			t.Errorf("err = %v of a handshake that was not answered", err)
		}
	})
}

// What /readyz says of a store that fails is about the store, not about the
// subscription that was asked for to see it.
func TestStoreReadyTellsTheStoresTrouble(t *testing.T) {
	t.Parallel()
	h, _ := awaiting(nil)
	h.store.missing.Store(nil)
	h.store.Subscriptions = failing{}
	err := h.storeReady(t.Context())
	if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "the test callback is not listening") {
		t.Errorf("err = %v; want %v", err, errAway)
	}
	if strings.Contains(err.Error(), "0000") {
		t.Errorf("%q names a subscription", err)
	}
}

// failing is a store of which nothing can be read.
type failing struct{ subscription.Store }

func (failing) Get(_ context.Context, id subscription.ID) (subscription.Subscription, error) {
	return subscription.Subscription{}, fmt.Errorf("get subscription %s: %w", id, errAway)
}

// The operator's overview does not wait for a store that hangs, and says so.
func TestOverviewBesideAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := awaiting(nil)
		h.store.missing.Store(nil)
		ended := make(chan struct{})
		h.store.Subscriptions = hanging{ended: ended}
		h.store.Fair = func() (int, bool) { return 1, false }
		begun, said := time.Now(), ""
		for _, c := range h.checked(t.Context()) {
			if c.Name == "store" {
				said = c.Error
			}
		}
		if took := time.Since(begun); !strings.Contains(said, "no answer within") || took > 10*time.Second {
			t.Errorf("after %s the check of the store said %q", took, said)
		}
		close(ended)
	})
}

// hanging is a store that answers nothing until it ends, whatever its context is.
type hanging struct {
	subscription.Store
	ended chan struct{}
}

func (s hanging) Get(context.Context, subscription.ID) (subscription.Subscription, error) {
	<-s.ended
	return subscription.Subscription{}, errAway
}
