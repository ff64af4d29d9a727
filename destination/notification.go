package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/payload"
)

// Notification is one delivery that was accepted.
type Notification struct {
	// ID is the X-Hub-Notification-Id; for a hub that sends none, a digest of
	// the content, or nothing for content that may well come twice.
	ID string
	// Topic is the topic subscribed to. It is known by the callback: Link
	// headers do not tell (WebSub §7).
	Topic       string
	ContentType string
	Size        int // of the body, bytes
	Body        []byte
	Received    time.Time
	// ChangeNotification tells that the body is a well-formed ResourceSync
	// notification; what follows is empty otherwise.
	ChangeNotification bool
	// Broken reports that the body is a ResourceSync notification that cannot be read to its end.
	Broken      bool
	From, Until string // as told
	Changes     []payload.Entry

	digest string // of a ResourceSync notification that tells when it is of: it comes once
}

// Sink takes notifications. Take is called for one at a time, in the order of
// their acceptance, and the delivery is answered when it has returned. An error
// ends Run: the notification comes again when the process does. But with ErrNotNow the
// hub is only asked to come again later.
type Sink interface {
	Take(n *Notification) error
}

// ErrNotNow is what a Sink returns, wrapped, that has no room at the moment.
var ErrNotNow = errors.New("not now")

// read reads a delivery. Violations are logged, and a body that cannot be read is handed on as
// content of no known kind: a hub cannot mend it by sending it again.
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
		d.cfg.Logger.Warn("the notification breaks the rules of its format",
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
		n.digest = digestOf(body) // else it may tell of another change what one before has said
	}
	return n
}

func isDated(e payload.Entry) bool { return !e.Datetime.IsZero() }

// knownID returns the X-Hub-Notification-Id as it is remembered: a long one as its digest. A
// ResourceSync notification without an id is remembered by its content, other content is not.
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

// take hands a notification on, once, and returns when it will be known again.
func (d *Destination) take(n *Notification) error {
	d.taking.Lock()
	defer d.taking.Unlock()
	known, err := d.known(n)
	if known || err != nil {
		return err
	}
	if err := d.cfg.Sink.Take(n); errors.Is(err, ErrNotNow) {
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
