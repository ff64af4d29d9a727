package operator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // WebSub §7.1 lists it; the operator of the hub chooses
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"carillon/delivery/send"
	"carillon/payload"
	"carillon/subscription"
)

// The callbacks of listeners are at a name that can never exist (RFC 6761 §6.4). So they are not a
// stranger's, and a leftover one causes no request and no connection.
const (
	// ListenOrigin is what the URLs of the hub's own test callbacks begin with, before a slash
	// and a name.
	ListenOrigin = send.InsideOrigin
)

// Bounds of listening.
const (
	// MaxListeners is how many there may be in a process.
	MaxTestCallbacks = 16
	// maxEvents is how many events wait for a slow reader. One with more is dropped, so that deliveries
	// never wait for a browser.
	maxEvents = 64
	// heardBody is how much of a body is shown, bytes.
	maxEventBody = 4 << 10
)

// TestCallbacks are the hub's own test callbacks in this process. Their requests are handed in without
// a network: verifications and denials by Confirm and Deny, deliveries by Deliver. Methods may be
// called from any goroutine, and never wait for listeners.
type TestCallbacks struct {
	mu  sync.Mutex
	all map[string]*testCallback // by callback. Owned by mu.
}

var _ subscription.Confirmer = (*TestCallbacks)(nil)

// NewTestCallbacks returns an empty TestCallbacks.
func NewTestCallbacks() *TestCallbacks { return &TestCallbacks{all: map[string]*testCallback{}} }

// Owns reports whether a callback is one of the hub's own, be there a listener or not.
func Owns(callback string) bool { return strings.HasPrefix(callback, ListenOrigin+"/") }

// testCallback is one who listens.
type testCallback struct {
	callback string
	secret   subscription.Secret
	id       subscription.ID
	heard    chan TestEvent

	// Owned by Listeners.mu.
	lease   time.Duration // as granted last; 0: not verified yet
	granted time.Time
	ended   string // why nothing more comes; empty: it goes on
}

// open begins to listen at a callback.
func (ls *TestCallbacks) open(l *testCallback) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.all) >= MaxTestCallbacks {
		return fmt.Errorf("%w: %d listen already, which is the most at a time", ErrConflict, MaxTestCallbacks)
	}
	ls.all[l.callback] = l
	return nil
}

// shut ends listening: from now on the callback says that it is gone.
func (ls *TestCallbacks) shut(l *testCallback) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all[l.callback] == l {
		delete(ls.all, l.callback)
	}
	l.ended = "closed"
}

// state reports when a lease was granted last, and why nothing more comes.
func (ls *TestCallbacks) state(l *testCallback) (granted time.Time, lease time.Duration, ended string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.granted, l.lease, l.ended
}

// hand gives an event to a listener. It is false where it has no room for it and is dropped,
// or is gone. mu is held.
func (ls *TestCallbacks) hand(l *testCallback, h TestEvent) bool {
	if l.ended != "" {
		return false
	}
	select {
	case l.heard <- h:
		return true
	default:
		l.ended = fmt.Sprintf("what arrives was read too slowly: %d events waited. Listen again", maxEvents)
		delete(ls.all, l.callback)
		close(l.heard)
		return false
	}
}

// Confirm confirms a listener's own request, and no other one.
func (ls *TestCallbacks) Confirm(_ context.Context, r subscription.Request, _ string) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[r.Callback]
	if l == nil || l.ended != "" || r.Mode != subscription.ModeSubscribe || !hmac.Equal([]byte(r.Secret), []byte(l.secret)) {
		return fmt.Errorf("%w: the test callback is not listening", subscription.ErrNoIntent)
	}
	first := l.lease == 0
	l.lease, l.granted = r.Lease, time.Now()
	if first && !ls.hand(l, TestEvent{
		At: l.granted.UTC(), Kind: TestVerified,
		Text: fmt.Sprintf(
			"The hub has checked the topic and verified the subscription, for %s at a time. What is published from now on appears here.",
			r.Lease,
		),
	}) {
		return fmt.Errorf("%w: the test callback is not listening", subscription.ErrNoIntent)
	}
	return nil
}

