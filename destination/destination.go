package destination

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/bodies"
)

const (
	// denialGrace is how long a verification may come after a denial.
	denialGrace = 5 * time.Second
	// doubtEvery is the least time between two requests caused by denials, which anyone may send.
	doubtEvery = 10 * time.Minute
)

// Destination keeps one subscription. It serves its callback (ServeHTTP) while Run runs, and a
// little longer.
type Destination struct {
	*record
	asker
	cfg    Config
	bodies *bodies.Room // the memory for deliveries
	failed chan error   // ends Run; buffer of one

	accepting sync.Mutex // held while a notification is handed on; locked before mu

	doubted time.Time // when a denial last caused a request; owned by Run's goroutine
}

// New checks the Config, locks the data directory and reads its state. The caller must call Close.
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
		record: &record{cfg: cfg, dir: dir, state: s, doubts: make(chan struct{}, 1)},
		asker:  asker{cfg},
		cfg:    cfg,
		bodies: bodies.NewRoom(maxBodies*cfg.MaxBody, cfg.MaxBody, errFull),
		failed: make(chan error, 1),
	}
	if s.Subscription != nil {
		d.callback = s.Subscription.Callback
	}
	return d, nil
}

// Close unlocks the data directory. No delivery is accepted after it.
func (d *Destination) Close() error {
	d.accepting.Lock()
	defer d.accepting.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	// In memory only: later deliveries get 410, and no verification is confirmed.
	d.state.Subscription, d.former, d.pending = nil, nil, nil
	return d.dir.close()
}

// Run subscribes and renews until ctx ends. Then it unsubscribes within StopWithin, unless Stay is
// set, and returns nil. The callback must be served until Run returns.
//
// Run goes on with a subscription of the data directory whose lease has not ended. It accepts
// deliveries from the start, and renews at once, in case the hub has lost the subscription.
//
// An unreachable topic or hub and a full disk are retried for ever. Run ends with an error if the
// hub refuses (ErrDenied, ErrRefused) or the Sink fails.
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
		d.cfg.Logger.Warn("unsubscribing failed; the subscription ends with its lease", "error", err)
	}
	return nil
}

// keep holds the subscription until ctx or a final error ends it.
func (d *Destination) keep(ctx context.Context) error {
	if sub := d.current(); sub != nil {
		d.cfg.Logger.Info("going on with the stored subscription", "topic", sub.Topic, "until", sub.LeaseEnd)
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
		d.cfg.Logger.Warn("subscribing failed; it is retried", "error", err, "in", wait.Round(time.Millisecond).String())
	}
}

// final reports whether a retry is useless. While a lease lasts, a refused renewal is retried, as
// the hub still delivers.
func (d *Destination) final(err error) bool {
	if errors.Is(err, ErrRefused) {
		return !d.subscribed()
	}
	return errors.Is(err, ErrDenied) || errors.Is(err, errSink)
}

// rest waits until the renewal is due. A denial starts a request at once, which the hub verifies if
// the denial was forged. Two such requests are at least doubtEvery apart.
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

// wait returns nil after the time, or as soon as done is closed. Otherwise it returns the reason to
// stop.
func (d *Destination) wait(ctx context.Context, long time.Duration, done <-chan struct{}) error {
	_, err := d.waitOrDoubt(ctx, long, done, nil)
	return err
}

// waitOrDoubt is wait, but a doubt ends it too.
func (d *Destination) waitOrDoubt(
	ctx context.Context, long time.Duration, done, doubts <-chan struct{},
) (doubted bool, err error) {
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

// subscribe sends one request and waits for the hub's verification. If the topic cannot be asked,
// it renews an active subscription unchanged.
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

// hubOf chooses among the hubs of a topic. It keeps the hub of an active subscription while the
// topic names it, and otherwise tries each in turn.
func (d *Destination) hubOf(found channel, attempt int) string {
	sub := d.current()
	if sub != nil && sub.Topic == found.topic && slices.Contains(found.hubs, sub.Hub) {
		return sub.Hub
	}
	return found.hubs[attempt%len(found.hubs)]
}

// leave unsubscribes at the hub that the topic has left, after the new hub has verified.
// Notifications that both hubs deliver are recognized by their content. If unsubscribing fails,
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
		d.cfg.Logger.Warn(
			"unsubscribing at the previous hub failed; the subscription there ends with its lease",
			"hub", former, "error", err,
		)
	}
	return nil
}

func unsubscription(sub subscription) url.Values {
	return url.Values{"hub.mode": {modeUnsubscribe}, "hub.topic": {sub.Topic}, "hub.callback": {sub.Callback}}
}

// unsubscribe asks the hub to end the subscription and waits for its verification (CN §4.4).
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

var errSink = errors.New("handing on a notification")

// errFull: the memory for deliveries is in use.
var errFull = errors.New("too many deliveries at once")

// unverifiedSoon is how long a verification may take before the log gives likely reasons.
const unverifiedSoon = 10 * time.Second

// verified waits until the hub has verified the request. A denial counts only if no verification
// follows: within denialGrace for a new subscription. For an active one, which a forger may want to
// end, the hub has VerifyWithin.
func (d *Destination) verified(ctx context.Context, hub string, p *pending) error {
	doubts := d.doubts
	if d.subscribed() {
		doubts = nil
	}
	soon := min(unverifiedSoon, d.cfg.VerifyWithin)
	doubted, err := d.waitOrDoubt(ctx, soon, p.confirmed, doubts)
	if err == nil && !doubted && !p.verified() {
		d.cfg.Logger.Warn("the hub accepted the request, but has not verified it yet", "hub", hub, "url", d.callbackBase()+"…",
			"waited", soon.String(), "hint", unreachableHint(d.cfg.URL))
		doubted, err = d.waitOrDoubt(ctx, d.cfg.VerifyWithin-soon, p.confirmed, doubts)
	}
	if err == nil && doubted {
		err = d.wait(ctx, denialGrace, p.confirmed)
	}
	switch {
	case err != nil:
		return err
	case p.verified():
		return nil
	}
	return d.believe(hub)
}

// unreachableHint returns a likely reason why a hub does not reach the callback.
func unreachableHint(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	at, _ := netip.ParseAddr(host)
	switch {
	case at.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return "the callback's address works on this machine only; " +
			"set --url to an address at which the hub reaches this program"
	case at.IsPrivate() || at.IsLinkLocalUnicast():
		return "the callback's address is private, and many hubs refuse those; " +
			"set --url to a public address"
	}
	return "check that the hub can reach the callback's address: " +
		"name, port, proxy, firewall, and a certificate that the hub trusts"
}
