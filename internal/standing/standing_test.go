package standing_test

import (
	"fmt"
	"testing"
	"time"

	"carillon/internal/standing"
)

func TestStanding(t *testing.T) {
	b := standing.NewBook(standing.Config{Failures: 3})
	now := time.Now()
	for i := range 3 {
		if b.Bad("x") || b.Turn("x", now) != 0 {
			t.Errorf("bad after %d failures", i)
		}
		b.Failed("x", i == 2)
	}
	if !b.Bad("x") || !b.Away("x") || b.Bad("y") || b.Away("y") || b.Turn("y", now) != 0 {
		t.Error("three failures count for nothing, or for another")
	}
	now = now.Add(time.Minute)
	if first, second := b.Turn("x", now), b.Turn("x", now.Add(time.Millisecond)); first != 0 || second != 999*time.Millisecond {
		t.Errorf("turns after %v, %v", first, second)
	}
	if wait := b.Turn("x", now.Add(time.Second)); wait != 0 {
		t.Errorf("after a second: %v more", wait)
	}
	b.Failed("x", false)
	if b.Away("x") {
		t.Error("it answered")
	}
	b.Succeeded("x")
	if b.Bad("x") || b.Turn("x", now) != 0 || b.Len() != 0 {
		t.Error("one success restores nothing")
	}
}

// However many sites fail, no more than so many are remembered, the latest.
func TestStandingIsBounded(t *testing.T) {
	b := standing.NewBook(standing.Config{Failures: 2, Sites: 10})
	for range 2 {
		b.Failed("victim", false)
	}
	for i := range 9 {
		b.Failed(fmt.Sprint(i), true)
	}
	if b.Len() != 10 || !b.Bad("victim") {
		t.Errorf("%d are remembered", b.Len())
	}
	b.Failed("one more", true)
	if b.Len() != 10 || b.Bad("victim") {
		t.Errorf("%d are remembered", b.Len())
	}
}
