package payload

import (
	"errors"
	"fmt"
	"time"
)

// The namespaces of ResourceSync documents (CN §1.2).
const (
	spaceSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	spaceRS      = "http://www.openarchives.org/rs/terms/"
)

const (
	documentHead = prolog + "<urlset" + namespaces
	documentTail = "</urlset>\n"
	indexHead    = prolog + "<sitemapindex" + namespaces
	indexTail    = "</sitemapindex>\n"

	prolog     = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	namespaces = ` xmlns="` + spaceSitemap + `" xmlns:rs="` + spaceRS + `">` + "\n"
)

// ErrInterval: an interval does not go from an earlier to a later time.
var ErrInterval = errors.New("the interval must go from an earlier to a later time between the years 0 and 9999")

// AppendEntry appends the url element of e, a change, which must be Valid and have a
// Datetime, and a line end. LastMod and the other fields are written as they
// are told; NormalizeDatetime brings a time to UTC. The error is a *FieldError,
// and dst is returned as it was.
func AppendEntry(dst []byte, e *Entry) ([]byte, error) {
	if writable(e.Datetime) && !e.Datetime.IsZero() {
		if longer, ok := e.appendQuick(dst); ok {
			return longer, nil
		}
	}
	if err := e.Validate(); err != nil { // it names the field
		return dst, err
	}
	if err := e.validateDatetime(); err != nil {
		return dst, err
	}
	return e.append(dst), nil
}

// validateDatetime asks for a Datetime that can be written.
func (e *Entry) validateDatetime() error {
	switch {
	case e.Datetime.IsZero():
		return &FieldError{Field: "datetime", Reason: "is missing"}
	case !writable(e.Datetime):
		return &FieldError{Field: "datetime", Reason: "must be between the years 0 and 9999"}
	}
	return nil
}

// writable tells whether four digits can tell the year of t.
func writable(t time.Time) bool {
	const year0, year10000 = -62167219200, 253402300800 // in seconds of Unix
	seconds := t.Unix()
	return year0 <= seconds && seconds < year10000
}

func (e *Entry) append(dst []byte) []byte {
	dst = appendNames(append(dst, "<url>\n"...), e.Loc, e.LastMod)
	dst = append(dst, "<rs:md"...)
	dst = appendAttr(dst, ` change="`, string(e.Change))
	dst = appendTime(dst, ` datetime="`, e.Datetime)
	dst = e.appendContent(dst)
	dst = append(dst, "/>\n"...)
	for i := range e.Links {
		dst = appendLink(dst, &e.Links[i])
	}
	return append(dst, "</url>\n"...)
}

// appendNames appends loc and lastmod, as far as there are any.
func appendNames(dst []byte, loc, lastMod string) []byte {
	dst = appendElement(dst, "loc", loc)
	return appendElement(dst, "lastmod", lastMod)
}

func appendElement(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst = append(append(append(dst, '<'), name...), '>')
	dst = appendEscaped(dst, text)
	return append(append(append(dst, "</"...), name...), ">\n"...)
}

// appendContent appends what rs:md says of a representation.
func (e *Entry) appendContent(dst []byte) []byte {
	dst = appendAttr(dst, ` hash="`, e.Hash)
	dst = appendAttr(dst, ` length="`, e.Length)
	dst = appendAttr(dst, ` type="`, e.Type)
	dst = appendAttr(dst, ` encoding="`, e.Encoding)
	return appendAttr(dst, ` path="`, e.Path)
}

// appendTime appends an attribute that is a time, whose year is writable; open is
// as with appendAttr, and the zero time is left out.
func appendTime(dst []byte, open string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(appendDatetime(append(dst, open...), t), '"')
}

func appendLink(dst []byte, l *Link) []byte {
	dst = append(dst, "<rs:ln"...)
	dst = appendAttr(dst, ` rel="`, l.Rel)
	dst = appendAttr(dst, ` href="`, l.Href)
	dst = appendAttr(dst, ` hash="`, l.Hash)
	dst = appendAttr(dst, ` length="`, l.Length)
	dst = appendAttr(dst, ` type="`, l.Type)
	dst = appendAttr(dst, ` encoding="`, l.Encoding)
	dst = appendAttr(dst, ` modified="`, l.Modified)
	dst = appendAttr(dst, ` path="`, l.Path)
	dst = appendAttr(dst, ` pri="`, l.Pri)
	return append(dst, "/>\n"...)
}

// appendAttr appends an attribute that has a value; open is ` name="`.
func appendAttr(dst []byte, open, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, open...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

// maxEscape is the length of the longest escape.
const maxEscape = len("&quot;")

// escaped has a bit for each character that escapeOf knows: all are below 64.
const escaped uint64 = 1<<'&' | 1<<'<' | 1<<'>' | 1<<'"' | 1<<'\t' | 1<<'\n' | 1<<'\r'

// appendEscaped appends s so that it reads back the same from text and from an
// attribute: white space other than a space would be changed in an attribute
// (XML 1.0 §3.3.3), and a carriage return everywhere (§2.11).
func appendEscaped(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) {
			n := untilEscape(load8(s, i))
			if i += n; n < 8 {
				break
			}
		}
		if i == len(s) {
			break
		}
		if c := s[i]; c < 64 && escaped>>c&1 == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, escapeOf(c)...)
			from = i + 1
		}
	}
	return append(dst, s[from:]...)
}

func escapeOf(c byte) string {
	switch c {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '"':
		return "&quot;"
	case '\t':
		return "&#9;"
	case '\n':
		return "&#10;"
	}
	return "&#13;"
}

// AppendNotificationHead appends everything of a change notification that stands
// before its entries. up is the URI of the Capability List, empty for none (CN
// §3). The error is ErrInterval or a *FieldError for "up", and dst is returned
// as it was.
func AppendNotificationHead(dst []byte, iv Interval, up string) ([]byte, error) {
	from, until := iv.From.Truncate(time.Microsecond), iv.Until.Truncate(time.Microsecond)
	if from.IsZero() || !from.Before(until) || !writable(from) || !writable(until) {
		return dst, fmt.Errorf("%w: from %v until %v", ErrInterval, iv.From, iv.Until)
	}
	if reason := check(up, false, webURIRule); reason != "" {
		return dst, &FieldError{Field: "up", Reason: reason}
	}
	dst = append(dst, documentHead...)
	if up != "" {
		dst = appendLink(dst, &Link{Rel: "up", Href: up})
	}
	dst = append(dst, `<rs:md capability="`+ChangeNotification+`" from="`...)
	dst = from.UTC().AppendFormat(dst, datetimeFormat)
	dst = append(dst, `" until="`...)
	dst = until.UTC().AppendFormat(dst, datetimeFormat)
	return append(dst, "\"/>\n"...), nil
}

// AppendNotificationTail appends everything of a change notification that stands
// after its entries.
func AppendNotificationTail(dst []byte) []byte { return append(dst, documentTail...) }

// NotificationOverhead returns how many bytes a change notification has besides
// its entries: a batch of entries fits if their sizes and this are not over
// MaxBytes. It is 0 where AppendNotificationHead would fail.
func NotificationOverhead(iv Interval, up string) int {
	head, err := AppendNotificationHead(nil, iv, up)
	if err != nil {
		return 0
	}
	return len(head) + len(documentTail)
}
