package api_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/check"
	"carillon/delivery"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
	"carillon/subscription"
)

// fakeService answers with what has every field, or with err, and notes what it was asked.
type fakeService struct {
	mu      sync.Mutex
	err     error  // what everything returns
	bare    bool   // answers have the fewest fields
	asked   string // the latest question or order
	heard   chan operator.TestEvent
	stopped chan struct{} // closed when a Listen ends
	looked  int           // overviews
}

var _ api.Service = (*fakeService)(nil)

func newFakeService() *fakeService {
	return &fakeService{heard: make(chan operator.TestEvent), stopped: make(chan struct{})}
}

func (d *fakeService) note(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = fmt.Sprintf(format, args...)
	return d.err
}

func (d *fakeService) was() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

var (
	someID = uuid.MustParse("6ba7b810-9dad-51d1-80b4-00c04fd430c8")
	noon   = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

const someTopic = "https://source.test/change/?a=1&b=2"

var coverage = operator.Coverage{MissingShards: 3, Trouble: []string{"hub-2: no answer"}}

func (d *fakeService) Overview(context.Context) (operator.Overview, error) {
	d.mu.Lock()
	d.looked++
	d.mu.Unlock()
	if d.bare {
		return operator.Overview{
			At: noon, URL: "https://hub.test/", Engine: "pebble", Processes: []operator.Process{{}},
			Series: []operator.Step{{}},
		}, d.note("overview")
	}
	return operator.Overview{
		At: noon, URL: "https://hub.test/", Engine: "redis", Ready: true,
		Checks:    []operator.Check{{Name: "store", Ready: true}, {Name: "hub", Error: "it is stopping"}},
		Warnings:  []string{"one"},
		Processes: []operator.Process{{ID: "a", Self: true, Version: "1", Started: noon, Shards: []int{0, 1}, Counts: operator.Counts{Topics: 1}}},
		Series:    []operator.Step{{At: noon, Seconds: 10, Failed: map[string]int{"timeout": 1}, P99: .5}},
		Coverage:  coverage,
	}, d.note("overview")
}

func (d *fakeService) Topics(_ context.Context, q operator.TopicQuery) (operator.TopicPage, error) {
	if d.bare {
		return operator.TopicPage{}, d.note("topics %+v", q)
	}
	return operator.TopicPage{Topics: []operator.Topic{fullTopic()}, Next: "k", Coverage: coverage}, d.note("topics %+v", q)
}

func fullTopic() operator.Topic {
	return operator.Topic{
		Topic: someTopic, First: 1, Head: 9, Bytes: 10, Oldest: noon, Published: noon,
		LastID: someID, LastUntil: "2026-05-01T12:00:00Z", Subscriptions: 3, Coverage: &coverage,
	}
}

func (d *fakeService) Topic(_ context.Context, topic string) (operator.Topic, error) {
	if d.bare {
		return operator.Topic{Topic: topic}, d.note("topic %s", topic)
	}
	return fullTopic(), d.note("topic %s", topic)
}

func fullNotification() operator.Notification {
	return operator.Notification{
		ID: someID, Topic: someTopic, Seq: 9, Accepted: noon, ContentType: "application/xml",
		Bytes: 10, From: "a", Until: "b", Break: true,
		Tally: operator.Tally{Subscribers: 1, Pending: 1},
	}
}

func (d *fakeService) Notifications(_ context.Context, topic string, before delivery.Seq, limit int) (operator.NotificationPage, error) {
	err := d.note("notifications %s %d %d", topic, before, limit)
	if d.bare {
		return operator.NotificationPage{}, err
	}
	return operator.NotificationPage{Notifications: []operator.Notification{fullNotification()}, Next: 9, Coverage: coverage}, err
}

func (d *fakeService) Notification(_ context.Context, topic string, id uuid.UUID) (operator.NotificationDetail, error) {
	err := d.note("notification %s %s", topic, id)
	if d.bare {
		return operator.NotificationDetail{}, err
	}
	return operator.NotificationDetail{
		Notification: fullNotification(), Missing: []operator.Missing{{Subscription: fullSubscription(), Outcome: "failing"}},
		MissingMore: true, Coverage: coverage,
	}, err
}

func fullSubscription() operator.Subscription {
	return operator.Subscription{
		ID: someID, Topic: someTopic, CallbackHost: "https://callback.test", State: operator.StateFailing, Process: "a", Signed: true,
		Created: noon, Expires: noon, LeaseSeconds: 10, Start: 1, Settled: 8, Head: 9, LagSince: noon, LagSeconds: 5, Gapped: true,
		Failures: 2, LastClass: "5xx", LastStatus: 503, NextAttempt: noon, Replay: &operator.Replay{Next: 2, Last: 3}, TestCallback: true,
	}
}

func (d *fakeService) Subscriptions(_ context.Context, q operator.SubscriptionQuery) (operator.SubscriptionPage, error) {
	err := d.note("subscriptions %+v", q)
	if d.bare {
		return operator.SubscriptionPage{}, err
	}
	return operator.SubscriptionPage{
		Subscriptions: []operator.Subscription{fullSubscription()}, Matching: 1,
		Next: someID.String(), Coverage: coverage,
	}, err
}

func (d *fakeService) Subscription(_ context.Context, id subscription.ID) (operator.SubscriptionDetail, error) {
	err := d.note("subscription %s", id)
	if d.bare {
		return operator.SubscriptionDetail{Subscription: operator.Subscription{State: operator.StateIdle}}, err
	}
	return operator.SubscriptionDetail{
		Subscription: fullSubscription(), Callback: "https://callback.test/x",
		Attempts: []operator.Attempt{{At: noon, Seconds: 1, Seq: 9, Number: 2, Class: "5xx", Status: 503, Error: "no", Replay: true}},
		Gaps:     []operator.Gap{{First: 2, Last: 3, Reason: "given_up", Class: "timeout", At: noon, Replayed: noon}},
	}, err
}

func (d *fakeService) Sources(context.Context) ([]operator.Source, error) {
	if d.bare {
		return nil, d.note("sources")
	}
	return []operator.Source{fullSource()}, d.note("sources")
}

func fullSource() operator.Source {
	return operator.Source{Name: "one", Prefixes: []string{"https://source.test/"}, Created: noon, Issued: noon}
}

func (d *fakeService) Retry(_ context.Context, id subscription.ID) error {
	return d.note("retry %s", id)
}

func (d *fakeService) Replay(_ context.Context, id subscription.ID, from, last delivery.Seq) (operator.Replay, error) {
	return operator.Replay{Next: from, Last: last}, d.note("replay %s %d %d", id, from, last)
}

func (d *fakeService) Remove(_ context.Context, id subscription.ID, reason string) error {
	return d.note("remove %s %q", id, reason)
}

func (d *fakeService) Trim(_ context.Context, topic string, before delivery.Seq) (operator.TrimResult, error) {
	return operator.TrimResult{Notifications: 2, Bytes: 20}, d.note("trim %s %d", topic, before)
}

func (d *fakeService) AddSource(_ context.Context, name string, prefixes []string, hash source.Hash) (operator.NewSource, error) {
	return newSource(hash), d.note("add %s %q %t", name, prefixes, hash == source.Hash{})
}

func newSource(hash source.Hash) operator.NewSource {
	n := operator.NewSource{Source: fullSource()}
	if hash == (source.Hash{}) {
		n.Token = "carillon_x"
	}
	return n
}

func (d *fakeService) RotateSource(_ context.Context, name string, hash source.Hash) (operator.NewSource, error) {
	return newSource(hash), d.note("rotate %s %t", name, hash == source.Hash{})
}

func (d *fakeService) RevokeSource(_ context.Context, name string) error {
	return d.note("revoke %s", name)
}

func (d *fakeService) Listen(ctx context.Context, topic string) iter.Seq2[operator.TestEvent, error] {
	return func(yield func(operator.TestEvent, error) bool) {
		defer close(d.stopped)
		if err := d.note("listen %s", topic); err != nil {
			yield(operator.TestEvent{}, err)
			return
		}
		for {
			select {
			case h, more := <-d.heard:
				if !more || !yield(h, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (d *fakeService) Check(_ context.Context, places []string) iter.Seq2[operator.Checked, error] {
	return func(yield func(operator.Checked, error) bool) {
		if err := d.note("check %q", places); err != nil {
			yield(operator.Checked{}, err)
			return
		}
		f := check.Finding{
			Level: check.Error, Clause: "core 9", URI: "https://source.test/capabilitylist.xml",
			Line: 3, Element: "url[1]", What: "loc is missing", Mend: "write one",
		}
		_ = yield(operator.Checked{Finding: &f}, nil) && yield(operator.Checked{Summary: &check.Summary{Errors: 1}}, nil)
	}
}

// fakeLevel is a level of log lines.
type fakeLevel struct{ name string }

func (l *fakeLevel) Get() string { return l.name }

func (l *fakeLevel) Set(name string) error {
	if name != "debug" && name != "info" {
		return errors.New("no such level")
	}
	l.name = name
	return nil
}
