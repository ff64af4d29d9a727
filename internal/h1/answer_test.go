package h1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"carillon/internal/h1"
)

// The outcome of each kind of answer, and whether its connection is used again.
func TestAnswers(t *testing.T) {
	long := "X-Long: " + strings.Repeat("x", 5<<10) + "\r\n"
	for name, c := range map[string]struct {
		answer string
		status int
		kept   bool
	}{
		"no content":                  {ok204, 204, true},
		"a body":                      {ok200, 200, true},
		"an empty body":               {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, true},
		"no reason":                   {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, true},
		"a body of 10 KB":             {"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("b", 10<<10), 200, true},
		"a body of 20 KB":             {"HTTP/1.1 200 OK\r\nContent-Length: 20480\r\n\r\n" + strings.Repeat("b", 20<<10), 200, false},
		"chunked":                     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, true},
		"chunked with a trailer":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n", 200, true},
		"chunked and a length":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 200, true},
		"chunked and large":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5000\r\n" + strings.Repeat("b", 0x5000) + "\r\n0\r\n\r\n", 200, false},
		"a long head":                 {"HTTP/1.1 200 OK\r\n" + long + "Content-Length: 0\r\n\r\n", 200, true},
		"continue first":              {"HTTP/1.1 100 Continue\r\n\r\n" + ok204, 204, true},
		"hints first":                 {"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok200, 200, true},
		"the same length twice":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, true},
		"a continued line":            {"HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok", 200, true},
		"lines without CR":            {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, true},
		"close":                       {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, false},
		"close in a list":             {"HTTP/1.1 204 OK\r\nconnection: x,  CLOSE\r\n\r\n", 204, false},
		"close in the second":         {"HTTP/1.1 204 OK\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", 204, false},
		"keep-alive":                  {"HTTP/1.1 204 OK\r\nConnection: keep-alive\r\n\r\n", 204, true},
		"HTTP/1.0":                    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, false},
		"HTTP/1.0 to be kept":         {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, false},
		"no length with content":      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, true},
		"more than its length":        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok", 200, false},
		"a body where none may be":    {"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", 204, false},
		"two answers":                 {ok204 + ok200, 204, false},
		"two answers, the first long": {"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("b", 10<<10) + ok204, 200, false},
		"two answers, chunked":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + ok200, 200, false},
		"two final after an interim":  {"HTTP/1.1 100 Continue\r\n\r\n" + ok204 + ok200, 204, false},
		"switching":                   {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 101, false},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				s := w.serve(t, answering(c.answer))
				client := newClient(t, w.cfg)
				equal(t, "status", s.status(t, client, "one"), c.status)
				equal(t, "idle", client.Stats().Idle == 1, c.kept)
				equal(t, "status of the second", s.status(t, client, "two"), c.status)
				equal(t, "used again", s.connections() == 1, c.kept)
			})
		})
	}
}

// Missing and unreadable answers.
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   error // nil: another
	}{
		"nothing":              {"", io.EOF},
		"half a line":          {"HTTP/1.1 20", nil},
		"half a head":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", io.ErrUnexpectedEOF},
		"another protocol":     {"SSH-2.0-OpenSSH\r\n\r\n", nil},
		"no colon":             {"HTTP/1.1 200 OK\r\nbroken\r\n\r\n", nil},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", nil},
		"a negative length":    {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", nil},
		"a length with a sign": {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", nil},
		"an unknown encoding":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", nil},
		"only interim ones":    {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 6) + ok204, nil},
		"a head without end":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20<<10), h1.ErrHeaderTooLarge},
		"a line without end":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 128<<10), h1.ErrHeaderTooLarge},
		"interim without end": {strings.Repeat(
			"HTTP/1.1 100 Continue\r\nX: "+strings.Repeat("y", 30<<10)+"\r\n\r\n", 4,
		) + ok204, h1.ErrHeaderTooLarge},
		"zeros":                 {strings.Repeat("\x00", 100), nil},
		"HTTP/2":                {"HTTP/2.0 200 OK\r\n", nil},
		"a control in a header": {"HTTP/1.1 200 OK\r\nX: a\x01\r\nContent-Length: 0\r\n\r\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				s := w.serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
					take(r)
					_, _ = io.WriteString(conn, c.answer)
				})
				client := newClient(t, w.cfg)
				a, err := s.post(t.Context(), t, client, "one")
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("got %v, %v; want %v", a, err, c.want)
				}
				equal(t, "answer", a, h1.Answer{})
				equal(t, "connections", s.connections(), 1)
				equal(t, "left", held(client), h1.Stats{})
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 503 Busy\r\nRetry-After:  120 \r\nContent-Length: 0\r\n\r\n":                         "120",
		"HTTP/1.1 503 Busy\r\nretry-after: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n":           "1",
		"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n0\r\n\r\n":           "7",
		"HTTP/1.1 503 Busy\r\nRetry-After: Fri, 01 Jan 2100 00:00:00 GMT\r\nConnection: close\r\n\r\n": "Fri, 01 Jan 2100 00:00:00 GMT",
	} {
		ways(t, func(t *testing.T, w way) {
			s := w.serve(t, answering(answer))
			a, err := s.post(t.Context(), t, newClient(t, w.cfg), "")
			if err != nil || a != (h1.Answer{Status: 503, RetryAfter: want}) {
				t.Errorf("got %+v, %v; want %q", a, err, want)
			}
		})
	}
}

// FuzzParse: http.ReadResponse reads each answer that the fast parser takes in the same way; and the
// parser decides as early as there is something to decide.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		ok204, ok200, ok204 + ok200,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: a, b ,close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nretry-after: 5\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200\r\n Content-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\t0 \t\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		simple, more, a, closes, length, end := h1.ParseSimple(b)
		// Byte by byte it is the same, and no line is read twice: a head that drips costs
		// no more than another.
		dripped, status, closesDripped, lengthDripped, endDripped, parsed := h1.ParseDripped(bytes.Clone(b))
		if dripped != simple || simple && (status != a.Status || closesDripped != closes || lengthDripped != length || endDripped != end || parsed != end) {
			t.Fatalf("%q: dripping, %v %d %v %d %d at %d", b, dripped, status, closesDripped, lengthDripped, endDripped, parsed)
		}
		buf := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		resp, err := http.ReadResponse(buf, &http.Request{Method: http.MethodPost})
		if more && (bytes.Contains(b, []byte("\n\n")) || bytes.Contains(b, []byte("\r\n\r\n"))) {
			t.Fatalf("more is wanted of a whole head: %q", b)
		}
		if !simple {
			return
		}
		if err != nil {
			t.Fatalf("%q is taken, but %v", b, err)
		}
		if a.Status != resp.StatusCode || int64(length) != resp.ContentLength || a.RetryAfter != strings.TrimSpace(resp.Header.Get("Retry-After")) {
			t.Fatalf("%q: %+v of %d, want %+v", b, a, length, resp)
		}
		// More connections are closed than must be, never less.
		if !closes && (resp.Close || !resp.ProtoAtLeast(1, 1)) {
			t.Fatalf("%q: its connection would be kept", b)
		}
		if rest := len(b) - buf.Buffered(); rest != end {
			t.Fatalf("%q: the body begins at %d, want %d", b, end, rest)
		}
		for i := range end {
			if simple, more, _, _, _, _ := h1.ParseSimple(b[:i]); simple || !more {
				t.Fatalf("%q: decided at %d of %d", b, i, end)
			}
		}
	})
}
