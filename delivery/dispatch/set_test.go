package dispatch_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/delivery/dispatch"
	"carillon/subscription"
)

// The set of entries is a map, whatever goes in and out of it, and not much larger
// than what is in it.
func TestEntrySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, want := dispatch.NewEntrySet(), map[subscription.ID]int32{}
		few := rapid.IntRange(1, 60).Draw(t, "different ids")
		for i := range rapid.IntRange(1, 300).Draw(t, "steps") {
			id := uuid.UUID{byte(rapid.IntRange(0, few).Draw(t, "id")), 0x50, 15: 7}
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				set.Put(id, int32(i))
				want[id] = int32(i)
			} else {
				set.Remove(id)
				delete(want, id)
			}
			for id := range few + 1 {
				id := uuid.UUID{byte(id), 0x50, 15: 7}
				got, found := set.Get(id)
				if at, held := want[id]; found != held || got != at {
					t.Fatalf("%s: got %d, %v, want %d, %v", id, got, found, at, held)
				}
			}
			if set.Len() != len(want) {
				t.Fatalf("%d entries, want %d", set.Len(), len(want))
			}
		}
	})
}

// It grows with what is in it, by little where that is much.
func TestEntrySetSize(t *testing.T) {
	set := dispatch.NewEntrySet()
	for n := 1; n <= 50_000; n++ {
		set.Put(uuid.New(), 0)
		if n > 5000 && set.Slots() > n*8/5 {
			t.Fatalf("%d slots for %d entries", set.Slots(), n)
		}
	}
}

// A walk visits every entry that is there throughout, or reports that it may have missed some.
func TestEntrySetWalk(t *testing.T) {
	walks := 0
	for range 500 {
		set, there := dispatch.NewEntrySet(), map[subscription.ID]bool{}
		var leave []subscription.ID
		for range 1 + rand.N(100) {
			id := uuid.New()
			set.Put(id, 0)
			if rand.N(2) == 0 {
				leave = append(leave, id)
			} else {
				there[id] = true
			}
		}
		seen, coming := map[subscription.ID]bool{}, rand.N(20)
		moved := set.Each(func(id subscription.ID) { seen[id] = true }, func() {
			if coming > 0 {
				set.Put(uuid.New(), 0)
				coming--
			} else if len(leave) > 0 {
				set.Remove(leave[0])
				leave = leave[1:]
			}
		})
		if moved {
			continue
		}
		walks++
		for id := range there {
			if !seen[id] {
				t.Fatalf("%s was there, and not seen", id)
			}
		}
	}
	if walks == 0 {
		t.Error("no walk came to its end")
	}
}
