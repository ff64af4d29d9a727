package page_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
	"carillon/subscription"
)

// hostile is what a stranger may have for a topic, a callback, an error or a body.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`

// hostileTopic is a topic with it.
const hostileTopic = "https://evil.example/" + hostile

// fakeService answers from what is in it.
type fakeService struct {
	mu       sync.Mutex
	cond     *sync.Cond // of those that await
	overview operator.Overview
	topics   []operator.Topic
	subs     []operator.SubscriptionDetail
	sources  []operator.Source
	missing  operator.Coverage
	err      error    // what every question gets
	did      []string // the orders
	heard    []operator.TestEvent
	checked  []operator.Checked
	now      time.Time
}

var _ api.Service = (*fakeService)(nil)

func (d *fakeService) note(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	d.did = append(d.did, fmt.Sprintf(format, args...))
	if d.cond != nil {
		d.cond.Broadcast()
	}
	return nil
}

// await waits until something was done, or fails the test after a minute.
func (d *fakeService) await(t *testing.T, what string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cond = sync.NewCond(&d.mu)
	expired := false
	timer := time.AfterFunc(time.Minute, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		expired = true
		d.cond.Broadcast()
	})
	defer timer.Stop()
	for !slices.Contains(d.did, what) {
		if expired {
			t.Fatalf("waited a minute in vain for %q", what)
		}
		d.cond.Wait()
	}
}

// done is what was done, and forgets it.
func (d *fakeService) done() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := strings.Join(d.did, "; ")
	d.did = nil
	return all
}

func (d *fakeService) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *fakeService) wrong() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *fakeService) Overview(context.Context) (operator.Overview, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.overview, d.err
}

func (d *fakeService) Topics(_ context.Context, q operator.TopicQuery) (operator.TopicPage, error) {
	page := operator.TopicPage{Coverage: d.missing}
	for _, t := range d.topics {
		if !strings.Contains(strings.ToLower(t.Topic), strings.ToLower(q.Contains)) || q.Failing && t.Failing == 0 || t.Topic <= q.After {
			continue
		}
		if len(page.Topics) == cmp.Or(q.Limit, operator.DefaultLimit) {
			page.Next = page.Topics[len(page.Topics)-1].Topic
			break
		}
		page.Topics = append(page.Topics, t)
	}
	return page, d.wrong()
}

func (d *fakeService) Topic(_ context.Context, topic string) (operator.Topic, error) {
	for _, t := range d.topics {
		if t.Topic == topic {
			return t, d.wrong()
		}
	}
	return operator.Topic{}, fmt.Errorf("%w: topic %q", operator.ErrNotFound, topic)
}

// notificationID is the ID of a number of a topic.
func notificationID(topic string, seq delivery.Seq) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %d", topic, seq))
}

// one is a notification whose fate its number says.
func (d *fakeService) one(t operator.Topic, seq delivery.Seq) operator.Notification {
	n := t.Subscriptions
	tally := operator.Tally{Subscribers: n, Delivered: n}
	switch age := int(t.Head - seq); {
	case age == 0:
		tally = operator.Tally{Subscribers: n, Delivered: n - n/3, Pending: n / 3, Failing: min(n/3, 37)}
	case age < 4:
		tally = operator.Tally{Subscribers: n, Delivered: n - t.Failing, Pending: t.Failing, Failing: t.Failing}
	case age%7 == 0 && n > 4:
		tally = operator.Tally{Subscribers: n, Delivered: n - 4, Pending: 1, Failing: 1, GivenUp: 2, Trimmed: 1}
	}
	at := t.Published.Add(-time.Duration(t.Head-seq) * 97 * time.Second)
	return operator.Notification{
		ID: notificationID(t.Topic, seq), Topic: t.Topic, Seq: seq, Accepted: at, ContentType: "application/xml",
		Bytes: 900 + int64(seq)%70_000, From: at.Add(-97 * time.Second).UTC().Format(time.RFC3339), Until: at.UTC().Format(time.RFC3339),
		Break: seq%9 == 5, Tally: tally,
	}
}

func (d *fakeService) Notifications(ctx context.Context, topic string, before delivery.Seq, limit int) (operator.NotificationPage, error) {
	t, err := d.Topic(ctx, topic)
	page := operator.NotificationPage{Coverage: d.missing}
	for seq := min(t.Head, cmp.Or(before, math.MaxUint64)-1); err == nil && seq >= t.First; seq-- {
		if len(page.Notifications) == limit {
			page.Next = seq + 1
			break
		}
		page.Notifications = append(page.Notifications, d.one(t, seq))
	}
	if before == 0 && len(page.Notifications) > 0 && page.Notifications[0].Seq != t.Head {
		page.Notifications = slices.Insert(page.Notifications, 0, d.one(t, t.Head))
	}
	return page, err
}