// Deny informs a listener that its request was refused, or its subscription ended.
func (ls *TestCallbacks) Deny(_ context.Context, _, callback, reason string) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.all[callback]; l != nil && ls.hand(
		l, TestEvent{At: time.Now().UTC(), Kind: TestDenied, Text: "The hub denies the subscription: " + reason + "."},
	) {
		l.ended = "denied"
		delete(ls.all, callback)
		close(l.heard)
	}
	return nil
}

// Deliver takes a delivery, as a callback would: 410 once its listener is gone.
func (ls *TestCallbacks) Deliver(_ context.Context, d send.Inside) (status int) {
	ls.mu.Lock()
	l := ls.all[d.Callback]
	ls.mu.Unlock()
	if l == nil {
		return http.StatusGone
	}
	h := eventOf(l, d.Header, d.Body) // which takes a while for a long body
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.hand(l, h) {
		return http.StatusGone
	}
	return http.StatusNoContent
}

// The kinds of what is heard.
const (
	TestWaiting      = "waiting"
	TestVerified     = "verified"
	TestDenied       = "denied"
	TestNotification = "notification"
	TestEnded        = "ended"
)

// eventOf shows a delivery.
func eventOf(l *testCallback, header http.Header, body []byte) TestEvent {
	h := TestEvent{
		At: time.Now().UTC(), Kind: TestNotification,
		ID: header.Get("X-Hub-Notification-Id"), ContentType: header.Get("Content-Type"),
		Links: header.Values("Link"), Bytes: int64(len(body)),
		Signature: checkSignature(header.Get("X-Hub-Signature"), string(l.secret), body),
	}
	if payload.IsNotification(body) {
		if head, err := payload.NewReader(bytes.NewReader(body), payload.Limits{}).Header(); err == nil {
			h.From, h.Until = head.From, head.Until
		}
	}
	h.Body, h.BodyMore = excerpt(body)
	h.Text = fmt.Sprintf("A notification of %d bytes of %s.", len(body), h.ContentType)
	return h
}

// excerpt is the beginning of a body as valid UTF-8.
func excerpt(body []byte) (text string, more bool) {
	cut := body
	if len(body) > maxEventBody {
		cut, more = body[:maxEventBody], true
		for i := 0; i < utf8.UTFMax && len(cut) > 0; i++ { // no half of a character
			if r, size := utf8.DecodeLastRune(cut); r != utf8.RuneError || size != 1 {
				break
			}
			cut = cut[:len(cut)-1]
		}
	}
	return strings.ToValidUTF8(string(cut), "\uFFFD"), more
}

// errSignature is what is wrong with a signature.
var errSignature = errors.New("it is not that of the body")

// checkSignature shows a header X-Hub-Signature (WebSub §7.1) and whether it is good.
func checkSignature(value, secret string, body []byte) string {
	if value == "" {
		return "missing"
	}
	if err := goodSignature(value, secret, body); err != nil {
		return value + ": wrong: " + err.Error()
	}
	return value + ": good"
}

func goodSignature(value, secret string, body []byte) error {
	method, digest, ok := strings.Cut(value, "=")
	if !ok {
		return errors.New("it names no method")
	}
	made := map[string]func() hash.Hash{
		"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	}[method]
	if made == nil {
		return fmt.Errorf("the method %.20q is not one of WebSub §7.1", method)
	}
	sum, err := hex.DecodeString(digest)
	if err != nil {
		return errors.New("it is not hexadecimal")
	}
	mac := hmac.New(made, []byte(secret))
	mac.Write(body)
	if !hmac.Equal(sum, mac.Sum(nil)) {
		return errSignature
	}
	return nil
}
