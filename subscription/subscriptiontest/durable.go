package subscriptiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"carillon/subscription"
)

// testDurable makes every kind of change and looks for it after the store ended,
// in good order and without warning.
func testDurable(t *testing.T, open func(t *testing.T) Harness) {
	for name, again := range map[string]func(t *testing.T, h Harness) subscription.Store{
		"reopened": func(t *testing.T, h Harness) subscription.Store { return h.Reopen(t) },
		"crashed":  func(t *testing.T, h Harness) subscription.Store { return h.Crash(t) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			pending, dropped, replaced := subscribe(1), subscribe(2), subscribe(3)
			submit(t, h.Store, pending)
			submit(t, h.Store, dropped)
			must(t, h.Store.Drop(t.Context(), dropped))
			submit(t, h.Store, replaced)
			replacement := unsubscribe(3)
			submit(t, h.Store, replacement)
			asked := subscribe(7)
			submit(t, h.Store, asked)
			asked = keepStart(t, h.Store, asked, 7)
			heir := subscribe(8)
			submit(t, h.Store, heir)
			keepStart(t, h.Store, heir, 8)
			heir = subscribe(8)
			submit(t, h.Store, heir)
			heir.Since, heir.Start = heir.Received, 8
			active, removed, ended := activate(t, h.Store, 4), activate(t, h.Store, 5), activate(t, h.Store, 6)
			wantRemoved(t, h.Store, removed, true)
			end := unsubscribe(6)
			submit(t, h.Store, end)
			must(t, h.Store.Unsubscribe(t.Context(), end))

			s := again(t, h)
			wantRequests(t, s, pending, replacement, asked, heir)
			wantRequest(t, s, replacement)
			wantNoRequest(t, s, dropped.ID)
			wantStored(t, s, active)
			wantGone(t, s, removed.ID)
			wantGone(t, s, ended.ID)
			wantExpired(t, s, active.Expires.Add(time.Hour), active)
			must(t, s.Activate(t.Context(), pending, granted(pending)))
			wantStored(t, s, granted(pending))
		})
	}
}

// eachCall makes each call of the interface once, for the n-th subscriber.
func eachCall(n int) map[string]func(ctx context.Context, s subscription.Store) error {
	r := subscribe(n)
	sub := granted(r)
	return map[string]func(ctx context.Context, s subscription.Store) error{
		"Submit": func(ctx context.Context, s subscription.Store) error { return s.Submit(ctx, r) },
		"KeepStart": func(ctx context.Context, s subscription.Store) error {
			_, err := s.KeepStart(ctx, r, 7)
			return err
		},
		"Activate":    func(ctx context.Context, s subscription.Store) error { return s.Activate(ctx, r, sub) },
		"Drop":        func(ctx context.Context, s subscription.Store) error { return s.Drop(ctx, r) },
		"Unsubscribe": func(ctx context.Context, s subscription.Store) error { return s.Unsubscribe(ctx, r) },
		"Remove": func(ctx context.Context, s subscription.Store) error {
			_, err := s.Remove(ctx, sub)
			return err
		},
		"Get": func(ctx context.Context, s subscription.Store) error {
			_, err := s.Get(ctx, sub.ID)
			return err
		},
		"Expired": func(ctx context.Context, s subscription.Store) error {
			_, err := s.Expired(ctx, subscription.ShardOf(r.ID), start, 1)
			return err
		},
		"Request": func(ctx context.Context, s subscription.Store) error {
			_, err := s.Request(ctx, r.ID)
			return err
		},
		"Requests": func(ctx context.Context, s subscription.Store) error {
			var errs []error
			for _, err := range s.Requests(ctx, subscription.ShardOf(r.ID)) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func testRefused(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("a context that is done changes nothing", func(t *testing.T) {
		h := open(t)
		sub, r := activate(t, h.Store, 1), subscribe(1)
		submit(t, h.Store, r)
		for name, call := range eachCall(1) {
			if err := call(done(t), h.Store); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got error %v, want %v", name, err, context.Canceled)
			}
		}
		must(t, canceled(h.Store.Activate(done(t), r, granted(r))))
		must(t, canceled(h.Store.Drop(done(t), r)))
		must(t, canceled(h.Store.Unsubscribe(done(t), r)))
		_, err := h.Store.Remove(done(t), sub)
		must(t, canceled(err))
		wantStored(t, h.Store, sub)
		wantRequests(t, h.Store, r)
	})
	t.Run("an engine that is away is ErrUnavailable", func(t *testing.T) {
		h := open(t)
		h.Stop(t)
		for name, call := range eachCall(1) {
			if err := call(t.Context(), h.Store); !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("%s: got error %v, want %v", name, err, subscription.ErrUnavailable)
			}
		}
	})
}

// canceled turns the error that is wanted into none.
func canceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("got error %v, want %w", err, context.Canceled)
}