func (d *fakeService) Notification(_ context.Context, topic string, id uuid.UUID) (operator.NotificationDetail, error) {
	for _, t := range d.topics {
		for seq := t.First; seq <= t.Head && (topic == "" || topic == t.Topic); seq++ {
			if notificationID(t.Topic, seq) != id {
				continue
			}
			n := operator.NotificationDetail{Notification: d.one(t, seq), Coverage: d.missing}
			for _, s := range d.subs {
				outcomes := []string{"failing", "given_up", "failing", "pending", "trimmed"}
				if s.State == operator.StateFailing && len(n.Missing) < min(len(outcomes), n.Tally.Subscribers-n.Tally.Delivered) {
					n.Missing = append(n.Missing, operator.Missing{Subscription: s.Subscription, Outcome: outcomes[len(n.Missing)]})
				}
			}
			return n, d.wrong()
		}
	}
	return operator.NotificationDetail{}, fmt.Errorf("%w: notification %s", operator.ErrNotFound, id)
}

func (d *fakeService) Subscriptions(_ context.Context, q operator.SubscriptionQuery) (operator.SubscriptionPage, error) {
	page := operator.SubscriptionPage{Coverage: d.missing}
	for _, s := range d.subs {
		if q.Topic != "" && s.Topic != q.Topic || !strings.Contains(s.CallbackHost, q.Host) ||
			!strings.Contains(s.CallbackHost+" "+s.Topic, q.Contains) && s.ID.String() != q.Contains ||
			q.State != "" && s.State != q.State && (q.State != "behind" || s.State == operator.StateIdle) ||
			q.Gapped && !s.Gapped || s.LagSeconds < q.LagOver.Seconds() || q.LeaseUnder > 0 && s.LeaseSeconds >= q.LeaseUnder.Seconds() {
			continue
		}
		page.Matching++
		if s.ID.String() <= q.After.String() && q.After != uuid.Nil {
			continue
		}
		if len(page.Subscriptions) < cmp.Or(q.Limit, operator.DefaultLimit) {
			page.Subscriptions = append(page.Subscriptions, s.Subscription)
		} else {
			page.Next = page.Subscriptions[len(page.Subscriptions)-1].ID.String()
		}
	}
	return page, d.wrong()
}

func (d *fakeService) Subscription(_ context.Context, id subscription.ID) (operator.SubscriptionDetail, error) {
	for _, s := range d.subs {
		if s.ID == id {
			return s, d.wrong()
		}
	}
	return operator.SubscriptionDetail{}, fmt.Errorf("%w: subscription %s", operator.ErrNotFound, id)
}

func (d *fakeService) Sources(context.Context) ([]operator.Source, error) {
	return d.sources, d.wrong()
}

func (d *fakeService) Retry(_ context.Context, id subscription.ID) error {
	return d.note("retry %s", id)
}

func (d *fakeService) Replay(_ context.Context, id subscription.ID, from, last delivery.Seq) (operator.Replay, error) {
	if from < 100 {
		return operator.Replay{}, fmt.Errorf("%w: the log begins with 100", operator.ErrConflict)
	}
	return operator.Replay{Next: from, Last: last}, d.note("replay %s %d %d", id, from, last)
}

func (d *fakeService) Remove(_ context.Context, id subscription.ID, reason string) error {
	if len(reason) > operator.MaxReason {
		return fmt.Errorf("%w: the reason is too long", operator.ErrInvalid)
	}
	return d.note("remove %s %s", id, reason)
}

func (d *fakeService) Trim(_ context.Context, topic string, before delivery.Seq) (operator.TrimResult, error) {
	return operator.TrimResult{Notifications: 12, Bytes: 34_567, Trouble: d.missing.Trouble}, d.note("trim %s %d", topic, before)
}

func (d *fakeService) AddSource(_ context.Context, name string, prefixes []string, _ source.Hash) (operator.NewSource, error) {
	if err := source.CheckName(name); err != nil {
		return operator.NewSource{}, fmt.Errorf("%w: %w", operator.ErrInvalid, err)
	}
	made := operator.Source{Name: name, Prefixes: prefixes, Created: d.now, Issued: d.now}
	return operator.NewSource{Source: made, Token: "token-of-" + name}, d.note("add %s %q", name, prefixes)
}

func (d *fakeService) RotateSource(_ context.Context, name string, _ source.Hash) (operator.NewSource, error) {
	return operator.NewSource{Source: operator.Source{Name: name}, Token: "another-token"}, d.note("rotate %s", name)
}

func (d *fakeService) RevokeSource(_ context.Context, name string) error {
	return d.note("revoke %s", name)
}

func (d *fakeService) Listen(ctx context.Context, topic string) iter.Seq2[operator.TestEvent, error] {
	return func(yield func(operator.TestEvent, error) bool) {
		_ = d.note("listen %s", topic)
		defer func() { _ = d.note("deaf") }()
		for _, h := range d.heard {
			if !yield(h, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func (d *fakeService) Check(_ context.Context, places []string) iter.Seq2[operator.Checked, error] {
	return func(yield func(operator.Checked, error) bool) {
		_ = d.note("check %q", places)
		for _, c := range d.checked {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// change changes what is answered from now on.
func (d *fakeService) change(how func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how()
}
