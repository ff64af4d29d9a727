package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Two readers may see the end of a request in different places. Such a request carries another in it,
// or behind it: the mark. If the hub ever answers the mark, a proxy that sees the end elsewhere can be
// made to take that answer for another client's.
const (
	mark = "GET /smuggled HTTP/1.1\r\nHost: hub\r\n\r\n"
	// markChunk is the mark as a chunk, and the end of the body.
	markChunk = "26\r\n" + mark + "\r\n0\r\n\r\n"
	post      = "POST /websub/ HTTP/1.1\r\nHost: hub\r\nContent-Type: application/x-www-form-urlencoded\r\n"
)

// smuggling has requests and the hub's answers to them. The hub itself also answers 400 to an empty
// form; the body shows which answer is ours.
var smuggling = []struct {
	name, sent string
	status     string // of the only answer
	ours       bool   // it comes from the hub, not from its server
}{
	{"length and chunks", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"chunks and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 43\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"chunks, the mark among them", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + markChunk + mark, "400", true},
	{"chunks alone", post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"two lengths", post + "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"a list of lengths", post + "Content-Length: 0, 38\r\n\r\n" + mark, "400", false},
	{"a length twice in a list", post + "Content-Length: 38, 38\r\n\r\n" + mark, "400", false},
	{"a length with a plus", post + "Content-Length: +38\r\n\r\n" + mark, "400", false},
	{"a length with a minus", post + "Content-Length: -0\r\n\r\n" + mark, "400", false},
	{"a hexadecimal length", post + "Content-Length: 0x26\r\n\r\n" + mark, "400", false},
	{"a length with an underscore", post + "Content-Length: 3_8\r\n\r\n" + mark, "400", false},
	{"a length in other digits", post + "Content-Length: ٣٨\r\n\r\n" + mark, "400", false},
	{"a length beyond 64 bits", post + "Content-Length: 18446744073709551616\r\n\r\n" + mark, "400", false},
	{"an empty length", post + "Content-Length: \r\n\r\n" + mark, "400", false},
	{"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + mark, "501", false},
	{"chunked, identity", post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + mark, "501", false},
	{"identity", post + "Transfer-Encoding: identity\r\n\r\n" + mark, "501", false},
	{"xchunked", post + "Transfer-Encoding: xchunked\r\nContent-Length: 38\r\n\r\n" + mark, "501", false},
	{"gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + mark, "501", false},
	{"chunked behind a tab", post + "Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"chunked behind a vertical tab", post + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"chunked in quotes", post + "Transfer-Encoding: \"chunked\"\r\nContent-Length: 38\r\n\r\n" + mark, "501", false},
	{"a space before the colon", post + "Transfer-Encoding : chunked\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"a space in the length's name", post + "Content Length: 38\r\n\r\n" + mark, "400", false},
	{"folded chunked", post + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"a first field that is folded", "POST /websub/ HTTP/1.1\r\n Host: hub\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"a bare CR", post + "X: a\rTransfer-Encoding: chunked\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"a NUL", post + "X: a\x00b\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"a NUL in a name", post + "Transfer-Encoding\x00: chunked\r\nContent-Length: 38\r\n\r\n" + mark, "400", false},
	{"an underscore for the hyphen", post + "Content_Length: 38\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"bare LF in the header", strings.ReplaceAll(post, "\r", "") + "Transfer-Encoding: chunked\nContent-Length: 4\n\n0\r\n\r\n" + mark, "400", true},
	{"a chunk's size in C", post + "Transfer-Encoding: chunked\r\n\r\n0x26\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"a chunk's size with a plus", post + "Transfer-Encoding: chunked\r\n\r\n+26\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"a chunk's size with a minus", post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"a chunk's size beyond 64 bits", post + "Transfer-Encoding: chunked\r\n\r\n10000000000000026\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"no size of a chunk", post + "Transfer-Encoding: chunked\r\n\r\n\r\n" + mark + "0\r\n\r\n" + mark, "400", true},
	{"an extension of a chunk", post + "Transfer-Encoding: chunked\r\n\r\n26;a=\"b\"\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"an extension that ends by LF", post + "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n26\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"a chunk that ends by LF", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\n26\r\n" + mark + "\r\n0\r\n\r\n" + mark, "400", true},
	{"a chunk longer than its size", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n" + mark, "400", true},
	{"a trailer", post + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: 1\r\n\r\n" + mark, "400", true},
	{"trailers that say where it ends", post + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 38\r\nHost: other\r\n\r\n" + mark, "400", false},
	{"chunks in HTTP/1.0", strings.Replace(post, "1.1", "1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + markChunk + mark, "400", true},
	{"chunks and length in HTTP/1.0", strings.Replace(post, "1.1", "1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + mark, "400", true},
	{"no Host", "GET /websub/ HTTP/1.1\r\n\r\n" + mark, "400", false},
	{"two Hosts", "GET /websub/ HTTP/1.1\r\nHost: hub\r\nHost: other\r\n\r\n" + mark, "400", false},
	{"a Host that is none", "GET /websub/ HTTP/1.1\r\nHost: hub/../x y\r\n\r\n" + mark, "400", false},
	{"HTTP/0.9", "GET /websub/\r\n\r\n" + mark, "400", false},
	{"HTTP/2.0 by name", "GET /websub/ HTTP/2.0\r\nHost: hub\r\n\r\n" + mark, "505", false},
	{"HTTP/1.11", "GET /websub/ HTTP/1.11\r\nHost: hub\r\n\r\n" + mark, "400", false},
	{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + mark, "404", true},
	{"two spaces in the first line", "GET  /websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, "400", false},
	{"a tab in the first line", "GET\t/websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, "400", false},
	{"an address with a line in it", "GET /websub/\rX HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, "400", false},
	{"an expectation that is none", post + "Expect: 200-ok\r\nContent-Length: 38\r\n\r\n" + mark, "417", false},
}

// The hub answers once, closes, and never answers the mark.
func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	p := startHub(t, "--listen", "127.0.0.1:0", "--host", "hub", "--host", "other", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	for _, test := range smuggling {
		t.Run(test.name, func(t *testing.T) {
			text := exchange(t, p.ready["listen"], test.sent)
			if got := answers(text); len(got) == 0 || got[len(got)-1] != test.status || len(got) > 1 {
				t.Errorf("the answers are %v; want %s alone\n%s", got, test.status, text)
			}
			if ours := strings.Contains(text, "X-Content-Type-Options"); ours != test.ours {
				t.Errorf("it comes from the hub: %t\n%s", ours, text)
			}
		})
	}
}

// A request that two readers understand in the same way may be followed by another, which is answered
// as such.
func TestRequestsThatAreClear(t *testing.T) {
	t.Parallel()
	p := startHub(t, "--listen", "127.0.0.1:0", "--host", "hub", "--host", "other", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	for name, test := range map[string]struct {
		sent string
		want []string
	}{
		"a length":                     {post + "Content-Length: 38\r\n\r\n" + mark + mark, []string{"400", "404"}},
		"the same length twice":        {post + "Content-Length: 38\r\nContent-Length: 38\r\n\r\n" + mark + mark, []string{"400", "404"}},
		"no body":                      {"GET /websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, []string{"200", "404"}},
		"an empty line before":         {"\r\nGET /websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, []string{"400"}},
		"a method in small letters":    {"get /websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, []string{"405", "404"}},
		"an address with another Host": {"GET http://other/websub/ HTTP/1.1\r\nHost: hub\r\n\r\n" + mark, []string{"200", "404"}},
		// RFC 9112 §5.2: it is part of the field before.
		"a folded field": {post + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 38\r\n\r\n" + mark + mark, []string{"400", "404"}},
		"to a proxy":     {"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n" + mark, []string{"404", "404"}},
		"to HTTP/2":      {"GET /websub/ HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + mark, []string{"200", "404"}},
		"to a WebSocket": {
			"GET /websub/ HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + mark,
			[]string{"200", "404"},
		},
		"to continue": {post + "Expect: 100-continue\r\nContent-Length: 38\r\n\r\n" + mark + mark, []string{"100", "400", "404"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := exchange(t, p.ready["listen"], test.sent)
			if got := answers(text); strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("the answers are %v; want %v\n%s", got, test.want, text)
			}
		})
	}
}

// exchange sends the text, says that no more comes, and returns all that is answered until
// the connection is closed.
func exchange(t *testing.T, address, sent string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") { // bytes were left unread
		t.Fatal(err)
	}
	return string(text)
}

// answers are the statuses of the answers in the text.
func answers(text string) (all []string) {
	for line := range strings.SplitSeq(text, "\n") {
		// A body may have no line end behind it.
		if _, rest, ok := strings.Cut(line, "HTTP/1."); ok && len(rest) > 5 && http.StatusText(number(rest[2:5])) != "" {
			all = append(all, rest[2:5])
		}
	}
	return all
}

func number(text string) (n int) {
	for _, c := range text {
		n = n*10 + int(c-'0')
	}
	return n
}
