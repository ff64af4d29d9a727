package transfer_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
	"carillon/transfer"
)

// anyText has bytes of all kinds, UTF-8 or not.
func anyText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, label)
}

func anyTime(t *rapid.T, label string) time.Time {
	zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, label+" zone")*3600)
	return time.Unix(rapid.Int64Range(-1e9, 2e11).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label+" ns")).In(zone)
}

func anyID(t *rapid.T, label string) uuid.UUID {
	id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
	id[0] |= 1 // never the zero one
	return id
}

func anySeq(t *rapid.T, label string, least delivery.Seq) delivery.Seq {
	return delivery.Seq(rapid.Uint64Range(uint64(least), uint64(delivery.MaxSeq)).Draw(t, label))
}

// TestAnyRecordComesBack puts records of any content into the line format and
// out of it.
func TestAnyRecordComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want shelf
		topicURL := "t" + anyText(t, "topic")
		head := anySeq(t, "head", 2)
		want.topics = []delivery.TopicState{{
			Topic: topic.Key(topicURL), First: 1, Head: head,
			Last: delivery.Last{
				ID: anyID(t, "last"), Until: anyText(t, "until"),
				Digest: [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest")),
			},
		}}
		n := &delivery.Notification{
			Publication: delivery.Publication{
				Topic: topic.Parse(topicURL), ContentType: anyText(t, "type"), From: anyText(t, "from"), Until: anyText(t, "to"),
				Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			},
			ID: anyID(t, "id"), Seq: delivery.Seq(rapid.Uint64Range(1, uint64(head)).Draw(t, "seq")), Accepted: anyTime(t, "accepted"),
		}
		n.After = delivery.Seq(rapid.Uint64Range(0, uint64(n.Seq)-1).Draw(t, "after"))
		for range rapid.IntRange(0, 3).Draw(t, "links") {
			n.Links = append(n.Links, anyText(t, "link"))
		}
		want.notifications = []*delivery.Notification{n}
		callback := anyText(t, "callback")
		id := subscription.NewID(topicURL, callback)
		want.requests = []subscription.Request{{
			ID: id, Token: anyID(t, "token"), Mode: rapid.SampledFrom([]subscription.Mode{"subscribe", "unsubscribe"}).Draw(t, "mode"),
			Topic: topicURL, Callback: callback, Secret: subscription.Secret(anyText(t, "secret")),
			Lease: time.Duration(rapid.Int64().Draw(t, "lease")), Received: anyTime(t, "received"),
			VerifyToken: subscription.Secret(anyText(t, "verify token")),
		}}
		if rapid.Bool().Draw(t, "asked") {
			want.requests[0].Since = anyTime(t, "since")
			want.requests[0].Start = rapid.Uint64Range(0, uint64(head)).Draw(t, "start of the request")
		}
		want.pings = []topic.Address{topic.Parse("p" + anyText(t, "ping"))}
		m := delivery.Member{
			Subscription: subscription.Subscription{
				ID: id, Topic: topicURL, Callback: callback, Secret: subscription.Secret(anyText(t, "key")),
				Lease: time.Duration(rapid.Int64().Draw(t, "granted")), Expires: anyTime(t, "expires"), Created: anyTime(t, "created"),
			},
			Position: delivery.Position{
				Settled: delivery.Seq(rapid.Uint64Range(0, uint64(head)).Draw(t, "settled")), Failures: rapid.Uint32().Draw(t, "failures"),
				LastFailure: delivery.Class(rapid.Uint8Range(0, 11).Draw(t, "class")), LastStatus: rapid.Uint16().Draw(t, "status"),
			},
		}
		if rapid.Bool().Draw(t, "waits") {
			m.NextAttempt = anyTime(t, "next")
		}
		if rapid.Bool().Draw(t, "replays") {
			m.ReplayNext = delivery.Seq(rapid.Uint64Range(1, uint64(head)).Draw(t, "replay"))
			m.ReplayLast = delivery.Seq(rapid.Uint64Range(uint64(m.ReplayNext), uint64(head)).Draw(t, "replay to"))
		}
		m.Start = rapid.Uint64Range(0, uint64(m.Settled)).Draw(t, "start")
		want.members = []delivery.Member{m}
		first := delivery.Seq(rapid.Uint64Range(1, uint64(head)).Draw(t, "first"))
		want.gaps = []delivery.Gap{{
			Subscription: id, First: first, Last: delivery.Seq(rapid.Uint64Range(uint64(first), uint64(head)).Draw(t, "end")),
			Reason: delivery.GapReason(rapid.Uint8Range(1, 2).Draw(t, "reason")), Failure: delivery.Class(rapid.Uint8Range(0, 11).Draw(t, "by")), At: anyTime(t, "at"),
		}}
		if rapid.Bool().Draw(t, "replayed") {
			want.gaps[0].Replayed = anyTime(t, "replayed at")
		}
		comesBack(t, &want)
	})
}

