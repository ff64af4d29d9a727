package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/operator/api"
)

// recentStore is a store that counts what it is asked.
type recentStore struct {
	api.Recent
	asked atomic.Int32
	ready func(context.Context) error
}

func (s *recentStore) handler() http.Handler {
	return handler(api.Check{Name: "store", Ready: func(ctx context.Context) error {
		return s.Ask(ctx, func(ctx context.Context) error { s.asked.Add(1); return s.ready(ctx) })
	}})
}

// However many strangers ask /readyz, the store is asked once a second, and only while requests come.
// Its trouble and the end of it are seen within the second.
func TestReadyzAsksTheStoreOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away error
		s := &recentStore{ready: func(context.Context) error { return away }}
		h := s.handler()
		for range 100 { // 10 seconds
			for range 50 {
				if rec := get(t, h, "GET", "/readyz", ""); rec.Code != 200 {
					t.Fatalf("%d %s", rec.Code, rec.Body)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if asked := s.asked.Load(); asked != 10 {
			t.Errorf("the store was asked %d times in 10 s", asked)
		}
		away = errors.New("it is away")
		time.Sleep(time.Second)
		if rec := get(t, h, "GET", "/readyz", ""); rec.Code != 503 || rec.Body.String() != "store: it is away\n" {
			t.Errorf("a second after the store went away: %d %q", rec.Code, rec.Body)
		}
		away = nil
		time.Sleep(time.Second)
		if rec := get(t, h, "GET", "/readyz", ""); rec.Code != 200 {
			t.Errorf("a second after the store came back: %d %q", rec.Code, rec.Body)
		}
		time.Sleep(time.Hour)
		if asked := s.asked.Load(); asked != 12 {
			t.Errorf("the store was asked %d times in an hour in which nobody asked", asked-12)
		}
	})
}

// A store that hangs is asked one thing at a time; no request waits for longer than a check may take.
func TestReadyzAsksAHangingStoreOneThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &recentStore{ready: func(context.Context) error { <-release; return nil }}
		h, begun := s.handler(), time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if rec := get(t, h, "GET", "/readyz", ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), "no answer within") {
					t.Errorf("%d %q", rec.Code, rec.Body)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("the answers took %s", took)
		}
		if asked := s.asked.Load(); asked != 1 {
			t.Errorf("the store was asked %d times at once", asked)
		}
		close(release)
		synctest.Wait()
		if rec := get(t, h, "GET", "/readyz", ""); rec.Code != 200 {
			t.Errorf("after it: %d %q", rec.Code, rec.Body)
		}
	})
}

// A client that leaves takes the question of the others not with it.
func TestReadyzOutlivesItsFirstClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recentStore{ready: func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		ready := func(ctx context.Context) error { return s.Ask(ctx, s.ready) }
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- ready(leaving) }()
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first got %v", err)
		}
		if err := ready(t.Context()); err != nil {
			t.Errorf("the second got %v", err)
		}
	})
}
