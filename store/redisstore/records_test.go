package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/subscription"
)

// instants are of every size, the zero time among them.
func instants() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		seconds := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds")
		return time.Unix(seconds, rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
	})
}

// TestRecordsComeBack: whatever is stored comes back byte for byte, and times as the same
// instant.
func TestRecordsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.db.Subscriptions()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		token := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "token"))
		r := subscription.Request{
			ID:       uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			Token:    token,
			Mode:     subscription.Mode(texts.Draw(t, "mode")),
			Topic:    texts.Draw(t, "topic"),
			Callback: texts.Draw(t, "callback"),
			Secret:   subscription.Secret(texts.Draw(t, "secret")),
			Lease:    time.Duration(rapid.Int64().Draw(t, "lease")),
			Received: instants().Draw(t, "received"),
		}
		if rapid.Bool().Draw(t, "has a start") {
			r.Since, r.Start = instants().Draw(t, "since"), rapid.Uint64().Draw(t, "start of the request")
		}
		if rapid.Bool().Draw(t, "has a verify token") {
			r.VerifyToken = subscription.Secret(texts.Draw(t, "verify token"))
		}
		sub := subscription.Subscription{
			ID: r.ID, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
			Start:   rapid.Uint64().Draw(t, "start"),
			Lease:   r.Lease,
			Expires: instants().Draw(t, "expires"),
			Created: instants().Draw(t, "created"),
		}
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		check(s.Submit(ctx, r))
		gotRequest, err := s.Request(ctx, r.ID)
		if check(err); gotRequest != r {
			t.Fatalf("got %#v, want %#v", gotRequest, r)
		}
		other := r
		if other.Token[7]++; s.Activate(ctx, other, sub) == nil {
			t.Fatal("the request was settled by another token")
		}
		check(s.Activate(ctx, r, sub))
		got, err := s.Get(ctx, r.ID)
		if check(err); got != sub {
			t.Fatalf("got %#v, want %#v", got, sub)
		}
		wrong := sub
		wrong.Expires = wrong.Expires.Add(time.Nanosecond)
		if removed, err := s.Remove(ctx, wrong); err != nil || removed {
			t.Fatalf("another expiry: removed is %v, %v", removed, err)
		}
		if removed, err := s.Remove(ctx, sub); err != nil || !removed {
			t.Fatalf("removed is %v, %v", removed, err)
		}
	})
}

// TestTheExpiredAreInOrder: the index has the order of the instants, before 1970 too.
func TestTheExpiredAreInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		s := w.db.Subscriptions()
		list := inShard(1, rapid.IntRange(1, 8).Draw(r, "how many"))
		now := instants().Draw(r, "now")
		due := 0
		for i, request := range list {
			sub := granted(request)
			sub.Expires = instants().Draw(r, fmt.Sprint(i))
			if !sub.Expires.After(now) {
				due++
			}
			must(t, s.Submit(t.Context(), request))
			must(t, s.Activate(t.Context(), request, sub))
		}
		expired, err := s.Expired(t.Context(), 1, now, len(list))
		if err != nil || len(expired) != due {
			r.Fatalf("%d have expired, want %d: %v", len(expired), due, err)
		}
		for i := 1; i < len(expired); i++ {
			if expired[i].Expires.Before(expired[i-1].Expires) {
				r.Fatalf("%v comes after %v", expired[i].Expires, expired[i-1].Expires)
			}
		}
		closeDB(t, w.db)
	})
}
