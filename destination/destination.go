package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/bodies"
)

// ErrDenied: the hub denied the subscription, or ended it (WebSub §5.2), and did not verify a
// request after that. It is final; the error tells the hub's reason.
var ErrDenied = errors.New("the hub denied the subscription")

const (
	// denialGrace is how long a first verification may come after a denial.
	denialGrace = 5 * time.Second
	// doubtEvery is the least time between two requests that denials cause: anybody may send these.
	doubtEvery = 10 * time.Minute
)

// errUnverified: a request was accepted and then not verified.
var errUnverified = errors.New("the hub accepted the request and did not verify it in time; can it reach the callback?")

// Destination keeps one subscription. It serves its callback (ServeHTTP) for as
// long as Run runs, and a little longer.
type Destination struct {
	cfg    Config
	dir    *directory
	bodies *bodies.Room  // the memory for deliveries
	failed chan error    // what ends Run; has room for one
	doubts chan struct{} // has an element where a denial came; has room for one

	taking sync.Mutex // held while a notification is handed on; before mu

	doubted time.Time // when a denial had the hub asked at last; Run's goroutine owns it

	mu       sync.Mutex // guards what follows
	state    *state
	unsaved  bool // state has what the directory has not
	pending  *pending
	leaving  *pending      // beside pending: the hub that the topic has left
	denial   error         // since the latest request; nil: there was none
	former   *subscription // that a denial ended; nil once another was begun
	callback string        // the latest, also after its subscription ended
	last     time.Time     // of the last delivery that was taken; since the start
}

// pending is a request that the hub may verify.
type pending struct {
	mode, topic string
	hub         string        // whom we asked
	left        string        // the hub of before, which is to be told; empty if it is the same
	confirmed   chan struct{} // closed when it was
	expires     time.Time     // zero until it was confirmed
}

// New checks the Config, takes the data directory and reads the state in it. The
// caller calls Close in the end.
func New(cfg Config) (*Destination, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, s, err := openDirectory(cfg.Data, cfg.Topic)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d := &Destination{
		cfg:    cfg,
		dir:    dir,
		state:  s,
		bodies: bodies.NewRoom(maxBodies*cfg.MaxBody, cfg.MaxBody, errFull),
		doubts: make(chan struct{}, 1),
		failed: make(chan error, 1),
	}
	if s.Subscription != nil {
		d.callback = s.Subscription.Callback
	}
	return d, nil
}

// Close gives the data directory back. No delivery is taken after it.
func (d *Destination) Close() error {
	d.taking.Lock()
	defer d.taking.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	// In memory only: what comes now is answered 410 and confirms nothing.
	d.state.Subscription, d.former, d.pending = nil, nil, nil
	return d.dir.close()
}

// Run subscribes and renews until ctx ends; then it unsubscribes, within
// StopWithin, unless it is to Stay, and returns nil. The callback must be served until it has
// returned. A subscription in the data directory whose lease lasts is carried
// on: its deliveries are taken from the start, and it is renewed at once, in
// case the hub has forgotten it.
//
// A topic or a hub that is away, or a disk that is full, is tried again for
// ever. What ends Run is a hub that says no (ErrDenied, ErrRefused) and a Sink
// that takes no more.
func (d *Destination) Run(ctx context.Context) error {
	err := d.keep(ctx)
	if ctx.Err() == nil {
		return err
	}
	if d.cfg.Stay {
		return nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.StopWithin)
	defer cancel()
	if err := d.unsubscribe(stop); err != nil {
		d.cfg.Logger.Warn("not unsubscribed; the subscription ends with its lease", "error", err)
	}
	return nil
}

// keep holds the subscription until ctx ends or there is no point in going on.
func (d *Destination) keep(ctx context.Context) error {
	if sub := d.current(); sub != nil {
		d.cfg.Logger.Info("carrying on with the subscription", "topic", sub.Topic, "until", sub.LeaseEnd)
	}
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(d.cfg.RetryFirst), backoff.WithMaxInterval(d.cfg.RetryMax),
		backoff.WithMaxElapsedTime(0))
	for attempt, wait := 0, time.Duration(0); ; attempt++ {
		if err := d.wait(ctx, wait, nil); err != nil {
			return err
		}
		err := d.subscribe(ctx, attempt)
		if final := d.final(err); final || ctx.Err() != nil {
			return err
		}
		if err == nil {
			retry.Reset()
			attempt, wait = -1, 0
			if err := d.rest(ctx); err != nil {
				return err
			}
			continue
		}
		wait = retry.NextBackOff()
		if busy := (*busyError)(nil); errors.As(err, &busy) {
			wait = max(wait, busy.retryAfter)
		}
		d.cfg.Logger.Warn("not subscribed yet; trying again", "error", err, "in", wait.Round(time.Millisecond).String())
	}
}

