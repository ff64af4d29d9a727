package house

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// recorder stands for the workers of a holder, and records the calls.
type recorder struct {
	told []string
	fail string // the worker whose gained fails
}

var errWorker = errors.New("the worker fails")

func (r *recorder) workers(names ...string) (workers []worker) {
	for _, name := range names {
		workers = append(workers, worker{
			gained: func(_ context.Context, t delivery.Tenure) error {
				r.told = append(r.told, fmt.Sprintf("%s gained %d/%d", name, t.Shard, t.Epoch))
				if r.fail == name {
					return errWorker
				}
				return nil
			},
			lost: func(s subscription.Shard) { r.told = append(r.told, fmt.Sprintf("%s lost %d", name, s)) },
		})
	}
	return workers
}

// A shard is handed from the ground up, and taken back from the top down.
func TestHolderOrder(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	h := &holder{workers: r.workers("a", "b", "c"), Surety: &subscription.Surety{}}
	if err := h.Gained(t.Context(), delivery.Tenure{Shard: 7, Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	if held, _ := h.counts(); held != 1 {
		t.Errorf("%d held after Gained", held)
	}
	h.Lost(7)
	want := []string{"a gained 7/3", "b gained 7/3", "c gained 7/3", "c lost 7", "b lost 7", "a lost 7"}
	if !slices.Equal(r.told, want) {
		t.Errorf("told %q, want %q", r.told, want)
	}
	if held, _ := h.counts(); held != 0 {
		t.Errorf("%d held after Lost", held)
	}
}

// TestHolderFailure checks that a worker which fails to gain a shard stops the gain: the workers
// above get no call, and it and those below get one Lost.
func TestHolderFailure(t *testing.T) {
	t.Parallel()
	r := &recorder{fail: "b"}
	h := &holder{workers: r.workers("a", "b", "c"), Surety: &subscription.Surety{}}
	if err := h.Gained(t.Context(), delivery.Tenure{Shard: 7, Epoch: 3}); !errors.Is(err, errWorker) {
		t.Fatalf("err = %v", err)
	}
	if held, _ := h.counts(); held != 0 {
		t.Errorf("%d held after a Gained that failed", held)
	}
	h.Lost(7)
	h.Lost(7)
	want := []string{"a gained 7/3", "b gained 7/3", "b lost 7", "a lost 7"}
	if !slices.Equal(r.told, want) {
		t.Errorf("told %q, want %q", r.told, want)
	}
}

// TestHolderSure: every worker goes by the engine's time, which is counted too.
func TestHolderSure(t *testing.T) {
	t.Parallel()
	surety := &subscription.Surety{}
	h := &holder{Surety: surety}
	if _, until := h.counts(); !until.IsZero() {
		t.Errorf("sure until %s before it was set", until)
	}
	until := time.Now().Add(time.Minute)
	delivery.Holder(h).Sure(until)
	if _, got := h.counts(); !got.Equal(until) {
		t.Errorf("counted %s; want %s", got, until)
	}
	if !surety.Of(7, until.Add(-1)) || surety.Of(7, until) {
		t.Error("the workers go by another time")
	}
}
