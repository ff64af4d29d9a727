package subscriptiontest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/subscription"
)

// Run runs the suite. Each subtest opens a store of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, open func(t *testing.T) Harness)
	}{
		{"Requests", testRequests},
		{"Settling", testSettling},
		{"Ending", testEnding},
		{"Reading", testReading},
		{"Durable", testDurable},
		{"Refused", testRefused},
		{"AtOnce", testAtOnce},
		{"Faults", testFaults},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
}

// cases runs tests that need nothing but a store.
func cases(t *testing.T, open func(t *testing.T) Harness, tests map[string]func(t *testing.T, s subscription.Store)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t).Store) })
	}
}

func testRequests(t *testing.T, open func(t *testing.T) Harness) {
	cases(t, open, map[string]func(t *testing.T, s subscription.Store){
		"a submitted request is given back as it was": func(t *testing.T, s subscription.Store) {
			a, b := subscribe(1), unsubscribe(2)
			submit(t, s, a)
			submit(t, s, b)
			wantRequests(t, s, a, b)
		},
		"an empty store has none": func(t *testing.T, s subscription.Store) {
			wantRequests(t, s)
		},
		"a later request with the same id replaces it": func(t *testing.T, s subscription.Store) {
			submit(t, s, subscribe(1))
			later := unsubscribe(1)
			submit(t, s, later)
			wantRequests(t, s, later)
		},
		"submitting touches no subscription": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			submit(t, s, unsubscribe(1))
			wantStored(t, s, sub)
			submit(t, s, subscribe(2))
			wantGone(t, s, subscribe(2).ID)
		},
		"submitting the same again is safe": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			submit(t, s, r)
			submit(t, s, r)
			wantRequests(t, s, r)
		},
		"listing may be left early": func(t *testing.T, s subscription.Store) {
			same, _ := neighbours(5)
			for _, n := range same {
				submit(t, s, subscribe(n))
			}
			seen := 0
			for _, err := range s.Requests(t.Context(), subscription.ShardOf(subscribe(same[0]).ID)) {
				must(t, err)
				if seen++; seen == 2 {
					break
				}
			}
			if seen != 2 {
				t.Fatalf("got %d requests, want to stop at 2", seen)
			}
		},
		"a request may be settled while they are listed": func(t *testing.T, s subscription.Store) {
			same, _ := neighbours(5)
			for _, n := range same {
				submit(t, s, subscribe(n))
			}
			for r, err := range s.Requests(t.Context(), subscription.ShardOf(subscribe(same[0]).ID)) {
				must(t, err)
				must(t, s.Drop(t.Context(), r))
			}
			wantRequests(t, s)
		},
		"each shard lists its own": func(t *testing.T, s subscription.Store) {
			same, other := neighbours(3)
			want := []subscription.Request{subscribe(other)}
			for _, n := range same {
				want = append(want, subscribe(n))
			}
			for _, r := range want {
				submit(t, s, r)
			}
			wantRequests(t, s, want...)
		},
		"Request finds one": func(t *testing.T, s subscription.Store) {
			a, b := subscribe(1), unsubscribe(2)
			submit(t, s, a)
			submit(t, s, b)
			wantRequest(t, s, a)
			wantRequest(t, s, b)
		},
		"Request of what is not there is ErrNotFound": func(t *testing.T, s subscription.Store) {
			wantNoRequest(t, s, subscribe(1).ID)
			same, _ := neighbours(2)
			submit(t, s, subscribe(same[0]))
			wantNoRequest(t, s, subscribe(same[1]).ID)
		},
		"Request finds the one that replaced another": func(t *testing.T, s subscription.Store) {
			submit(t, s, subscribe(1))
			later := subscribe(1)
			submit(t, s, later)
			wantRequest(t, s, later)
		},
		"Request does not find what is settled": func(t *testing.T, s subscription.Store) {
			for _, settle := range []func(r subscription.Request) error{
				func(r subscription.Request) error { return s.Activate(t.Context(), r, granted(r)) },
				func(r subscription.Request) error { return s.Drop(t.Context(), r) },
				func(r subscription.Request) error { return s.Unsubscribe(t.Context(), r) },
			} {
				r := subscribe(1)
				submit(t, s, r)
				wantRequest(t, s, r)
				must(t, settle(r))
				wantNoRequest(t, s, r.ID)
			}
		},
		"a request that replaces one that was asked for inherits its start": func(t *testing.T, s subscription.Store) {
			first, second, third := subscribe(1), subscribe(1), unsubscribe(1)
			first.Received, second.Received, third.Received = start, start.Add(time.Minute), start.Add(time.Hour)
			submit(t, s, first)
			kept := keepStart(t, s, first, 7)
			if kept.Since != first.Received || kept.Start != 7 {
				t.Fatalf("kept since %v at %d", kept.Since, kept.Start)
			}
			wantRequests(t, s, kept)
			for _, r := range []subscription.Request{second, third, subscribe(1)} {
				submit(t, s, r)
				r.Since, r.Start = kept.Since, kept.Start
				wantRequests(t, s, r)
				wantRequest(t, s, r)
			}
		},
		"a request that replaces one that was not inherits nothing": func(t *testing.T, s subscription.Store) {
			submit(t, s, subscribe(1))
			later := subscribe(1)
			submit(t, s, later)
			wantRequest(t, s, later)
		},
		"a request inherits nothing from one that is settled": func(t *testing.T, s subscription.Store) {
			for _, settle := range []func(r subscription.Request) error{
				func(r subscription.Request) error { return s.Activate(t.Context(), r, granted(r)) },
				func(r subscription.Request) error { return s.Drop(t.Context(), r) },
				func(r subscription.Request) error { return s.Unsubscribe(t.Context(), r) },
			} {
				r := subscribe(1)
				submit(t, s, r)
				must(t, settle(keepStart(t, s, r, 7)))
				later := subscribe(1)
				submit(t, s, later)
				wantRequest(t, s, later)
				must(t, s.Drop(t.Context(), later))
			}
		},
		"KeepStart keeps the earlier start": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			submit(t, s, r)
			keepStart(t, s, r, 7)
			if kept := keepStart(t, s, r, 9); kept.Start != 7 {
				t.Fatalf("a later start took the place of an earlier one: %d", kept.Start)
			}
			if kept := keepStart(t, s, r, 5); kept.Start != 5 {
				t.Fatalf("an earlier start was not taken: %d", kept.Start)
			}
		},
		"KeepStart of a head before the first notification": func(t *testing.T, s subscription.Store) {
			r, later := subscribe(1), subscribe(1)
			later.Received = r.Received.Add(time.Hour)
			submit(t, s, r)
			keepStart(t, s, r, 0)
			submit(t, s, later)
			if kept := keepStart(t, s, later, 7); kept.Start != 0 || !kept.Since.Equal(r.Received) {
				t.Fatalf("kept %+v", kept)
			}
		},
		"KeepStart of a replaced request is ErrSuperseded and changes nothing": func(t *testing.T, s subscription.Store) {
			r, later := subscribe(1), subscribe(1)
			submit(t, s, r)
			submit(t, s, later)
			_, err := s.KeepStart(t.Context(), r, 7)
			wantError(t, err, subscription.ErrSuperseded)
			wantRequests(t, s, later)
		},
		"KeepStart without a stored request is ErrSuperseded": func(t *testing.T, s subscription.Store) {
			_, err := s.KeepStart(t.Context(), subscribe(1), 7)
			wantError(t, err, subscription.ErrSuperseded)
			wantRequests(t, s)
		},
		"bytes stay as they are": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			r.Topic = "https://source.example/%7Ea/\u00e9?q=\"a b\"&" + strings.Repeat("x", 60_000)
			r.Callback = "https://destination.example/?%41=%e2%82%ac"
			r.Secret, r.VerifyToken = "\x00\xff\n\u20ac", "\x01\xfe%\u20ac"
			r.ID = subscription.NewID(r.Topic, r.Callback)
			submit(t, s, r)
			wantRequests(t, s, r)
			wantRequest(t, s, r)
			sub := granted(r)
			must(t, s.Activate(t.Context(), r, sub))
			wantStored(t, s, sub)
		},
	})
}

