package hub

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"carillon/delivery"
	"carillon/internal/negotiate"
	"carillon/internal/weblink"
	"carillon/payload"
)

// memoryVersion is part of every ETag: it rises when the same notifications are rendered differently.
const memoryVersion = "2"

// memoryFlush is how much of a document is gathered before it is written.
const memoryFlush = 32 << 10

// searches is how often a search is made where the log changes under it.
const searches = 2

// remember answers with what the memory has. After the header was sent the error is errCutOff.
func (m *memory) remember(w http.ResponseWriter, r *http.Request, a *asked) error {
	zipped := negotiate.Gzip(r.Header)
	for again := 1; ; again++ {
		found, err := m.search(r, a)
		if err != nil {
			return m.notRemembered(w, err)
		}
		head := w.Header()
		head.Set("Content-Type", mediaXML)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-cache") // it grows
		head.Set("Vary", "Accept-Encoding")
		tag := found.tag(a.wish.topic, zipped)
		head.Set("ETag", tag)
		if negotiate.HasTag(r.Header, tag) {
			head.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if zipped {
			head.Set("Content-Encoding", "gzip")
		}
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusOK)
			return nil
		}
		err = m.recite(w, r, a, found, zipped)
		if err == nil || errors.Is(err, errCutOff) {
			return err
		}
		for _, name := range []string{"ETag", "Content-Encoding", "Cache-Control"} {
			head.Del(name)
		}
		if !errors.Is(err, errMoved) || again == searches {
			return err
		}
	}
}

// search looks for what is wanted, within the time that the store has.
func (m *memory) search(r *http.Request, a *asked) (chain, error) {
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.StoreTimeout)
	defer cancel()
	return (&search{log: a, topic: a.wish.topic}).find(ctx, a.wish.from)
}

// notRemembered says what there is instead.
func (m *memory) notRemembered(w http.ResponseWriter, err error) error {
	if gone := (*goneError)(nil); errors.As(err, &gone) {
		earliest := payload.FormatDatetime(gone.earliest)
		w.Header().Set(earliestHeader, earliest)
		return &requestError{http.StatusGone, "The hub does not have the changes from then on: the earliest that it has is " + earliest +
			". What is missing may be in the Source's own Change List or Resource List.", err}
	}
	if errors.Is(err, errNoMemory) {
		return &requestError{
			http.StatusNotFound, "The hub has no change notification of this topic (ResourceSync).", err,
		}
	}
	return err
}

// tag is the strong ETag of a representation of the chain: the log never changes a
// notification.
func (c chain) tag(topic string, zipped bool) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %d %d %s ", memoryVersion, c.from.UnixMicro(), len(c.notes), c.origin.id)
	for _, n := range c.notes {
		_, _ = sum.Write(n.id[:])
	}
	_, _ = io.WriteString(sum, topic)
	tag := hex.EncodeToString(sum.Sum(nil)[:16])
	if zipped {
		tag += "-gzip"
	}
	return `"` + tag + `"`
}