func comesBack(t *rapid.T, want *shelf) {
	var stream, again bytes.Buffer
	if _, err := transfer.Export(context.Background(), want.source(), &stream, transfer.ExportConfig{Time: noon}); err != nil {
		t.Fatal(err)
	}
	var got shelf
	to := transfer.Engine{Source: got.source(), Target: &got}
	if _, err := transfer.Import(context.Background(), bytes.NewReader(stream.Bytes()), to, transfer.ImportConfig{}); err != nil {
		t.Fatalf("%v, in\n%s", err, stream.Bytes())
	}
	if _, err := transfer.Export(context.Background(), got.source(), &again, transfer.ExportConfig{Time: noon}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stream.Bytes(), again.Bytes()) {
		t.Fatalf("what came back is\n%s\nand was\n%s", again.Bytes(), stream.Bytes())
	}
	same(t, "the topic", got.topics[0].Topic, want.topics[0].Topic)
	same(t, "what is remembered", got.topics[0].Last, want.topics[0].Last)
	same(t, "the body", string(got.notifications[0].Body), string(want.notifications[0].Body))
	same(t, "the links", len(got.notifications[0].Links), len(want.notifications[0].Links))
	same(t, "accepted", got.notifications[0].Accepted.Equal(want.notifications[0].Accepted), true)
	same(t, "the secret", string(got.requests[0].Secret), string(want.requests[0].Secret))
	same(t, "the lease", got.requests[0].Lease, want.requests[0].Lease)
	same(t, "the ping", got.pings[0], want.pings[0])
	same(t, "the callback", got.members[0].Callback, want.members[0].Callback)
	same(t, "next attempt", got.members[0].NextAttempt.Equal(want.members[0].NextAttempt), true)
	same(t, "the status", got.members[0].LastStatus, want.members[0].LastStatus)
	same(t, "the replay", got.members[0].ReplayNext, want.members[0].ReplayNext)
	same(t, "its end", got.members[0].ReplayLast, want.members[0].ReplayLast)
	same(t, "the gap", got.gaps[0].Reason, want.gaps[0].Reason)
	same(t, "when it was replayed", got.gaps[0].Replayed.Equal(want.gaps[0].Replayed), true)
}

func same[T comparable](t *rapid.T, what string, got, want T) {
	if got != want {
		t.Fatalf("%s is %#v, and was %#v", what, got, want)
	}
}

// shelf holds records as they are, so that nothing but the line format is tested.
type shelf struct {
	subscription.Store
	delivery.Cursors
	delivery.Log
	delivery.Pings

	topics        []delivery.TopicState
	notifications []*delivery.Notification
	requests      []subscription.Request
	pings         []topic.Address
	members       []delivery.Member
	gaps          []delivery.Gap
}

func (s *shelf) source() transfer.Source {
	return transfer.Source{Subscriptions: s, Cursors: s, Log: s, Pings: s}
}

func values[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (s *shelf) Topics(context.Context) iter.Seq2[delivery.TopicState, error] {
	return values(s.topics)
}

func (s *shelf) Read(_ context.Context, _ string, from delivery.Seq) (*delivery.Notification, error) {
	for _, n := range s.notifications {
		if n.Seq >= from {
			return n, nil
		}
	}
	return nil, delivery.ErrEndOfLog
}

func (s *shelf) Requests(_ context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	return values(slices.DeleteFunc(slices.Clone(s.requests), func(r subscription.Request) bool { return subscription.ShardOf(r.ID) != shard }))
}

func (s *shelf) Members(_ context.Context, shard subscription.Shard) iter.Seq2[delivery.Member, error] {
	return values(slices.DeleteFunc(slices.Clone(s.members), func(m delivery.Member) bool { return subscription.ShardOf(m.ID) != shard }))
}

func (s *shelf) Gaps(context.Context, subscription.ID, int) ([]delivery.Gap, error) {
	return slices.Clone(s.gaps), nil
}

func (s *shelf) Waiting(context.Context) iter.Seq2[delivery.Ping, error] {
	var pings []delivery.Ping
	for _, at := range s.pings {
		pings = append(pings, delivery.Ping{Topic: at})
	}
	return values(pings)
}

func (s *shelf) Submit(_ context.Context, r subscription.Request) error {
	s.requests = append(s.requests, r)
	return nil
}

func (s *shelf) Ping(_ context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	s.pings = append(s.pings, topics...)
	return nil, nil
}

func (s *shelf) Empty(context.Context) (bool, error) { return true, nil }

func (s *shelf) PutMembers(_ context.Context, members []delivery.Member) error {
	s.members = append(s.members, members...)
	return nil
}

func (s *shelf) PutGaps(_ context.Context, gaps []delivery.Gap) error {
	s.gaps = append(s.gaps, gaps...)
	return nil
}

func (s *shelf) PutTopics(_ context.Context, topics []delivery.TopicState) error {
	s.topics = append(s.topics, topics...)
	return nil
}

func (s *shelf) PutNotifications(_ context.Context, notifications []*delivery.Notification) error {
	s.notifications = append(s.notifications, notifications...)
	return nil
}

// FuzzImport hands the parser anything at all: it takes a stream or refuses it
// with the number of the line, and never more.
func FuzzImport(f *testing.F) {
	from := memory(f)
	fill(f, from, 3)
	stream := export(f, from)
	f.Add(stream)
	for i, line := range bytes.SplitAfter(stream, []byte("\n")) {
		if i%9 == 0 {
			header, _, _ := bytes.Cut(stream, []byte("\n"))
			f.Add(append(append(bytes.Clone(header), '\n'), line...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got shelf
		to := transfer.Engine{Source: got.source(), Target: &got}
		s, err := transfer.Import(t.Context(), bytes.NewReader(data), to, transfer.ImportConfig{MaxBody: 1 << 16})
		switch {
		case err != nil && !bytes.HasPrefix([]byte(err.Error()), []byte("line ")):
			t.Fatalf("err = %v; want the number of the line", err)
		case err == nil && s.Bytes != int64(len(data)):
			t.Fatalf("%d of %d bytes were taken", s.Bytes, len(data))
		case err != nil:
			return
		}
		var again bytes.Buffer
		if _, err := transfer.Export(t.Context(), got.source(), &again, transfer.ExportConfig{}); err != nil {
			t.Fatalf("what was taken cannot be exported: %v", err)
		}
	})
}
