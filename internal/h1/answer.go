package h1

import "bytes"

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
	close      bool   // the server will close the connection, or may
	length     int    // of the body
	end        int    // where the body begins
}

// maxLength is how long a body the fast path counts; its digits fit into an int.
const maxLength = 1 << 30

// parse reads the head of an answer from its beginning. It takes the plainest form
// only: HTTP/1.1 or 1.0, a final status, lines ended by CRLF, at most one
// Content-Length, no Transfer-Encoding. Its opinion must be that of
// http.ReadResponse, wherever it has one (FuzzParse).
func (h *head) parse(b []byte) verdict {
	*h = head{length: -1}
	line, at, v := nextLine(b, 0)
	if v != simple {
		return v
	}
	if !h.statusLine(line) {
		return odd
	}
	for {
		if line, at, v = nextLine(b, at); v != simple {
			return v
		}
		if len(line) == 0 {
			break
		}
		if !h.field(line) {
			return odd
		}
	}
	h.end = at
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

// nextLine cuts the line that begins at an offset, without its CRLF, and tells
// where the next one begins.
func nextLine(b []byte, at int) ([]byte, int, verdict) {
	n := bytes.IndexByte(b[at:], '\n')
	if n < 0 {
		return nil, 0, incomplete
	}
	if n == 0 || b[at+n-1] != '\r' {
		return nil, 0, odd
	}
	return b[at : at+n-1], at + n + 1, simple
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
		if !nameByte[c] {
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
		if isName(name, "retry-after") && h.retryAfter == nil {
			h.retryAfter = bytes.Trim(value, " \t")
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
	if h.length >= 0 || len(value) == 0 || len(value) > 10 {
		return false // twice, none or absurd
	}
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int64(c-'0')
	}
	h.length = int(min(n, maxLength))
	return n <= maxLength
}

// isName compares with a name in lower case.
func isName(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// nameByte tells the bytes of field names (RFC 9110 §5.6.2).
var nameByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()
