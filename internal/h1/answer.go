package h1

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// verdict is what the fast parser makes of the bytes so far.
type verdict uint8

const (
	incomplete verdict = iota // more is needed to tell
	simple                    // an answer that holds no surprise
	odd                       // for http.ReadResponse to judge
)

// head is the head of a simple answer.
type head struct {
	status     int
	retryAfter []byte // a piece of what was parsed
	told       bool   // there was a Retry-After, if an empty one: the first counts
	close      bool   // the server will close the connection, or may
	length     int    // of the body
	end        int    // where the body begins
	at         int    // where the line begins that is not whole yet
	seen       int    // up to where there is no end of it
}

func newHead() head { return head{length: -1} }

// maxLength is how long a body the fast path counts; its digits fit into an int.
const maxLength = 1 << 30

// parse reads the head of an answer, of which b is what there is: when it is
// incomplete, it goes on from there with more. It takes the plainest form only:
// HTTP/1.1 or 1.0, a final status, lines ended by CRLF, at most one Content-Length,
// no Transfer-Encoding. Its opinion must be that of http.ReadResponse, wherever it
// has one (FuzzParse).
func (h *head) parse(b []byte) verdict {
	for {
		first := h.at == 0
		line, v := h.nextLine(b)
		switch {
		case v != simple:
			return v
		case first:
			if !h.statusLine(line) {
				return odd
			}
		case len(line) == 0:
			return h.whole()
		case !h.field(line):
			return odd
		}
	}
}

// whole judges a head that has ended.
func (h *head) whole() verdict {
	h.end = h.at
	if h.status == 204 || h.status == 304 {
		if h.length > 0 {
			return odd
		}
		h.length = 0
	}
	if h.length < 0 {
		return odd // it ends with the connection
	}
	return simple
}

// nextLine cuts the next line, without its CRLF.
func (h *head) nextLine(b []byte) ([]byte, verdict) {
	n := bytes.IndexByte(b[h.seen:], '\n')
	if n < 0 {
		h.seen = len(b)
		return nil, incomplete
	}
	begin, end := h.at, h.seen+n
	h.at, h.seen = end+1, end+1
	if end == begin || b[end-1] != '\r' {
		return nil, odd
	}
	return b[begin : end-1], simple
}

// statusLine reads "HTTP/1.1 200 OK".
func (h *head) statusLine(line []byte) bool {
	const proto = "HTTP/1."
	if len(line) < len(proto)+5 || string(line[:len(proto)]) != proto || line[8] != ' ' {
		return false
	}
	switch line[7] {
	case '0':
		h.close = true
	case '1':
	default:
		return false
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false
		}
		h.status = h.status*10 + int(c-'0')
	}
	// Nothing below is final.
	return h.status >= 200 && (len(line) == 12 || line[12] == ' ')
}

// field reads a line of the header. Only three names matter; one makes it odd.
func (h *head) field(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return false
	}
	for _, c := range line[:colon] {
		if !httpguts.IsTokenRune(rune(c)) {
			return false // a continued line, too
		}
	}
	for _, c := range line[colon+1:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	value := line[colon+1:]
	switch name := line[:colon]; len(name) {
	case len("Connection"):
		if isName(name, "connection") {
			h.connection(value)
		}
	case len("Retry-After"):
		if isName(name, "retry-after") && !h.told {
			h.retryAfter, h.told = bytes.Trim(value, " \t"), true
		}
	case len("Content-Length"):
		if isName(name, "content-length") {
			return h.contentLength(bytes.Trim(value, " \t"))
		}
	case len("Transfer-Encoding"):
		return !isName(name, "transfer-encoding")
	}
	return true
}

func (h *head) connection(value []byte) {
	for len(value) > 0 {
		var token []byte
		token, value, _ = bytes.Cut(value, []byte(","))
		if isName(bytes.Trim(token, " \t"), "close") {
			h.close = true
		}
	}
}

func (h *head) contentLength(value []byte) bool {
	if h.length >= 0 || len(value) > 10 {
		return false // twice, or absurd
	}
	n, err := strconv.ParseUint(string(value), 10, 31)
	h.length = int(min(n, maxLength))
	return err == nil && n <= maxLength
}

// isName compares with a name in lower case.
func isName(b []byte, lower string) bool {
	return len(b) == len(lower) && strings.EqualFold(string(b), lower)
}
