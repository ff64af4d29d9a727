package h1

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
)

// maxInterim is how many interim answers (1xx) a server may send first.
const maxInterim = 5

var errInterim = errors.New("too many interim answers")

// posted is the request that answers are to.
var posted = &http.Request{Method: http.MethodPost}

// readOdd reads an answer by way of net/http: what of it was read already, and the
// rest from the connection.
func (x *exchange) readOdd(cn *conn) error {
	src := &oddReader{have: x.in[:x.n], nc: cn.nc, left: x.client.cfg.MaxHeaderBytes}
	buf := bufio.NewReader(src)
	resp, err := src.readFinal(buf, posted)
	if err != nil {
		return err
	}
	x.answer = Answer{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
	x.keep = x.drainOdd(cn, resp) && x.writeErr == nil && x.reusable(cn, resp, src, buf)
	return nil
}

// reusable reports whether the connection of a complete answer may carry another request.
func (x *exchange) reusable(cn *conn, resp *http.Response, src *oddReader, buf *bufio.Reader) bool {
	// Whatever is buffered came unasked.
	return !resp.Close && resp.ProtoAtLeast(1, 1) && resp.StatusCode >= 200 &&
		buf.Buffered() == 0 && len(src.have) == 0 && x.stillQuiet(cn)
}

// drainOdd reads the body within bounds and tells whether it ended.
func (x *exchange) drainOdd(cn *conn, resp *http.Response) bool {
	if resp.ContentLength == 0 {
		return true
	}
	if !x.limit(cn.nc.SetReadDeadline, drainTime) {
		return false
	}
	_, err := io.CopyN(io.Discard, resp.Body, drainBytes+1)
	// The body is not closed: that would read it to its end.
	return err == io.EOF
}

// oddReader reads what was read before, then on from the connection, and of heads
// not more than is left to them.
type oddReader struct {
	have []byte
	nc   net.Conn
	left int64
}

func (r *oddReader) Read(b []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, ErrHeaderTooLarge
	}
	if int64(len(b)) > r.left {
		b = b[:r.left]
	}
	if len(r.have) > 0 {
		n = copy(b, r.have)
		r.have = r.have[n:]
	} else {
		n, err = r.nc.Read(b)
	}
	r.left -= int64(n)
	return n, err
}

// readFinal reads the head of the final answer. What follows it has no bound here.
func (r *oddReader) readFinal(buf *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(buf, req)
		switch {
		case err != nil && r.left <= 0:
			return nil, ErrHeaderTooLarge
		case err != nil:
			return nil, err
		case resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols:
			r.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errInterim
}
