package destination

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"carillon/internal/legible"
	"carillon/payload"
)

// Printer is a Sink that prints each change as one line. A notification is
// written in one Write, so that its lines stay together.
//
// Lines of text are the time of the change, the kind, the URI, and what more is
// told; content that is not a change notification is one line with its time
// of arrival:
//
//	2026-01-02T03:04:05.123456Z created http://example.com/res1 length=8876 type=application/pdf
//	2026-01-02T03:04:05.654321Z content length=1234 type=application/atom+xml
//
// A time that is not told is "-". A value with spaces, quotes or anything that
// is not printable is quoted as in Go; nothing foreign reaches a terminal raw.
type Printer struct {
	w    io.Writer
	json bool
	buf  bytes.Buffer
}

// NewPrinter returns a Printer to w: lines of text, or of JSON (NDJSON).
func NewPrinter(w io.Writer, json bool) *Printer { return &Printer{w: w, json: json} }

// Take prints the notification.
func (p *Printer) Take(n *Notification) error {
	p.buf.Reset()
	p.lines(n)
	if _, err := p.w.Write(p.buf.Bytes()); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func (p *Printer) lines(n *Notification) {
	if !n.ChangeNotification {
		p.content(n)
		return
	}
	for i := range n.Changes {
		if !p.json {
			p.buf.Write(append(appendChange(p.buf.AvailableBuffer(), &n.Changes[i]), '\n'))
			continue
		}
		p.buf.Write(AppendChange(p.buf.AvailableBuffer(), &n.Changes[i], Origin{Topic: n.Topic, Notification: n.ID}))
	}
}

// Origin is where a change came from.
type Origin struct {
	Topic        string
	Notification string // the ID of the notification; empty if it came by none
	Key, Via     string // as package follow gives them; empty where a change is only printed
}

// AppendEvent appends one line of JSON: a change as the intake of a notifier takes it.
func AppendEvent(dst []byte, e *payload.Entry) []byte { return appendObject(dst, eventOf(e)) }

// AppendChange appends a change to dst as one line of JSON: in the words of ResourceSync,
// as the notifier's intake takes it, with its Origin. It is for terminals too: everything
// that is not printable is escaped.
func AppendChange(dst []byte, e *payload.Entry, from Origin) []byte {
	return appendObject(dst, changeOf(e, from))
}

func (p *Printer) content(n *Notification) {
	if p.json {
		p.buf.Write(appendObject(p.buf.AvailableBuffer(), contentJSON{
			Topic: n.Topic, Notification: n.ID, Received: payload.FormatDatetime(n.Received),
			Content: contentType{Length: n.Size, Type: n.ContentType},
		}))
		return
	}
	b := append(p.buf.AvailableBuffer(), payload.FormatDatetime(n.Received)...)
	b = fmt.Appendf(b, " content length=%d", n.Size)
	p.buf.Write(append(appendField(b, "type", n.ContentType), '\n'))
}

func appendChange(b []byte, e *payload.Entry) []byte {
	b = append(b, datetimeOf(e, "-")...)
	b = append(b, ' ')
	b = appendWord(b, orDash(string(e.Change)))
	b = append(b, ' ')
	b = appendWord(b, orDash(e.Loc))
	b = appendField(b, "length", e.Length)
	return appendField(b, "type", e.Type)
}

func datetimeOf(e *payload.Entry, none string) string {
	if e.Datetime.IsZero() {
		return none
	}
	return payload.FormatDatetime(e.Datetime)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ' ')
	b = append(b, name...)
	return appendWord(append(b, '='), value)
}

// appendObject appends one line of JSON.
func appendObject(dst []byte, v any) []byte {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings, and numbers that were looked at, always encode
	return append(legible.AppendJSON(dst, bytes.TrimSuffix(plain.Bytes(), []byte("\n"))), '\n')
}

// eventJSON is what AppendEvent writes.
type eventJSON struct {
	Loc      string          `json:"loc"`
	Change   string          `json:"change"`
	Datetime string          `json:"datetime,omitempty"`
	LastMod  string          `json:"lastmod,omitempty"`
	Hash     string          `json:"hash,omitempty"`
	Length   json.RawMessage `json:"length,omitempty"`
	Type     string          `json:"type,omitempty"`
	Encoding string          `json:"encoding,omitempty"`
	Links    []linkJSON      `json:"ln,omitempty"`
}

// changeJSON is what AppendChange writes.
type changeJSON struct {
	eventJSON
	Topic        string `json:"topic"`
	Notification string `json:"notification,omitempty"`
	Key          string `json:"key,omitempty"`
	Via          string `json:"via,omitempty"`
}

type linkJSON struct {
	Rel      string          `json:"rel"`
	Href     string          `json:"href"`
	Hash     string          `json:"hash,omitempty"`
	Length   json.RawMessage `json:"length,omitempty"`
	Type     string          `json:"type,omitempty"`
	Encoding string          `json:"encoding,omitempty"`
	Modified string          `json:"modified,omitempty"`
	Path     string          `json:"path,omitempty"`
	Pri      json.RawMessage `json:"pri,omitempty"`
}

type contentJSON struct {
	Content      contentType `json:"content"`
	Received     string      `json:"received"`
	Topic        string      `json:"topic"`
	Notification string      `json:"notification,omitempty"`
}

type contentType struct {
	Type   string `json:"type"`
	Length int    `json:"length"`
}

func changeOf(e *payload.Entry, from Origin) changeJSON {
	return changeJSON{eventOf(e), from.Topic, from.Notification, from.Key, from.Via}
}

func eventOf(e *payload.Entry) eventJSON {
	c := eventJSON{
		Loc: e.Loc, Change: string(e.Change), Datetime: datetimeOf(e, ""), LastMod: e.LastMod, Hash: e.Hash,
		Length: number(e.Length), Type: e.Type, Encoding: e.Encoding,
	}
	for _, l := range e.Links {
		c.Links = append(c.Links, linkJSON{
			Rel: l.Rel, Href: l.Href, Hash: l.Hash, Length: number(l.Length), Type: l.Type,
			Encoding: l.Encoding, Modified: l.Modified, Path: l.Path, Pri: number(l.Pri),
		})
	}
	return c
}

// number gives a whole number of any size as JSON, and nothing for what is none.
func number(s string) json.RawMessage {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i == 0 && s[0] == '0' && len(s) > 1 {
			return nil
		}
	}
	return json.RawMessage(s)
}

// appendWord writes s as one word: as it is, or quoted as Go does where it has spaces,
// quotes or anything that is not printable.
func appendWord(b []byte, s string) []byte {
	plain := s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r == ' ' || r == '"' || !unicode.IsPrint(r)
	}) < 0
	if plain {
		return append(b, s...)
	}
	return strconv.AppendQuote(b, s)
}