func testSettling(t *testing.T, open func(t *testing.T) Harness) {
	cases(t, open, map[string]func(t *testing.T, s subscription.Store){
		"Activate stores the subscription and settles the request": func(t *testing.T, s subscription.Store) {
			r, other := subscribe(1), subscribe(2)
			submit(t, s, r)
			submit(t, s, other)
			must(t, s.Activate(t.Context(), r, granted(r)))
			wantStored(t, s, granted(r))
			wantRequests(t, s, other)
		},
		"Activate takes the place of what was stored": func(t *testing.T, s subscription.Store) {
			old := activate(t, s, 1)
			r := subscribe(1)
			r.Received, r.Secret, r.Lease = start.Add(time.Hour), "another", 20*24*time.Hour
			submit(t, s, r)
			renewed := granted(r)
			renewed.Created, renewed.Start = old.Created, old.Start
			must(t, s.Activate(t.Context(), r, renewed))
			wantStored(t, s, renewed)
			wantExpired(t, s, old.Expires)
			wantExpired(t, s, renewed.Expires, renewed)
		},
		"Activate of a replaced request is ErrSuperseded and changes nothing": func(t *testing.T, s subscription.Store) {
			old := activate(t, s, 1)
			r, later := subscribe(1), subscribe(1)
			submit(t, s, r)
			submit(t, s, later)
			sub := granted(r)
			sub.Secret = "of the replaced request"
			wantError(t, s.Activate(t.Context(), r, sub), subscription.ErrSuperseded)
			wantStored(t, s, old)
			wantRequests(t, s, later)
			wantExpired(t, s, old.Expires, old)
		},
		"Activate without a stored request is ErrSuperseded": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			wantError(t, s.Activate(t.Context(), r, granted(r)), subscription.ErrSuperseded)
			wantGone(t, s, r.ID)
		},
		"Activate a second time is ErrSuperseded and the subscription stands": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			submit(t, s, r)
			must(t, s.Activate(t.Context(), r, granted(r)))
			wantError(t, s.Activate(t.Context(), r, granted(r)), subscription.ErrSuperseded)
			wantStored(t, s, granted(r))
		},
		"Drop settles the request and leaves the subscription": func(t *testing.T, s subscription.Store) {
			old := activate(t, s, 1)
			r, other := unsubscribe(1), subscribe(2)
			submit(t, s, r)
			submit(t, s, other)
			must(t, s.Drop(t.Context(), r))
			wantStored(t, s, old)
			wantRequests(t, s, other)
		},
		"Drop of a replaced request leaves the later one": func(t *testing.T, s subscription.Store) {
			r, later := subscribe(1), subscribe(1)
			submit(t, s, r)
			submit(t, s, later)
			must(t, s.Drop(t.Context(), r))
			wantRequests(t, s, later)
		},
		"Drop of nothing is no error": func(t *testing.T, s subscription.Store) {
			must(t, s.Drop(t.Context(), subscribe(1)))
		},
		"Unsubscribe takes subscription and request away": func(t *testing.T, s subscription.Store) {
			sub, other := activate(t, s, 1), activate(t, s, 2)
			r := unsubscribe(1)
			submit(t, s, r)
			must(t, s.Unsubscribe(t.Context(), r))
			wantGone(t, s, r.ID)
			wantRequests(t, s)
			wantStored(t, s, other)
			wantExpired(t, s, sub.Expires.Add(time.Hour), other)
		},
		"Unsubscribe without a subscription settles the request": func(t *testing.T, s subscription.Store) {
			r := unsubscribe(1)
			submit(t, s, r)
			must(t, s.Unsubscribe(t.Context(), r))
			wantRequests(t, s)
		},
		"Unsubscribe of a replaced request is ErrSuperseded and changes nothing": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			r, later := unsubscribe(1), subscribe(1)
			submit(t, s, r)
			submit(t, s, later)
			wantError(t, s.Unsubscribe(t.Context(), r), subscription.ErrSuperseded)
			wantStored(t, s, sub)
			wantRequests(t, s, later)
		},
		"Unsubscribe without a stored request is ErrSuperseded": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			wantError(t, s.Unsubscribe(t.Context(), unsubscribe(1)), subscription.ErrSuperseded)
			wantStored(t, s, sub)
		},
	})
}

