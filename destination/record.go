package destination

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// record is the subscription's state: as stored, and as pending.
type record struct {
	cfg    Config
	dir    *directory
	doubts chan struct{} // one element after a denial; buffer of one

	mu       sync.Mutex // guards what follows
	state    *state
	unsaved  bool // state differs from the directory
	pending  *pending
	leaving  *pending      // unsubscribing at the previous hub, beside pending
	denial   error         // the denial since the latest request, or nil
	former   *subscription // ended by a denial; nil once another has begun
	callback string        // the latest one, also after its subscription ended
	last     time.Time     // of the last accepted delivery since the start
}

// save writes the state. rec.mu is held.
func (rec *record) save() error {
	err := rec.dir.save(rec.state)
	rec.unsaved = err != nil
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrData, rec.cfg.Data, err)
	}
	return nil
}

// current returns a copy of the active subscription, or nil.
func (rec *record) current() *subscription {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.state.Subscription.active(time.Now()) {
		return nil
	}
	sub := *rec.state.Subscription
	return &sub
}

func (rec *record) subscribed() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.state.Subscription.active(time.Now())
}

// untilRenewal returns the time until the renewal; 0 without an active subscription.
func (rec *record) untilRenewal() time.Duration {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := rec.state.Subscription
	if !sub.active(time.Now()) || !rec.reusable(sub, sub.Topic) {
		return 0
	}
	return max(0, time.Until(sub.renewAt()))
}

// begin stores the request before it is sent, as the verification may reach a later process.
// Another hub gets a new callback, so that only one of them verifies it. While a lease lasts the
// callback stays, as deliveries arrive there; the new hub counts only once it has verified.
func (rec *record) begin(hub, topic string) (subscription, *pending, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := rec.state.Subscription
	if !rec.reusable(sub, topic) || sub.Hub != hub && !sub.active(time.Now()) {
		memory := ""
		if sub != nil && sub.Hub == hub && sub.Topic == topic {
			memory = sub.ChangeMemory
		}
		sub = &subscription{Hub: hub, Topic: topic, Callback: rec.callbackBase() + newSecret(), ChangeMemory: memory}
	}
	if sub.Next == "" {
		sub.Next = newSecret()
	}
	rec.state.Subscription, rec.callback = sub, sub.Callback
	rec.pending = &pending{mode: modeSubscribe, topic: topic, hub: hub, confirmed: make(chan struct{})}
	rec.denial, rec.former = nil, nil
	select {
	case <-rec.doubts: // this request resolves the doubt
	default:
	}
	if err := rec.save(); err != nil {
		return subscription{}, nil, err
	}
	return *sub, rec.pending, nil
}

// reusable reports whether a request may reuse the callback of sub: same topic, same base URL,
// lease not ended.
func (rec *record) reusable(sub *subscription, topic string) bool {
	return sub != nil && sub.Topic == topic && strings.HasPrefix(sub.Callback, rec.callbackBase()) &&
		(sub.LeaseEnd.IsZero() || sub.active(time.Now()))
}

func (rec *record) callbackBase() string {
	return strings.TrimSuffix(rec.cfg.URL, "/") + "/callback/"
}

// remember stores the address of the hub's change memory.
func (rec *record) remember(memory string) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if sub := rec.state.Subscription; sub != nil && sub.ChangeMemory != memory {
		sub.ChangeMemory = memory
		return rec.save()
	}
	return nil
}

// validSecrets returns the secrets of the callback's subscription; none after its end.
func (rec *record) validSecrets() []string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := cmp.Or(rec.state.Subscription, rec.former)
	if sub == nil {
		return nil
	}
	return slices.Clone(sub.secrets())
}

// believe ends the subscription if a denial followed the latest request, which the hub did not
// verify. The secrets stay in memory: without them the callback would send 410, and a forged denial
// would end the hub's subscription.
func (rec *record) believe(hub string) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.denial == nil {
		return fmt.Errorf("asking the hub %s: %w", hub, errUnverified)
	}
	rec.former, rec.state.Subscription, rec.pending = rec.state.Subscription, nil, nil
	if err := rec.save(); err != nil {
		rec.cfg.Logger.Error("the end of the subscription could not be stored", "error", err)
	}
	return rec.denial
}

// confirm compares a verification with the pending request, and stores the result before the
// response.
func (rec *record) confirm(v verification) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	p, sub, now := rec.pending, rec.state.Subscription, time.Now()
	if v.mode == modeUnsubscribe && rec.leaving != nil {
		p = rec.leaving
	}
	if v.mode == modeDenied {
		return rec.denied(v)
	}
	if p == nil || v.mode != p.mode || v.topic != p.topic || !p.expires.IsZero() && now.After(p.expires) {
		return fmt.Errorf("%w that is pending", errNoVerification)
	}
	switch {
	case p == rec.leaving: // another hub has the subscription
	case v.mode == modeUnsubscribe:
		rec.state.Subscription = nil
	case sub != nil:
		if sub.Hub != p.hub {
			p.left, sub.Hub = sub.Hub, p.hub
		}
		sub.granted(v.lease, now)
	}
	if err := rec.save(); err != nil {
		return err
	}
	if p.expires.IsZero() {
		p.expires = now.Add(GraceAfter)
		close(p.confirmed)
	}
	return nil
}

// denied records a denial (WebSub §5.2). It may be forged by anyone who knows the callback, so it
// counts only if the hub does not verify either (verified). rec.mu is held.
func (rec *record) denied(v verification) error {
	sub := rec.state.Subscription
	if sub == nil || v.topic != sub.Topic {
		return fmt.Errorf("%w: it denies a subscription that does not exist", errNoVerification)
	}
	reason := legible.Line(v.reason)
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	if reason == "" {
		reason = "no reason given"
	}
	if rec.denial == nil {
		rec.cfg.Logger.Warn(
			"a denial of the subscription arrived; the hub is asked to verify, as it may be forged",
			"reason", reason,
		)
	}
	rec.denial = fmt.Errorf("%w to %s: %s", ErrDenied, legible.Line(v.topic), reason)
	select {
	case rec.doubts <- struct{}{}:
	default:
	}
	return nil
}

