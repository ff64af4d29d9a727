package faults_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/internal/faults"
	"carillon/subscription"
	"carillon/topic"
)

// tape is a store that notes what reaches it, and has ten requests.
type tape struct {
	subscription.Store
	calls int
}

func (s *tape) Drop(context.Context, subscription.Request) error {
	s.calls++
	return nil
}

func (s *tape) Get(context.Context, subscription.ID) (subscription.Subscription, error) {
	s.calls++
	return subscription.Subscription{Callback: loyal}, subscription.ErrNotFound
}

func (s *tape) Requests(context.Context, subscription.Shard) iter.Seq2[subscription.Request, error] {
	return func(yield func(subscription.Request, error) bool) {
		s.calls++
		for range 10 {
			if !yield(subscription.Request{Callback: loyal}, nil) {
				return
			}
		}
	}
}

func single(call string, kind faults.Kind) *faults.Plan {
	return faults.NewPlan(faults.Config{Single: []faults.Single{{Call: call, At: 1, Kind: kind}}, HangMax: time.Hour})
}

// Each kind does what it says, once.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind  faults.Kind
		calls int
		fails bool
		after time.Duration // it takes at most
	}{
		{faults.None, 1, false, 0},
		{faults.Before, 0, true, 0},
		{faults.After, 1, true, 0},
		{faults.Delay, 1, false, time.Second},
		{faults.Hang, 0, true, time.Hour},
	} {
		for name, call := range map[string]func(ctx context.Context, s *faults.Store) error{
			"store.Drop": func(ctx context.Context, s *faults.Store) error { return s.Drop(ctx, subscription.Request{}) },
			"store.Requests": func(ctx context.Context, s *faults.Store) error {
				for _, err := range s.Requests(ctx, 0) {
					if err != nil {
						return err
					}
				}
				return nil
			},
		} {
			t.Run(name+" "+c.kind.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner, plan := &tape{}, single(name, c.kind)
					s := faults.NewStore(inner, plan)
					began := time.Now()
					err := call(t.Context(), s)
					took := time.Since(began)
					if c.fails != errors.Is(err, faults.ErrInjected) || c.fails != errors.Is(err, subscription.ErrUnavailable) {
						t.Errorf("got error %v", err)
					}
					if c.fails != c.kind.Fails() {
						t.Error("Fails says otherwise")
					}
					if inner.calls != c.calls {
						t.Errorf("%d calls reached the store, want %d", inner.calls, c.calls)
					}
					if took > c.after || c.after > 0 && took == 0 {
						t.Errorf("it took %s", took)
					}
					if n := len(plan.Counts()); (n == 1) != (c.kind != faults.None) {
						t.Errorf("counted %v", plan.Counts())
					}
					if err := call(t.Context(), s); err != nil {
						t.Errorf("the second call: %v", err)
					}
				})
			})
		}
	}
}

// A hang ends with its context.
func TestHangEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		plan := faults.NewPlan(faults.Config{Single: []faults.Single{{Call: "store.Drop", At: 1, Kind: faults.Hang}}})
		err := faults.NewStore(&tape{}, plan).Drop(ctx, subscription.Request{})
		if !errors.Is(err, subscription.ErrUnavailable) || time.Since(began) != time.Second {
			t.Errorf("got error %v after %s", err, time.Since(began))
		}
	})
}

// A plan that has gone calm lets every call pass, and plans nothing any more.
func TestCalm(t *testing.T) {
	plan := faults.NewPlan(faults.Config{
		Rates:  map[string]faults.Rates{"store.Drop": {Before: 1}},
		Single: []faults.Single{{Call: "store.Drop", At: 3, Kind: faults.After}},
	})
	s := faults.NewStore(&tape{}, plan)
	if err := s.Drop(t.Context(), subscription.Request{}); !errors.Is(err, faults.ErrInjected) {
		t.Fatalf("got error %v, the plan is not calm", err)
	}
	plan.Calm()
	for range 3 {
		if err := s.Drop(t.Context(), subscription.Request{}); err != nil {
			t.Errorf("got error %v", err)
		}
	}
	if counts := plan.Counts(); len(counts) != 1 || counts[0].N != 1 {
		t.Errorf("counted %v", counts)
	}
}

// The engine's answer is lost with a call that fails after it, its error too, and comes through
// otherwise.
func TestResults(t *testing.T) {
	for _, kind := range []faults.Kind{faults.None, faults.After} {
		sub, err := faults.NewStore(&tape{}, single("store.Get", kind)).Get(t.Context(), subscription.ID{})
		if lost := kind == faults.After; lost != (sub.Callback == "") || lost == errors.Is(err, subscription.ErrNotFound) {
			t.Errorf("%s: got %v, error %v", kind, sub, err)
		}
	}
}

// A seed reports the outcome of each call, however calls of other names come between,
// and about as many fail as the rates say.
func TestSeed(t *testing.T) {
	const calls = 2000
	told := func(seed uint64, between bool) (outcomes []bool, counts []faults.Count, injected int) {
		plan := faults.NewPlan(faults.Config{
			Seed: seed, Rates: map[string]faults.Rates{"store.Drop": {Before: 0.1, After: 0.2}},
			Injected: func(string, faults.Kind) { injected++ },
		})
		s := faults.NewStore(&tape{}, plan)
		for range calls {
			outcomes = append(outcomes, s.Drop(t.Context(), subscription.Request{}) != nil)
			if between {
				if _, err := s.Get(t.Context(), subscription.ID{}); errors.Is(err, faults.ErrInjected) {
					t.Fatal("a call without rates failed")
				}
			}
		}
		return outcomes, plan.Counts(), injected
	}
	one, counts, injected := told(1, false)
	if same, _, _ := told(1, true); !slices.Equal(one, same) {
		t.Error("the same seed tells otherwise")
	}
	if other, _, _ := told(2, false); slices.Equal(one, other) {
		t.Error("another seed tells the same")
	}
	if len(counts) != 2 || counts[0].N+counts[1].N != injected {
		t.Fatalf("counted %v, told of %d", counts, injected)
	}
	for i, share := range []float64{0.1, 0.2} {
		if n := float64(counts[i].N); n < share*calls/2 || n > share*calls*2 {
			t.Errorf("%v of %d calls", counts[i], calls)
		}
	}
}

// A log that is trimmed and fails has returned the removed part.
func TestTrimTells(t *testing.T) {
	d := newDisk(t, single("log.Trim", faults.After))
	log := d.parts().Log
	_, err := log.Append(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x")}, subscription.ID{1}, time.Now())
	must(t, err)
	went, err := log.Trim(t.Context(), topicURL, delivery.MaxSeq, time.Now().Add(time.Hour))
	if went.Notifications != 1 || !errors.Is(err, faults.ErrInjected) {
		t.Errorf("got %v, error %v", went, err)
	}
}