// final tells the errors that trying again does not mend. While a lease lasts,
// a refused renewal is tried again: the hub still delivers.
func (d *Destination) final(err error) bool {
	if errors.Is(err, ErrRefused) {
		return !d.subscribed()
	}
	return errors.Is(err, ErrDenied) || errors.Is(err, errSink)
}

func (d *Destination) subscribed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Subscription.active(time.Now())
}

// untilRenewal is 0 where there is nothing to renew.
func (d *Destination) untilRenewal() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := d.state.Subscription
	if !sub.active(time.Now()) || !d.reusable(sub, sub.Topic) {
		return 0
	}
	return max(0, time.Until(sub.renewAt()))
}

// rest waits until the subscription is to be renewed. A denial has the hub asked at once, which
// verifies if it was not the one that sent it; however many come, doubtEvery is between two requests.
func (d *Destination) rest(ctx context.Context) error {
	until := time.Now().Add(max(d.untilRenewal(), d.cfg.RetryFirst))
	calm := d.doubted.Add(doubtEvery)
	if calm.After(until) {
		calm = until
	}
	if err := d.wait(ctx, time.Until(calm), nil); err != nil {
		return err
	}
	doubted, err := d.waitOrDoubt(ctx, time.Until(until), nil, d.doubts)
	if doubted {
		d.doubted = time.Now()
	}
	return err
}

// wait returns nil after the time, or when done is closed before; else the
// reason to stop.
func (d *Destination) wait(ctx context.Context, long time.Duration, done <-chan struct{}) error {
	_, err := d.waitOrDoubt(ctx, long, done, nil)
	return err
}

// waitOrDoubt is wait that ends with a doubt, too.
func (d *Destination) waitOrDoubt(ctx context.Context, long time.Duration, done, doubts <-chan struct{}) (doubted bool, err error) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case err := <-d.failed:
		return false, err
	case <-doubts:
		return true, nil
	case <-done:
	case <-timer.C:
	}
	return false, nil
}

// fail ends Run. The first reason counts.
func (d *Destination) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

// subscribe makes one request and waits until the hub has verified it. Where
// the topic cannot be asked, a subscription that lasts is renewed as it is.
func (d *Destination) subscribe(ctx context.Context, attempt int) error {
	found, err := d.discover(ctx)
	if err != nil {
		sub := d.current()
		if sub == nil {
			return err
		}
		found = channel{topic: sub.Topic, hubs: []string{sub.Hub}}
	}
	hub := d.hubOf(found, attempt)
	sub, p, err := d.begin(hub, found.topic)
	if err != nil {
		return err
	}
	form := url.Values{
		"hub.mode": {modeSubscribe}, "hub.topic": {sub.Topic}, "hub.callback": {sub.Callback}, "hub.secret": {sub.Next},
	}
	if d.cfg.Lease > 0 {
		form.Set("hub.lease_seconds", strconv.FormatInt(int64(d.cfg.Lease/time.Second), 10))
	}
	memory, err := d.ask(ctx, hub, form)
	if err != nil {
		return fmt.Errorf("asking the hub %s: %w", hub, err)
	}
	if err := d.verified(ctx, hub, p); err != nil {
		return err
	}
	if err := d.remember(memory); err != nil {
		return err
	}
	if granted := d.current(); granted != nil {
		d.cfg.Logger.Info("subscribed", "topic", granted.Topic, "hub", granted.Hub, "until", granted.LeaseEnd)
	}
	return d.leave(ctx, sub)
}

// believe ends the subscription if a denial came since the latest request, which the hub did not verify.
// Its secrets are kept in memory: a hub that has it all the same would end it by an answer of 410.
func (d *Destination) believe(hub string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denial == nil {
		return fmt.Errorf("asking the hub %s: %w", hub, errUnverified)
	}
	d.former, d.state.Subscription, d.pending = d.state.Subscription, nil, nil
	if err := d.save(); err != nil {
		d.cfg.Logger.Error("the end of the subscription could not be noted", "error", err)
	}
	return d.denial
}

// hubOf chooses among the hubs of a topic: the one that has the subscription, as
// long as it lasts and the topic names that hub; else one after the other.
func (d *Destination) hubOf(found channel, attempt int) string {
	sub := d.current()
	if sub != nil && sub.Topic == found.topic && slices.Contains(found.hubs, sub.Hub) {
		return sub.Hub
	}
	return found.hubs[attempt%len(found.hubs)]
}