// known reports whether the notification was handed on before. If its state could not be saved
// then, known saves it now.
func (rec *record) known(n *Notification) (bool, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := cmp.Or(rec.state.Subscription, rec.former)
	if sub == nil {
		return false, errors.New("the subscription has just ended")
	}
	n.Topic = sub.Topic
	if !rec.state.seen(n.ID) && !rec.state.seen(n.digest) {
		return false, nil
	}
	if rec.unsaved {
		return true, rec.save()
	}
	rec.cfg.Logger.Debug("a delivery is a repetition", "id", n.ID)
	return true, nil
}

// followOn logs a notification that does not begin where the last one ended (CN §3), and records
// its end. rec.mu is held.
func (rec *record) followOn(n *Notification) {
	if !n.ChangeNotification {
		return
	}
	from, fromErr := payload.ParseDatetime(n.From)
	until, untilErr := payload.ParseDatetime(n.Until)
	logger := rec.cfg.Logger
	if rec.cfg.SinkSeesGaps {
		logger = slog.New(slog.DiscardHandler)
	}
	if fromErr != nil || untilErr != nil {
		logger.Warn("the notification has no valid interval (from, until)", "id", n.ID)
		return
	}
	last, err := payload.ParseDatetime(rec.state.LastUntil)
	known := err == nil
	switch {
	case known && from.After(last):
		logger.Warn("gap: the changes between two notifications are missing",
			"last_until", rec.state.LastUntil, "from", n.From, "id", n.ID)
	case known && from.Before(last):
		logger.Warn("overlap: the notification begins before the last one ended",
			"last_until", rec.state.LastUntil, "from", n.From, "id", n.ID)
	}
	if !known || until.After(last) {
		rec.state.LastUntil = n.Until
	}
}

// ours reports whether u has the path of the callback. Its time does not reveal how much of a guess
// is right.
func (rec *record) ours(u *url.URL) bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	callback, err := url.Parse(rec.callback)
	return err == nil && rec.callback != "" &&
		subtle.ConstantTimeCompare([]byte(u.EscapedPath()), []byte(callback.EscapedPath())) == 1
}

// pending is a request that the hub may verify.
type pending struct {
	mode, topic string
	hub         string        // that was asked
	left        string        // the previous hub, at which to unsubscribe; empty: same hub
	confirmed   chan struct{} // closed by the first confirmation
	expires     time.Time     // zero until confirmed
}

// ErrDenied: the hub denied or ended the subscription (WebSub §5.2), and did not verify a later
// request. It is final; the error holds the hub's reason.
var ErrDenied = errors.New("the hub denied the subscription")

// errUnverified: the hub accepted a request, but did not verify it.
var errUnverified = errors.New(
	"the hub accepted the request but did not verify it in time; check that it can reach the callback",
)

// verified reports whether the hub has verified the request.
func (p *pending) verified() bool {
	select {
	case <-p.confirmed:
		return true
	default:
		return false
	}
}

const (
	// GraceAfter is how long a verification may be repeated, for a hub that did not get the first
	// response.
	GraceAfter = 2 * time.Minute
	// maxBodies bounds how many of the largest deliveries are in memory at once. Others are retried
	// by the hub.
	maxBodies = 4
	// bodyIdle, bodyRate (bytes a second) and bodyTimeout bound slow deliveries, so that they do
	// not block others.
	bodyIdle    = 10 * time.Second
	bodyRate    = 32 << 10
	bodyTimeout = 2 * time.Minute
	// maxChallenge bounds the length of a challenge, bytes.
	maxChallenge = 1024
	// maxID bounds the length of an ID that is stored verbatim, bytes.
	maxID = 128
	// assumedLease is used if a hub does not state the granted lease.
	assumedLease = 10 * 24 * time.Hour
	// maxLease bounds the lease that a hub may state.
	maxLease = 10 * 365 * 24 * time.Hour
	// retrySeconds is the Retry-After of deferred deliveries.
	retrySeconds = "10"
)

// verification is a hub's GET on the callback (WebSub §5.2, §5.3).
type verification struct {
	mode, topic, challenge, reason string
	lease                          time.Duration
}

var errNoVerification = errors.New("not a verification of intent")

const (
	modeSubscribe   = "subscribe"
	modeUnsubscribe = "unsubscribe"
	modeDenied      = "denied"
)

// maxReason bounds a hub's reason in logs and errors, bytes.
const maxReason = 500

// Status is the state of the subscription.
type Status struct {
	// Subscribed: the hub has verified it, and its lease has not ended.
	Subscribed bool
	Topic, Hub string    // while Subscribed
	LeaseEnd   time.Time // while Subscribed
	// ChangeMemory is the address of the hub's change memory; empty if the hub named none.
	ChangeMemory string
	// LastDelivery is the time of the last accepted delivery since the start, or zero.
	LastDelivery time.Time
}

// Status returns the state of the subscription.
func (rec *record) Status() Status {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	s := Status{LastDelivery: rec.last}
	if sub := rec.state.Subscription; sub != nil {
		s.ChangeMemory = sub.ChangeMemory
		if s.Subscribed = sub.active(time.Now()); s.Subscribed {
			s.Topic, s.Hub, s.LeaseEnd = sub.Topic, sub.Hub, sub.LeaseEnd
		}
	}
	return s
}
