package h1

import (
	"fmt"
	"net/textproto"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

// Message is a body with the header fields that all its recipients get, made once
// for all of them.
type Message struct {
	lines []byte // each ended by CRLF
	body  []byte
}

// Field is a field of a header.
type Field struct{ Name, Value string }

// NewMessage makes a Message. The body is kept, not copied, and must not change. It refuses fields
// that no header can hold: a line end in one would begin another.
func NewMessage(body []byte, fields ...Field) (*Message, error) {
	m := &Message{body: body}
	for _, f := range fields {
		if !httpguts.ValidHeaderFieldName(f.Name) {
			return nil, fmt.Errorf("invalid header field name %q", f.Name)
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			// The value may be a secret, and is a stranger's anyway.
			return nil, fmt.Errorf("invalid value of the header field %s", f.Name)
		}
		m.lines = append(m.lines, f.Name...)
		m.lines = append(m.lines, ": "...)
		m.lines = append(m.lines, textproto.TrimString(f.Value)...)
		m.lines = append(m.lines, "\r\n"...)
	}
	m.lines = appendLength(m.lines, len(body))
	return m, nil
}

// appendLength appends the Content-Length line.
func appendLength(b []byte, n int) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

// Request is a POST. The Message is shared with others and never changed.
type Request struct {
	// Secure: https.
	Secure bool
	// Authority is the host, with a port if it has one, as the URL spells it.
	Authority string
	// Target stands in the request line as it is: it must not hold controls,
	// spaces or what is not ASCII.
	Target string
	// Message is the body and the fields that all its recipients get.
	Message *Message
	// Lines are fields of this request alone, each ended by CRLF, nil for none. They
	// are sent as they are.
	Lines []byte
}

// Answer is what is of interest in a final answer.
type Answer struct {
	Status int
	// RetryAfter is the header's first value, empty without one.
	RetryAfter string
}
