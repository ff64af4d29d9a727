package deliverytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/store/pebblestore"
	"carillon/topic"
)

// failing counts how often it was failed.
type failing struct {
	testing.TB
	times int
}

func (f *failing) Errorf(string, ...any) { f.times++ }

func TestKeyed(t *testing.T) {
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for name, call := range map[string]func(ctx context.Context, l delivery.Log, key string){
		"Append": func(ctx context.Context, l delivery.Log, key string) {
			p := delivery.Publication{Topic: topic.Stored(key, key)}
			_, _ = l.Append(ctx, p, uuid.New(), time.Now())
		},
		"Read":      func(ctx context.Context, l delivery.Log, key string) { _, _ = l.Read(ctx, key, 0) },
		"Summaries": func(ctx context.Context, l delivery.Log, key string) { _, _ = l.Summaries(ctx, key, 0, 1) },
		"Summary":   func(ctx context.Context, l delivery.Log, key string) { _, _ = l.Summary(ctx, key, 0) },
		"Heads": func(ctx context.Context, l delivery.Log, key string) {
			_, _ = l.Heads(ctx, []string{"https://source.example/", key})
		},
		"State": func(ctx context.Context, l delivery.Log, key string) { _, _ = l.State(ctx, key) },
		"Trim":  func(ctx context.Context, l delivery.Log, key string) { _, _ = l.Trim(ctx, key, 0, time.Time{}) },
		"Shrink": func(ctx context.Context, l delivery.Log, key string) {
			_, _ = l.Shrink(ctx, key, 0, 0, time.Time{})
		},
	} {
		for key, want := range map[string]int{
			"https://source.example/a": 0, "https://source.example/%61": 1,
		} {
			f := &failing{TB: t}
			call(t.Context(), deliverytest.Keyed(f, db.Log()), key)
			if f.times != want {
				t.Errorf("%s of %q failed the test %d times, want %d", name, key, f.times, want)
			}
		}
	}
}
