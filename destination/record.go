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

// record is the state of the subscription: what the directory has, and what is pending.
type record struct {
	cfg    Config
	dir    *directory
	doubts chan struct{} // has an element where a denial came; has room for one

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

// save writes the state; d.mu is held.
func (rec *record) save() error {
	err := rec.dir.save(rec.state)
	rec.unsaved = err != nil
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrData, rec.cfg.Data, err)
	}
	return nil
}

// current returns a copy of the subscription if its lease lasts, or nil.
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

// untilRenewal is 0 where there is nothing to renew.
func (rec *record) untilRenewal() time.Duration {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := rec.state.Subscription
	if !sub.active(time.Now()) || !rec.reusable(sub, sub.Topic) {
		return 0
	}
	return max(0, time.Until(sub.renewAt()))
}

// begin notes, durably, what the hub is about to be asked: its answer may find
// another process. A hub other than the one before gets a callback of its own, so
// that not both of them verify it; but while a lease lasts it is the same, as
// deliveries come to it, and the hub is ours only when it has verified.
func (rec *record) begin(hub, topic string) (subscription, *pending, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := rec.state.Subscription
	if !rec.reusable(sub, topic) || sub.Hub != hub && !sub.active(time.Now()) {
		memory := ""
		if sub != nil && sub.Hub == hub && sub.Topic == topic {
			memory = sub.Memory
		}
		sub = &subscription{Hub: hub, Topic: topic, Callback: rec.callbackBase() + newSecret(), Memory: memory}
	}
	if sub.Next == "" {
		sub.Next = newSecret()
	}
	rec.state.Subscription, rec.callback = sub, sub.Callback
	rec.pending = &pending{mode: modeSubscribe, topic: topic, hub: hub, confirmed: make(chan struct{})}
	rec.denial, rec.former = nil, nil
	select {
	case <-rec.doubts: // this request answers it
	default:
	}
	if err := rec.save(); err != nil {
		return subscription{}, nil, err
	}
	return *sub, rec.pending, nil
}

// reusable tells whether a request may go on with the callback of the
// subscription: it is for the topic, under our URL, and not past.
func (rec *record) reusable(sub *subscription, topic string) bool {
	return sub != nil && sub.Topic == topic && strings.HasPrefix(sub.Callback, rec.callbackBase()) &&
		(sub.LeaseEnd.IsZero() || sub.active(time.Now()))
}

func (rec *record) callbackBase() string {
	return strings.TrimSuffix(rec.cfg.URL, "/") + "/callback/"
}

// remember notes where the hub that has the subscription can be asked for what it
// delivered before.
func (rec *record) remember(memory string) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if sub := rec.state.Subscription; sub != nil && sub.Memory != memory {
		sub.Memory = memory
		return rec.save()
	}
	return nil
}

// validSecrets returns the secrets of the subscription that the callback belongs
// to; none where it has ended.
func (rec *record) validSecrets() []string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sub := cmp.Or(rec.state.Subscription, rec.former)
	if sub == nil {
		return nil
	}
	return slices.Clone(sub.secrets())
}

// believe ends the subscription if a denial came since the latest request, which the hub did not verify.
// Its secrets are kept in memory: a hub that has it all the same would end it by an answer of 410.
func (rec *record) believe(hub string) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.denial == nil {
		return fmt.Errorf("asking the hub %s: %w", hub, errUnverified)
	}
	rec.former, rec.state.Subscription, rec.pending = rec.state.Subscription, nil, nil
	if err := rec.save(); err != nil {
		rec.cfg.Logger.Error("the end of the subscription could not be noted", "error", err)
	}
	return rec.denial
}

// confirm checks a verification against what we asked for, and notes what comes
// of it before the hub gets its answer.
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

// denied notes a no (WebSub §5.2), which proves nothing: anybody may have sent it who knows the
// callback. It counts where the hub does not verify all the same (verified). d.mu is held.
func (rec *record) denied(v verification) error {
	sub := rec.state.Subscription
	if sub == nil || v.topic != sub.Topic {
		return fmt.Errorf("%w: denied what was not asked for", errNoVerification)
	}
	reason := legible.Line(v.reason)
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	if reason == "" {
		reason = "no reason given"
	}
	if rec.denial == nil {
		rec.cfg.Logger.Warn("the subscription is denied, by the hub or by somebody else who knows the callback; the hub's verification tells", "reason", reason)
	}
	rec.denial = fmt.Errorf("%w to %s: %s", ErrDenied, legible.Line(v.topic), reason)
	select {
	case rec.doubts <- struct{}{}:
	default:
	}
	return nil
}

// known tells whether the notification was handed on before. It was, but could
// not be noted, when the directory was full: then it is noted now.
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
	rec.cfg.Logger.Debug("a delivery came again", "id", n.ID)
	return true, nil
}

// followOn reports where a notification does not begin where the last one
// ended (CN §3), and notes where this one does; d.mu is held.
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
		logger.Warn("the notification does not tell what interval it covers", "id", n.ID)
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

// ours tells whether the path is that of the callback, of which nobody may find out by
// the time how much he has guessed.
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
	hub         string        // whom we asked
	left        string        // the hub of before, which is to be told; empty if it is the same
	confirmed   chan struct{} // closed when it was
	expires     time.Time     // zero until it was confirmed
}

// ErrDenied: the hub denied the subscription, or ended it (WebSub §5.2), and did not verify a
// request after that. It is final; the error tells the hub's reason.
var ErrDenied = errors.New("the hub denied the subscription")

// errUnverified: a request was accepted and then not verified.
var errUnverified = errors.New("the hub accepted the request and did not verify it in time; can it reach the callback?")

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
	// GraceAfter is for how long a verification is confirmed again, for a hub
	// that did not get the first answer.
	GraceAfter = 2 * time.Minute
	// maxBodies is how many deliveries of the longest kind are held in memory at once. Others are
	// told to come again.
	maxBodies = 4
	// bodyIdle, bodyRate (bytes a second) and bodyTimeout say how slow a delivery may be: who sends
	// a byte now and then does not keep others out.
	bodyIdle    = 10 * time.Second
	bodyRate    = 32 << 10
	bodyTimeout = 2 * time.Minute
	// maxChallenge is how long a challenge may be that is answered, bytes.
	maxChallenge = 1024
	// maxID is how long a notification's id may be to be kept as it is, bytes.
	maxID = 128
	// assumedLease counts where a hub does not say what it granted.
	assumedLease = 10 * 24 * time.Hour
	// maxLease bounds what a hub may say.
	maxLease = 10 * 365 * 24 * time.Hour
	// retrySeconds is when a hub should come again with what could not be taken.
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

// maxReason is how much of a hub's explanation is repeated, bytes.
const maxReason = 500

// Status is how a subscription stands.
type Status struct {
	// Subscribed: the hub has verified it, and its lease lasts.
	Subscribed bool
	Topic, Hub string    // while it is Subscribed
	LeaseEnd   time.Time // likewise
	// Memory is where the hub can be asked for what it delivered before; empty where it
	// has not told.
	Memory string
	// LastDelivery is when the last delivery came that was taken, since the start; zero: none did.
	LastDelivery time.Time
}

// Status tells how the subscription stands.
func (rec *record) Status() Status {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	s := Status{LastDelivery: rec.last}
	if sub := rec.state.Subscription; sub != nil {
		s.Memory = sub.Memory
		if s.Subscribed = sub.active(time.Now()); s.Subscribed {
			s.Topic, s.Hub, s.LeaseEnd = sub.Topic, sub.Hub, sub.LeaseEnd
		}
	}
	return s
}