// testAtOnce makes calls from several goroutines.
func testAtOnce(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("one of several Activates settles the request", func(t *testing.T) {
		s := open(t).Store
		for n := range 200 {
			r := subscribe(n)
			submit(t, s, r)
			won := together(8, func(int) error { return s.Activate(t.Context(), r, granted(r)) })
			count := 0
			for _, err := range won {
				if err == nil {
					count++
				} else if !errors.Is(err, subscription.ErrSuperseded) {
					t.Fatal(err)
				}
			}
			if count != 1 {
				t.Fatalf("%d calls settled the request, want 1", count)
			}
		}
	})
	t.Run("a renewal stands against a removal", func(t *testing.T) {
		s := open(t).Store
		for n := range 50 {
			old, r := activate(t, s, n), subscribe(n)
			r.Received = r.Received.Add(time.Hour)
			submit(t, s, r)
			errs := together(2, func(i int) error {
				if i == 0 {
					_, err := s.Remove(t.Context(), old)
					return err
				}
				return s.Activate(t.Context(), r, granted(r))
			})
			must(t, errors.Join(errs...))
			wantStored(t, s, granted(r))
		}
	})
	t.Run("a start is inherited or its request is replaced first", func(t *testing.T) {
		s := open(t).Store
		for n := range 100 {
			r, later := subscribe(n), subscribe(n)
			submit(t, s, r)
			errs := together(2, func(i int) error {
				if i == 0 {
					return s.Submit(t.Context(), later)
				}
				_, err := s.KeepStart(t.Context(), r, 7)
				return err
			})
			must(t, errs[0])
			if errs[1] == nil {
				later.Since, later.Start = r.Received, 7
			} else {
				wantError(t, errs[1], subscription.ErrSuperseded)
			}
			wantRequest(t, s, later)
		}
	})
	t.Run("many subscribers", func(t *testing.T) {
		h := open(t)
		errs := together(200, func(n int) error {
			r := subscribe(n)
			if err := h.Store.Submit(t.Context(), r); err != nil || n%2 == 0 {
				return err
			}
			return h.Store.Activate(t.Context(), r, granted(r))
		})
		must(t, errors.Join(errs...))
		s := h.Crash(t)
		expired, requests := len(expired(t, s, start.Add(1000*time.Hour))), len(requests(t, s))
		if expired != 100 || requests != 100 {
			t.Fatalf("%d subscriptions and %d requests are left, want 100 each", expired, requests)
		}
	})
}

// together calls f for 0 to n-1 at once and returns the errors in that order.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = f(i)
		})
	}
	close(gate)
	wg.Wait()
	return errs
}

// testFaults is the fault table: each call fails once, with the change made and
// without; after a crash the change is there whole or not at all, and the
// call can be repeated.
func testFaults(t *testing.T, open func(t *testing.T) Harness) {
	const n = 1
	first := subscribe(n)
	old := granted(first)
	renewal, end := subscribe(n), unsubscribe(n)
	renewal.Received = start.Add(time.Hour)
	renewed := granted(renewal)
	rows := map[string]struct {
		pending subscription.Request // beside the subscription old
		call    func(ctx context.Context, s subscription.Store) error
		before  func(t *testing.T, s subscription.Store)
		after   func(t *testing.T, s subscription.Store)
		repeat  error // of the call when its change was made
	}{
		"Submit": {
			pending: end,
			call:    func(ctx context.Context, s subscription.Store) error { return s.Submit(ctx, renewal) },
			before:  func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, end) },
			after:   func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, renewal) },
		},
		"KeepStart": {
			pending: renewal,
			call: func(ctx context.Context, s subscription.Store) error {
				_, err := s.KeepStart(ctx, renewal, 7)
				return err
			},
			before: func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, renewal) },
			after: func(t *testing.T, s subscription.Store) {
				wantStored(t, s, old)
				wantRequests(t, s, renewal.StartingAt(7))
			},
		},
		"Activate": {
			pending: renewal,
			call:    func(ctx context.Context, s subscription.Store) error { return s.Activate(ctx, renewal, renewed) },
			before: func(t *testing.T, s subscription.Store) {
				wantStored(t, s, old)
				wantRequests(t, s, renewal)
				wantExpired(t, s, old.Expires, old)
			},
			after: func(t *testing.T, s subscription.Store) {
				wantStored(t, s, renewed)
				wantRequests(t, s)
				wantExpired(t, s, old.Expires)
				wantExpired(t, s, renewed.Expires, renewed)
			},
			repeat: subscription.ErrSuperseded,
		},
		"Drop": {
			pending: renewal,
			call:    func(ctx context.Context, s subscription.Store) error { return s.Drop(ctx, renewal) },
			before:  func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, renewal) },
			after:   func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s) },
		},
		"Unsubscribe": {
			pending: end,
			call:    func(ctx context.Context, s subscription.Store) error { return s.Unsubscribe(ctx, end) },
			before:  func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, end) },
			after: func(t *testing.T, s subscription.Store) {
				wantGone(t, s, old.ID)
				wantRequests(t, s)
				wantExpired(t, s, old.Expires)
			},
			repeat: subscription.ErrSuperseded,
		},
		"Remove": {
			pending: renewal,
			call: func(ctx context.Context, s subscription.Store) error {
				_, err := s.Remove(ctx, old)
				return err
			},
			before: func(t *testing.T, s subscription.Store) { wantStored(t, s, old); wantRequests(t, s, renewal) },
			after: func(t *testing.T, s subscription.Store) {
				wantGone(t, s, old.ID)
				wantRequests(t, s, renewal)
				wantExpired(t, s, old.Expires)
			},
		},
	}
	for name, row := range rows {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, persisted %v", name, persisted), func(t *testing.T) {
				h := open(t)
				submit(t, h.Store, first)
				must(t, h.Store.Activate(t.Context(), first, old))
				submit(t, h.Store, row.pending)
				faulty := NewFaulty(h.Store, Fault{At: 1, Persisted: persisted})
				wantError(t, row.call(t.Context(), faulty), subscription.ErrUnavailable)
				s := h.Crash(t)
				if !persisted {
					row.before(t, s)
					must(t, row.call(t.Context(), s))
				} else {
					row.after(t, s)
					if err := row.call(t.Context(), s); !errors.Is(err, row.repeat) {
						t.Fatalf("repeated: got error %v, want %v", err, row.repeat)
					}
				}
				row.after(t, s)
			})
		}
	}
}
