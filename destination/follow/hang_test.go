package follow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/follow/followtest"
)

// hanging is a Store whose disk hangs on command.
type hanging struct {
	*followtest.Store
	hangs chan struct{} // closed when it does
}

func (s hanging) wait(ctx context.Context) error {
	select {
	case <-s.hangs:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (s hanging) Keep(ctx context.Context, p follow.Pushed) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Keep(ctx, p)
}

func (s hanging) Advance(ctx context.Context, to follow.Position, drop ...string) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Advance(ctx, to, drop...)
}

// A Store that hangs holds up a hub, and the end, for some seconds only.
func TestHangingStore(t *testing.T) {
	inWorld(t, func(w *fixture) {
		hangs := make(chan struct{})
		w.cfg.Store = hanging{w.store, hangs}
		w.start()
		w.push(w.src.publish(1))
		first, second := w.src.publish(1), w.src.publish(1)
		w.handler.fail = func(_ int, changes []follow.Change) (int, error) { close(hangs); return len(changes), nil }
		w.push(first)
		w.sleep(follow.DefaultSettle)
		begun := time.Now()
		if err := w.f.Load().Accept(second); !errors.Is(err, destination.ErrNotNow) {
			t.Errorf("a delivery: %v", err)
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		w.f.Store(nil)
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