// recite writes the document. The room for bodies is taken before one is read: that of the
// memory's own, so that readers leave enough to those who publish, and that of all.
func (m *memory) recite(w http.ResponseWriter, r *http.Request, a *asked, c chain, zipped bool) error {
	largest, size := c.origin.bytes, int64(0)
	for _, n := range c.notes {
		largest, size = max(largest, n.bytes), size+n.bytes
	}
	largest = min(largest, m.cfg.MaxBody) // the log may be from times of a higher limit
	if err := a.reading.Hold(largest); err != nil {
		return err
	}
	d := &recital{memory: m, request: r, asked: a, chain: c, out: w, raw: w, control: http.NewResponseController(w)}
	first, err := d.opening()
	if err != nil {
		return err
	}
	head, err := c.head(upOf(first))
	if err != nil {
		return err
	}
	slowest := time.Duration(float64(size) / float64(m.cfg.BodyRate) * float64(time.Second))
	d.begin(min(m.cfg.BodyIdle+slowest, m.cfg.BodyTimeout), zipped)
	d.buf = head
	if err := d.write(first); err != nil {
		m.tellCutOff(a.wish.topic, err)
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return nil
}

// tellCutOff logs why a reading broke off: mostly the client hung up.
func (m *memory) tellCutOff(topic string, err error) {
	if errors.Is(err, delivery.ErrUnavailable) {
		m.failures.note(http.MethodGet, http.StatusOK, err)
		return
	}
	m.failures.logger.Debug("a reading of the change memory was broken off", "topic", topic, "error", err)
}

// head is what the document begins with. A publication that names no Capability List leaves
// it without rel=up (core §12.1 demands one).
func (c chain) head(up string) ([]byte, error) {
	head := payload.Head{Capability: payload.CapChangeList, From: c.from, Until: c.until, Orphan: true}
	if up != "" {
		head.Links = []payload.Link{{Rel: "up", Href: up}}
		if written, err := payload.AppendHead(nil, head); err == nil {
			return written, nil
		}
		head.Links = nil // what a stranger wrote is no URI
	}
	return payload.AppendHead(nil, head)
}

// upOf is the Capability List of what a notification is part of: as its publication's Link
// says, or else as it says itself.
func upOf(n *delivery.Notification) string {
	if n == nil {
		return ""
	}
	links, _ := weblink.Parse(n.Links)
	if found := weblink.Find(links, "resourcesync"); len(found) > 0 {
		return found[0].URI
	}
	header, err := payload.NewReader(bytes.NewReader(n.Body), payload.Limits{}).Header()
	if err != nil {
		return ""
	}
	for _, l := range header.Links {
		if l.Rel == "up" {
			return l.Href
		}
	}
	return ""
}

// recital writes one document. It belongs to one goroutine.
type recital struct {
	memory  *memory
	request *http.Request
	asked   *asked
	chain   chain

	raw     http.ResponseWriter
	out     io.Writer // raw, or what compresses into it
	zip     *gzip.Writer
	control *http.ResponseController
	buf     []byte
	entries int
}

// opening reads the notification that names the Capability List; nil if it is no longer kept.
func (d *recital) opening() (*delivery.Notification, error) {
	if d.chain.origin.seq == 0 {
		return nil, nil
	}
	n, err := d.read(d.chain.origin)
	if len(d.chain.notes) == 0 && errors.Is(err, errMoved) {
		return nil, nil
	}
	return n, err
}

// read reads one notification of the chain. The error is errMoved where it is there no more.
func (d *recital) read(sp span) (*delivery.Notification, error) {
	ctx, cancel := context.WithTimeout(d.request.Context(), d.memory.cfg.StoreTimeout)
	defer cancel()
	n, err := d.asked.Read(ctx, d.asked.wish.topic, sp.seq)
	switch {
	case errors.Is(err, delivery.ErrEndOfLog), err == nil && (n.Seq != sp.seq || n.ID != sp.id):
		return nil, errMoved
	}
	return n, err
}

// begin sends the header. The client has so long to take the whole.
func (d *recital) begin(within time.Duration, zipped bool) {
	_ = d.control.SetWriteDeadline(time.Now().Add(within)) // a writer without deadlines has none
	if zipped {
		d.zip, _ = gzip.NewWriterLevel(d.raw, gzip.BestSpeed) // the level is one
		d.out = d.zip
	}
	d.raw.WriteHeader(http.StatusOK)
}

// write writes all that follows the header, whose first notification was read already.
func (d *recital) write(first *delivery.Notification) error {
	for i, sp := range d.chain.notes {
		n := first
		if first = nil; i > 0 {
			var err error
			if n, err = d.read(sp); err != nil {
				return err
			}
		}
		if err := d.tell(n, sp); err != nil {
			return fmt.Errorf("notification %s: %w", sp.id, err)
		}
	}
	d.buf = payload.AppendTail(d.buf, false)
	if err := d.flush(); err != nil {
		return err
	}
	if d.zip != nil {
		if err := d.zip.Close(); err != nil {
			return err
		}
	}
	_ = d.control.SetWriteDeadline(time.Time{}) // the next answer on the connection has its own
	d.memory.metrics.recalled.Add(float64(d.entries))
	return nil
}

// tell adds the entries of a notification. The first of the chain may begin before the time that was
// asked for: entries known to be earlier are left out. Of a notification that ends at that very moment
// only its entries of that moment are added: a client that has read up to there may lack them.
func (d *recital) tell(n *delivery.Notification, sp span) error {
	past := sp.ends(d.chain.from)
	in := payload.NewReader(bytes.NewReader(n.Body), payload.Limits{})
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if exact := isMoment(&e); exact && e.Datetime.Before(d.chain.from) || past && !exact {
			continue
		}
		if d.buf, err = payload.AppendTold(d.buf, &e); err != nil {
			return err
		}
		d.entries++
		if len(d.buf) >= memoryFlush {
			if err := d.flush(); err != nil {
				return err
			}
		}
	}
}

// isMoment reports whether it is known at which moment the change was: a datetime without a time
// of day stands for the whole day, month or year.
func isMoment(e *payload.Entry) bool {
	return !e.Datetime.IsZero() && (e.DatetimeTold == "" || strings.Contains(e.DatetimeTold, "T"))
}

func (d *recital) flush() error {
	if err := d.request.Context().Err(); err != nil {
		return err // the place went to another reading
	}
	_, err := d.out.Write(d.buf)
	d.buf = d.buf[:0]
	return err
}

// earliestHeader has, with a 410, the earliest moment that the memory holds.
const earliestHeader = "X-Hub-Memory-Earliest"
