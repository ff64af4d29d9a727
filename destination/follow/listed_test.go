package follow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
)

// resources is a Resource List that breaks off at first.
type resources struct {
	n, asked int
	at       time.Time
}

func (r *resources) Resources(_ context.Context, uri string, visit func(payload.Entry) error) (lists.Snapshot, error) {
	if r.asked++; uri != listURI {
		return lists.Snapshot{}, errors.New("another list")
	}
	for i := range r.n {
		if r.asked == 1 && i == r.n/2 {
			return lists.Snapshot{}, errLater
		}
		if err := visit(payload.Entry{Loc: fmt.Sprintf("http://source.example/%d", i), Length: "1"}); err != nil {
			return lists.Snapshot{}, err
		}
	}
	return lists.Snapshot{At: r.at, Entries: r.n}, nil
}

// A baseline for a receiver that takes only changes: each resource, under a key that stays.
func TestListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &resources{n: 1200, at: time.Now()}
		k := &handler{fail: func(calls int, changes []follow.Change) (int, error) {
			if calls%3 == 1 {
				return len(changes) / 2, errors.New("the taker fails")
			}
			return len(changes), nil
		}}
		l := &follow.Listed{Lists: r, Handler: k, ResourceList: func(context.Context) (string, error) { return listURI, nil }}
		if _, err := l.Baseline(t.Context()); !errors.Is(err, errLater) {
			t.Errorf("a list that breaks off: %v", err)
		}
		keys := map[string]int{}
		for i, c := range k.changes() {
			keys[c.Key] = i
		}
		first := len(k.changes())
		if at, err := l.Baseline(t.Context()); err != nil || !at.Equal(r.at) {
			t.Fatal(at, err)
		}
		again := k.changes()[first:]
		if len(again) != r.n {
			t.Errorf("%d resources were handed on of %d", len(again), r.n)
		}
		for i, c := range again {
			if c.Loc != fmt.Sprintf("http://source.example/%d", i) || c.Change != payload.Created || c.Via != follow.ResourceList {
				t.Fatalf("resource %d is %+v", i, c)
			}
			if n, known := keys[c.Key]; i < first && (!known || n != i) {
				t.Fatalf("resource %d has another key", i)
			}
		}
		l.ResourceList = func(context.Context) (string, error) { return "", nil }
		if _, err := l.Baseline(t.Context()); err == nil {
			t.Error("there is no Resource List, and a baseline")
		}
	})
}