func testEnding(t *testing.T, open func(t *testing.T) Harness) {
	cases(t, open, map[string]func(t *testing.T, s subscription.Store){
		"Remove ends the subscription": func(t *testing.T, s subscription.Store) {
			sub, other := activate(t, s, 1), activate(t, s, 2)
			wantRemoved(t, s, sub, true)
			wantGone(t, s, sub.ID)
			wantStored(t, s, other)
			wantExpired(t, s, other.Expires, other)
		},
		"Remove leaves a renewal": func(t *testing.T, s subscription.Store) {
			old := activate(t, s, 1)
			r := subscribe(1)
			r.Received = r.Received.Add(time.Nanosecond)
			submit(t, s, r)
			must(t, s.Activate(t.Context(), r, granted(r)))
			wantRemoved(t, s, old, false)
			wantStored(t, s, granted(r))
		},
		"Remove of nothing removes nothing": func(t *testing.T, s subscription.Store) {
			wantRemoved(t, s, granted(subscribe(1)), false)
			sub := activate(t, s, 1)
			wantRemoved(t, s, sub, true)
			wantRemoved(t, s, sub, false)
		},
		"Remove leaves a request that is under way": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			r := subscribe(1)
			submit(t, s, r)
			wantRemoved(t, s, sub, true)
			wantRequests(t, s, r)
			must(t, s.Activate(t.Context(), r, granted(r)))
			wantStored(t, s, granted(r))
		},
		"Remove knows the time in any zone": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			sub.Expires = sub.Expires.In(time.FixedZone("elsewhere", 3600))
			wantRemoved(t, s, sub, true)
		},
	})
}

