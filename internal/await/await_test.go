package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/await"
)

// TestUntil checks what ends a wait, and when.
func TestUntil(t *testing.T) {
	errEnd := context.DeadlineExceeded
	for _, c := range []struct {
		name              string
		wait, ends, wakes time.Duration // 0: never
		woken             bool
		err               error
		took              time.Duration
	}{
		{name: "the time", wait: 5 * time.Second, ends: time.Minute, wakes: time.Minute, took: 5 * time.Second},
		{name: "no time", wait: -time.Second, ends: time.Minute},
		{name: "the context", wait: time.Minute, ends: 3 * time.Second, err: errEnd, took: 3 * time.Second},
		{name: "another goroutine", wait: time.Minute, ends: time.Minute, wakes: 2 * time.Second, woken: true, took: 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.ends)
				defer cancel()
				wake := make(chan struct{}, 1)
				if c.wakes > 0 {
					defer time.AfterFunc(c.wakes, func() { await.Wake(wake) }).Stop()
				}
				begun := time.Now()
				woken, err := await.Until(ctx, c.wait, wake)
				if took := time.Since(begun); woken != c.woken || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("woken %t, error %v after %s; want %t, %v after %s", woken, err, took, c.woken, c.err, c.took)
				}
			})
		})
	}
}

// TestFor checks that the end of the context ends a wait.
func TestFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := await.For(ctx, time.Nanosecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := await.For(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}

// TestWake checks that an unawaited goroutine never blocks, and wakes the next wait once.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		await.Wake(wake)
		await.Wake(wake)
		first, err := await.Until(t.Context(), time.Second, wake)
		second, err2 := await.Until(t.Context(), time.Second, wake)
		if !first || second || err != nil || err2 != nil {
			t.Errorf("woken %t and %t; want once: %v, %v", first, second, err, err2)
		}
	})
}

// TestAfterFunc checks that stop prevents the call, and waits for one that has begun.
func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		await.AfterFunc(ctx, func() { t.Error("called after stop") })()
		var returned bool
		stop := await.AfterFunc(ctx, func() { time.Sleep(time.Second); returned = true })
		end()
		synctest.Wait()
		stop()
		if !returned {
			t.Error("stop has not waited")
		}
	})
}