// leave ends the subscription at the hub that the topic has left, now that the new
// one has verified ours; what both deliver is known by its content. If it fails
// that subscription ends with its lease.
func (d *Destination) leave(ctx context.Context, sub subscription) error {
	d.mu.Lock()
	if d.pending == nil || d.pending.left == "" {
		d.mu.Unlock()
		return nil
	}
	former := d.pending.left
	p := &pending{mode: modeUnsubscribe, topic: sub.Topic, hub: former, confirmed: make(chan struct{})}
	d.leaving, d.pending.left = p, ""
	d.mu.Unlock()
	_, err := d.ask(ctx, former, unsubscription(sub))
	if err == nil {
		if err := d.wait(ctx, d.cfg.VerifyWithin, p.confirmed); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && p.expires.IsZero() {
		d.leaving, err = nil, errUnverified
	}
	if err != nil {
		d.cfg.Logger.Warn("not unsubscribed at the hub that the topic has left; that ends with its lease", "hub", former, "error", err)
	}
	return nil
}

func unsubscription(sub subscription) url.Values {
	return url.Values{"hub.mode": {modeUnsubscribe}, "hub.topic": {sub.Topic}, "hub.callback": {sub.Callback}}
}

// current returns a copy of the subscription if its lease lasts, or nil.
func (d *Destination) current() *subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.state.Subscription.active(time.Now()) {
		return nil
	}
	sub := *d.state.Subscription
	return &sub
}

// begin notes, durably, what the hub is about to be asked: its answer may find
// another process. A hub other than the one before gets a callback of its own, so
// that not both of them verify it; but while a lease lasts it is the same, as
// deliveries come to it, and the hub is ours only when it has verified.
func (d *Destination) begin(hub, topic string) (subscription, *pending, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := d.state.Subscription
	if !d.reusable(sub, topic) || sub.Hub != hub && !sub.active(time.Now()) {
		memory := ""
		if sub != nil && sub.Hub == hub && sub.Topic == topic {
			memory = sub.Memory
		}
		sub = &subscription{Hub: hub, Topic: topic, Callback: d.callbackBase() + newSecret(), Memory: memory}
	}
	if sub.Next == "" {
		sub.Next = newSecret()
	}
	d.state.Subscription, d.callback = sub, sub.Callback
	d.pending = &pending{mode: modeSubscribe, topic: topic, hub: hub, confirmed: make(chan struct{})}
	d.denial, d.former = nil, nil
	select {
	case <-d.doubts: // this request answers it
	default:
	}
	if err := d.save(); err != nil {
		return subscription{}, nil, err
	}
	return *sub, d.pending, nil
}

// reusable tells whether a request may go on with the callback of the
// subscription: it is for the topic, under our URL, and not past.
func (d *Destination) reusable(sub *subscription, topic string) bool {
	return sub != nil && sub.Topic == topic && strings.HasPrefix(sub.Callback, d.callbackBase()) &&
		(sub.LeaseEnd.IsZero() || sub.active(time.Now()))
}

func (d *Destination) callbackBase() string {
	return strings.TrimSuffix(d.cfg.URL, "/") + "/callback/"
}

// unsubscribe asks the hub to end the subscription and waits for its
// verification (CN §4.4).
func (d *Destination) unsubscribe(ctx context.Context) error {
	d.mu.Lock()
	if d.state.Subscription == nil {
		d.mu.Unlock()
		return nil
	}
	sub := *d.state.Subscription
	p := &pending{mode: modeUnsubscribe, topic: sub.Topic, hub: sub.Hub, confirmed: make(chan struct{})}
	d.pending, d.leaving = p, nil
	d.mu.Unlock()
	if _, err := d.ask(ctx, sub.Hub, unsubscription(sub)); err != nil {
		return err
	}
	select {
	case <-p.confirmed:
		d.cfg.Logger.Info("unsubscribed", "topic", sub.Topic)
		return nil
	case <-ctx.Done():
		return errUnverified
	}
}

// remember notes where the hub that has the subscription can be asked for what it
// delivered before.
func (d *Destination) remember(memory string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sub := d.state.Subscription; sub != nil && sub.Memory != memory {
		sub.Memory = memory
		return d.save()
	}
	return nil
}

// save writes the state; d.mu is held.
func (d *Destination) save() error {
	err := d.dir.save(d.state)
	d.unsaved = err != nil
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrData, d.cfg.Data, err)
	}
	return nil
}

// validSecrets returns the secrets of the subscription that the callback belongs
// to; none where it has ended.
func (d *Destination) validSecrets() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := cmp.Or(d.state.Subscription, d.former)
	if sub == nil {
		return nil
	}
	return slices.Clone(sub.secrets())
}
