package subscription_test

import (
	"testing"
	"time"

	"carillon/subscription"
)

// TestSurety: a process is sure of each shard until the time that was set last for it, and of a
// doubted one until the time before.
func TestSurety(t *testing.T) {
	now := time.Now()
	var s *subscription.Surety
	s.Watch(func() { t.Error("nothing can be set") })
	if !s.Of(3, now) || !s.OfAny(now) {
		t.Error("a process on its own is not sure")
	}
	s = &subscription.Surety{}
	watched := 0
	s.Watch(func() { watched++ })
	if !s.Of(3, now) || !s.OfAny(now) || !s.Latest().IsZero() {
		t.Error("not sure before a time was set")
	}
	first, second := now.Add(time.Second), now.Add(2*time.Second)
	s.Sure(first)
	s.Sure(second, 3)
	for _, c := range []struct {
		shard subscription.Shard
		until time.Time
	}{{3, first}, {4, second}} {
		if !s.Of(c.shard, c.until.Add(-1)) || s.Of(c.shard, c.until) {
			t.Errorf("shard %d: sure until another time than %v", c.shard, c.until)
		}
	}
	if !s.OfAny(second.Add(-1)) || s.OfAny(second) || !s.Latest().Equal(second) || watched != 2 {
		t.Errorf("sure of some until %v, watched %d times", s.Latest(), watched)
	}
}
