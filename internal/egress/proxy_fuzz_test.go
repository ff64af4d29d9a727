package egress_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"carillon/internal/egress"
)

// said is a connection on which the peer has said everything. It counts what is read.
type said struct {
	net.Conn // nil: only Read is called
	rest     *strings.Reader
	read     int
}

func (s *said) Read(p []byte) (int, error) {
	n, err := s.rest.Read(p)
	s.read += n
	return n, err
}

// FuzzProxyAnswer: of whatever a proxy answers to CONNECT, only a 2xx with nothing behind it
// is a connection; no more than its bound is read; and nothing of it is in the error.
func FuzzProxyAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 Connection established\r\n\r\n")
	f.Add("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"secret\"\r\n\r\n")
	dialer, err := egress.New(egress.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		conn := &said{rest: strings.NewReader(text)}
		err := egress.ProxyAnswer(dialer, conn)
		resp, unread := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: http.MethodConnect})
		if err == nil && (unread != nil || resp.StatusCode/100 != 2 || conn.rest.Len() > 0 || !strings.HasSuffix(text, "\n")) {
			t.Errorf("%q is a connection", text)
		}
		if conn.read > 64<<10 {
			t.Errorf("%d bytes were read", conn.read)
		}
		if err != nil && unread == nil && len(resp.Status) > 20 && strings.Contains(err.Error(), resp.Status) {
			t.Errorf("what the proxy says is in the error %v", err)
		}
	})
}