func testReading(t *testing.T, open func(t *testing.T) Harness) {
	cases(t, open, map[string]func(t *testing.T, s subscription.Store){
		"Get of what is not there is ErrNotFound": func(t *testing.T, s subscription.Store) {
			activate(t, s, 1)
			wantGone(t, s, subscribe(2).ID)
		},
		"a subscription with little in it": func(t *testing.T, s subscription.Store) {
			r := subscribe(1)
			submit(t, s, r)
			sub := subscription.Subscription{ID: r.ID, Topic: r.Topic, Callback: r.Callback}
			must(t, s.Activate(t.Context(), r, sub))
			wantStored(t, s, sub)
			got, err := s.Get(t.Context(), r.ID)
			must(t, err)
			if !got.Created.IsZero() || !got.Expires.IsZero() {
				t.Fatalf("zero times came back as %v and %v", got.Created, got.Expires)
			}
		},
		"Expired gives what ended at the time or before": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			wantExpired(t, s, sub.Expires.Add(-time.Nanosecond))
			wantExpired(t, s, sub.Expires, sub)
			wantExpired(t, s, sub.Expires.Add(time.Hour), sub)
		},
		"Expired begins with those that ended first": func(t *testing.T, s subscription.Store) {
			n, _ := neighbours(3)
			third, first, second := activate(t, s, n[2]), activate(t, s, n[0]), activate(t, s, n[1])
			wantExpired(t, s, third.Expires, first, second, third)
		},
		"Expired gives of the shard alone": func(t *testing.T, s subscription.Store) {
			same, other := neighbours(2)
			a, b, c := activate(t, s, same[0]), activate(t, s, same[1]), activate(t, s, other)
			wantExpired(t, s, start.Add(1000*time.Hour), inOrder(a, b, c)...)
		},
		"Expired gives up to its limit": func(t *testing.T, s subscription.Store) {
			numbers, other := neighbours(10)
			shard := subscription.ShardOf(subscribe(numbers[0]).ID)
			activate(t, s, other)
			var subs []subscription.Subscription
			for _, n := range numbers {
				subs = append(subs, activate(t, s, n))
			}
			got, err := s.Expired(t.Context(), shard, start.Add(1000*time.Hour), 4)
			must(t, err)
			if !slices.EqualFunc(got, subs[:4], same) {
				t.Fatalf("got %d: %+v, want the first 4", len(got), got)
			}
			none, err := s.Expired(t.Context(), shard, start.Add(1000*time.Hour), 0)
			must(t, err)
			if len(none) != 0 {
				t.Fatalf("got %d with limit 0", len(none))
			}
		},
		"Expired forgets what ended and knows what came back": func(t *testing.T, s subscription.Store) {
			sub := activate(t, s, 1)
			wantRemoved(t, s, sub, true)
			wantExpired(t, s, sub.Expires)
			sub = activate(t, s, 1)
			wantExpired(t, s, sub.Expires, sub)
		},
	})
}
