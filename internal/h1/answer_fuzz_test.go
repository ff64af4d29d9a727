package h1_test

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"carillon/internal/h1"
)

// mute is a connection on which the peer has said all that it will say, in two pieces,
// and stays. It counts what is read.
type mute struct {
	net.Conn // nil: whatever is not below must not be called
	pieces   []string
	read     int
}

func (m *mute) Read(p []byte) (int, error) {
	for len(m.pieces) > 0 && m.pieces[0] == "" {
		m.pieces = m.pieces[1:]
	}
	if len(m.pieces) == 0 {
		return 0, os.ErrDeadlineExceeded // what it would come to
	}
	n := copy(p, m.pieces[0])
	m.pieces[0] = m.pieces[0][n:]
	m.read += n
	return n, nil
}
func (m *mute) Write(p []byte) (int, error)      { return len(p), nil }
func (m *mute) Close() error                     { return nil }
func (m *mute) SetDeadline(time.Time) error      { return nil }
func (m *mute) SetReadDeadline(time.Time) error  { return nil }
func (m *mute) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswer: whatever a callback answers, and however it comes in pieces, the client
// makes of it what net/http does, reads no more than its bounds, keeps a connection only
// if nothing was read behind the answer, and uses it again only if nothing came there since.
func FuzzAnswer(f *testing.F) {
	f.Add(ok204, uint(7))
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", uint(60))
	f.Add("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"+ok200, uint(3))
	cfg := config()
	cfg.MaxHeaderBytes = 4 << 10
	f.Fuzz(func(t *testing.T, said string, at uint) {
		at = min(at, uint(len(said)))
		var conns []*mute
		cfg := cfg
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			conns = append(conns, &mute{pieces: []string{said[:at], said[at:]}})
			return conns[len(conns)-1], nil
		}
		client := newClient(t, cfg)
		request := &h1.Request{Authority: "callback.example", Target: "/", Message: message(t, "hello")}
		a, err := client.Post(t.Context(), request)
		conn, kept := conns[0], client.Stats().Idle == 1
		want, rest := reference(said)
		switch {
		case err != nil:
			equal(t, "answer beside an error", a, h1.Answer{})
			if want != nil && len(said) <= int(cfg.MaxHeaderBytes) {
				t.Errorf("%q: %v, and net/http reads %d", said, err, want.StatusCode)
			}
		case want == nil:
			t.Errorf("%q: %+v, and net/http reads nothing", said, a)
		case a.Status != want.StatusCode || a.RetryAfter != strings.Trim(want.Header.Get("Retry-After"), " \t"):
			t.Errorf("%q: %+v, and net/http reads %d, %q", said, a, want.StatusCode, want.Header.Get("Retry-After"))
		}
		if kept && (err != nil || conn.read != len(said)-rest || want.Close) {
			t.Errorf("%q: the connection is kept, with %d of %d bytes read, %d left: %v", said, conn.read, len(said), rest, err)
		}
		if most := int(cfg.MaxHeaderBytes) + 32<<10; conn.read > most {
			t.Errorf("%d bytes were read of %d, want at most %d", conn.read, len(said), most)
		}
		if !kept || rest == 0 {
			return
		}
		if again, err := client.Post(t.Context(), request); len(conns) != 2 || err != nil || again != a {
			t.Errorf("%q: what came unasked is the next answer: %+v, %v, after %d connections", said, again, err, len(conns))
		}
	})
}

// reference reads the final answer as net/http does, or nil, and how much is there
// behind it.
func reference(said string) (final *http.Response, rest int) {
	in := bufio.NewReaderSize(strings.NewReader(said), max(16, len(said)))
	for range 6 {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			return nil, 0
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil || n > 16<<10 {
				return resp, math.MaxInt
			}
			_, _ = in.Peek(1) // so that Buffered reports what there is
			return resp, in.Buffered()
		}
	}
	return nil, 0
}
