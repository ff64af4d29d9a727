package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/internal/bodies"
	"carillon/payload"
)

// ServeHTTP serves the callback: GET verifies (WebSub §5.3), POST delivers (WebSub §7). Every other
// path is 404.
func (d *Destination) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !d.ours(r.URL) {
		http.Error(w, "There is nothing here.", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		d.verify(w, r)
	case http.MethodPost:
		d.deliver(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "A callback accepts GET and POST only.", http.StatusMethodNotAllowed)
	}
}

func (d *Destination) verify(w http.ResponseWriter, r *http.Request) {
	v, err := readVerification(r.URL.RawQuery)
	if err == nil {
		err = d.confirm(v)
	}
	switch {
	case errors.Is(err, ErrData):
		d.cfg.Logger.Error("a verification could not be stored", "error", err)
		http.Error(w, "Not now.", http.StatusServiceUnavailable)
	case err != nil:
		d.cfg.Logger.Warn("a verification was not confirmed", "error", err, "mode", v.mode, "topic", v.topic)
		http.Error(w, "Not confirmed.", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		if v.mode != modeDenied {
			_, _ = io.WriteString(w, v.challenge)
		}
	}
}

func (d *Destination) deliver(w http.ResponseWriter, r *http.Request) {
	held := d.bodies.Hold()
	defer held.Release()
	limits := bodies.Limits{
		Most: d.cfg.MaxBody, Idle: bodyIdle, Rate: bodyRate, Timeout: bodyTimeout,
	}
	body, err := limits.Read(w, r, &held)
	if err != nil {
		d.refuseBody(w, err)
		return
	}
	secrets := d.validSecrets()
	if len(secrets) == 0 {
		http.Error(w, "The subscription has ended.", http.StatusGone)
		return
	}
	if !signed(r.Header.Get("X-Hub-Signature"), body, secrets) {
		d.cfg.Logger.Warn("a delivery was rejected: its signature is missing or wrong", "from", r.RemoteAddr)
		http.Error(w, "The signature is missing or wrong.", http.StatusForbidden)
		return
	}
	if err := d.accept(d.read(r.Header.Get("X-Hub-Notification-Id"), r.Header.Get("Content-Type"), body)); err != nil {
		if errors.Is(err, ErrNotNow) {
			d.cfg.Logger.Warn("a delivery was deferred; the hub retries it", "error", err)
		} else {
			d.cfg.Logger.Error("a delivery could not be accepted", "error", err)
		}
		w.Header().Set("Retry-After", retrySeconds)
		http.Error(w, "Not now.", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuseBody responds to a delivery whose body could not be read.
func (d *Destination) refuseBody(w http.ResponseWriter, err error) {
	bodies.Abandon(w)
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		d.cfg.Logger.Warn("a delivery was rejected: it is larger than the limit", "limit", d.cfg.MaxBody)
		http.Error(w, fmt.Sprintf("The limit is %d bytes.", d.cfg.MaxBody), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", retrySeconds)
		http.Error(w, "Too many deliveries at once. Try again later.", http.StatusServiceUnavailable)
	case errors.Is(err, os.ErrDeadlineExceeded):
		http.Error(w, "The body arrived too slowly.", http.StatusRequestTimeout)
	default:
		http.Error(w, "The body ended early.", http.StatusBadRequest)
	}
}

// readVerification reads the query that a hub appends to the callback. The callback has no query of
// its own, so each parameter may occur once.
func readVerification(rawQuery string) (verification, error) {
	q, err := url.ParseQuery(rawQuery)
	if err != nil {
		return verification{}, errNoVerification
	}
	v := verification{
		mode: q.Get("hub.mode"), topic: q.Get("hub.topic"),
		challenge: q.Get("hub.challenge"), reason: q.Get("hub.reason"),
		lease: assumedLease,
	}
	for _, name := range []string{"hub.mode", "hub.topic", "hub.challenge", "hub.lease_seconds"} {
		if len(q[name]) > 1 {
			return verification{}, fmt.Errorf("%w: it has %s twice", errNoVerification, name)
		}
	}
	if seconds, err := strconv.ParseInt(q.Get("hub.lease_seconds"), 10, 64); err == nil && seconds > 0 {
		v.lease = time.Duration(min(seconds, int64(maxLease/time.Second))) * time.Second
	}
	if v.mode != modeDenied && !goodChallenge(v.challenge) {
		return verification{}, fmt.Errorf(
			"%w: the challenge is empty, too long, or has characters that are not allowed", errNoVerification,
		)
	}
	return v, nil
}

// goodChallenge reports whether s has only the characters of WebSub §5.3. Otherwise a request could
// make the callback send content that a browser would run.
func goodChallenge(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("+-./=_", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxChallenge
}

// read parses a delivery and logs violations. A body that cannot be parsed is handed on as unknown
// content, as the hub would resend the same bytes.
func (d *Destination) read(id, contentType string, body []byte) *Notification {
	n := &Notification{
		ID: knownID(id), ContentType: contentType, Size: len(body), Body: body,
		Received: time.Now().UTC(),
	}
	read, err := payload.ReadNotification(body, payload.Limits{Bytes: d.cfg.MaxBody})
	if read == nil {
		return n
	}
	if n.ID == "" {
		n.ID = digestOf(body)
	}
	if err != nil {
		d.cfg.Logger.Warn("the notification violates its format",
			"id", n.ID, "error", err)
		if cause := errors.Unwrap(err); cause != nil {
			d.cfg.Logger.Warn("the notification cannot be read", "id", n.ID, "error", cause)
			n.Broken = true
			return n
		}
	}
	n.ChangeNotification = true
	n.From, n.Until, n.Changes = read.Header.From, read.Header.Until, read.Entries
	if n.From != "" || slices.ContainsFunc(n.Changes, isDated) {
		n.digest = digestOf(body) // otherwise equal bytes may be another change
	}
	return n
}

func isDated(e payload.Entry) bool { return !e.Datetime.IsZero() }

// knownID returns the key by which a notification is remembered: its X-Hub-Notification-Id, or a
// digest of a long one. A ResourceSync notification without an ID is remembered by its content;
// other content without an ID is not remembered.
func knownID(id string) string {
	if len(id) > maxID {
		return digestOf([]byte(id))
	}
	return id
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha-256:" + hex.EncodeToString(sum[:])
}

// accept hands a notification on, once, and returns when its state is saved.
func (d *Destination) accept(n *Notification) error {
	d.accepting.Lock()
	defer d.accepting.Unlock()
	known, err := d.known(n)
	if known || err != nil {
		return err
	}
	if err := d.cfg.Sink.Accept(n); errors.Is(err, ErrNotNow) {
		return err
	} else if err != nil {
		err = fmt.Errorf("%w: %w", errSink, err)
		d.fail(err)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = n.Received
	if n.ID != "" {
		d.state.see(n.ID)
	}
	if n.digest != "" && n.digest != n.ID {
		d.state.see(n.digest)
	}
	d.followOn(n)
	return d.save()
}
