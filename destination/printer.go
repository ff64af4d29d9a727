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

// Printer is a Sink that prints each change as one line. It writes a notification with one Write,
// so that its lines stay together.
//
// A line of text has the datetime, the change, the URI and further attributes. Other content than a
// change notification becomes one line with its time of arrival:
//
//	2026-01-02T03:04:05.123456Z created http://example.com/res1 length=8876 type=application/pdf
//	2026-01-02T03:04:05.654321Z content length=1234 type=application/atom+xml
//
// A missing datetime is "-". Values with spaces, quotes or unprintable characters are quoted as in
// Go, so that no control sequence reaches a terminal.
type Printer struct {
	w    io.Writer
	json bool
	buf  bytes.Buffer
}

// NewPrinter returns a Printer to w, of text or of JSON lines (NDJSON).
func NewPrinter(w io.Writer, json bool) *Printer { return &Printer{w: w, json: json} }

// Accept prints the notification.
func (p *Printer) Accept(n *Notification) error {
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

// Origin says how a change arrived.
type Origin struct {
	Topic        string
	Notification string // the ID of the notification; empty without one
	Key, Via     string // from package follow; empty without it
}

// AppendEvent appends a change as one JSON line in the format of a notifier's intake.
func AppendEvent(dst []byte, e *payload.Entry) []byte { return appendObject(dst, eventOf(e)) }

// AppendChange appends a change with its Origin to dst as one JSON line, in the format of a
// notifier's intake. Unprintable characters are escaped, for terminals.
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
	_ = enc.Encode(v) // strings and checked numbers always encode
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

// number returns s as JSON if it is a whole number of any size, and nil otherwise.
func number(s string) json.RawMessage {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i == 0 && s[0] == '0' && len(s) > 1 {
			return nil
		}
	}
	return json.RawMessage(s)
}

// appendWord appends s as one word, quoted as in Go if it has spaces, quotes or unprintable
// characters.
func appendWord(b []byte, s string) []byte {
	plain := s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r == ' ' || r == '"' || !unicode.IsPrint(r)
	}) < 0
	if plain {
		return append(b, s...)
	}
	return strconv.AppendQuote(b, s)
}
