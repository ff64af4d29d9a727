package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

var _ http.RoundTripper = (*Client)(nil)

// RoundTrip sends a GET or a HEAD over the connections that Post uses, byte for byte
// as a net/http Transport without compression sends it, and returns the final answer.
//
// The context of the request alone bounds it, the reading of the body included:
// Config.Timeout does not. An error that is due to the end of the context is its
// cause. The caller must close the body, and may do so before its end: a small rest is
// read, so that the connection can be used again, a large one closes the connection.
// One goroutine at a time may use the body.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := written(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := c.pool
	t := &roundTrip{pool: p, req: req, out: out, x: p.exchanges.Get().(*exchange)}
	t.x.untimed = true
	cn, err := t.admit(ctx)
	for repeated := false; err == nil; {
		if err = t.ask(cn); err == nil {
			return t.answered(cn)
		}
		stale := err == errStale
		if !stale && (!cn.used || t.heard || repeated) {
			break
		}
		repeated = repeated || !stale
		cn, err = p.another(ctx, t.x, t.host, cn, !repeated)
	}
	return nil, t.conclude(cn, err)
}

// written returns the bytes of a request, or gives the reason why it is not one for RoundTrip.
func written(req *http.Request) ([]byte, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	switch {
	case req.Method != "" && req.Method != http.MethodGet && req.Method != http.MethodHead:
		return nil, fmt.Errorf("h1: RoundTrip sends GET and HEAD only, not %q", req.Method)
	case req.Body != nil && req.Body != http.NoBody:
		return nil, errors.New("h1: RoundTrip sends no bodies")
	case req.URL == nil || req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return nil, errors.New("h1: the URL of the request must begin with http:// or https://")
	}
	for name, values := range req.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("h1: invalid header field name %q", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("h1: invalid value of the header field %s", name)
			}
		}
	}
	var out bytes.Buffer
	err := req.Write(&out)
	return out.Bytes(), err
}

// roundTrip is a request of RoundTrip, and the body of its answer until that ends.
type roundTrip struct {
	pool *pool
	req  *http.Request
	out  []byte
	host *host
	conn *conn       // it carries the answer
	stop func() bool // ends the watch on the context

	src      oddReader
	in       *bufio.Reader
	heard    bool // a byte of the answer came
	writeErr error
	resp     *http.Response
	body     io.Reader // as net/http decodes it
	read     int64     // bytes of it
	err      error     // what a Read returns after the end

	x *exchange // nil after the end. The owner of the roundTrip changes it, under pool.mu.
}

// admit gets the round trip its first connection.
func (t *roundTrip) admit(ctx context.Context) (cn *conn, err error) {
	p := t.pool
	var w *waiter
	t.host, cn, w, err = p.admit(ctx, t.x, t.req.URL.Scheme == "https", t.req.URL.Host)
	t.stop = context.AfterFunc(ctx, t.cancel)
	if err == nil && cn == nil {
		cn, err = p.await(ctx, t.x, t.host, w)
	}
	return cn, err
}

// cancel breaks the round trip off, as its context has ended.
func (t *roundTrip) cancel() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.x != nil {
		p.clock.breakOff(t.x, errCancelled)
	}
}

// conclude ends the round trip: its connection returns to the pool if x.keep says so. It
// returns the error for the caller.
func (t *roundTrip) conclude(cn *conn, err error) error {
	p, x := t.pool, t.x
	t.stop()
	p.mu.Lock()
	t.x = nil
	p.mu.Unlock()
	return p.conclude(t.req.Context(), x, t.host, cn, err)
}

// ask sends the request over a connection and reads the head of the final answer.
func (t *roundTrip) ask(cn *conn) error {
	x := t.x
	x.keep, x.limited = false, false
	if x.look && !x.quiet(cn) {
		return errStale
	}
	t.src = oddReader{nc: cn.nc, left: t.pool.cfg.MaxHeaderBytes}
	t.in = bufio.NewReader(&t.src)
	_, t.writeErr = cn.nc.Write(t.out)
	// Also after a failure to write: the server may have answered and closed at once.
	if _, err := t.in.Peek(1); err != nil {
		return err
	}
	var err error
	t.heard = true
	t.resp, err = t.src.readFinal(t.in, t.req)
	return err
}

// answered returns the answer, whose body is still to be read.
func (t *roundTrip) answered(cn *conn) (*http.Response, error) {
	t.conn = cn
	if t.resp.Body == http.NoBody {
		return t.resp, t.finish(io.EOF)
	}
	t.body = t.resp.Body
	t.resp.Body = t
	return t.resp, nil
}

// finish ends a round trip that has its answer, as reading the body came to err. It
// returns nil for an io.EOF.
func (t *roundTrip) finish(err error) error {
	if err == io.EOF {
		t.x.keep = !t.req.Close && t.writeErr == nil && t.x.reusable(t.conn, t.resp, &t.src, t.in)
		err = nil
	}
	return t.conclude(t.conn, err)
}

// Read reads the body of the answer.
func (t *roundTrip) Read(b []byte) (int, error) {
	if t.x == nil {
		return 0, t.err
	}
	n, err := t.body.Read(b)
	t.read += int64(n)
	if err != nil {
		if t.err = t.finish(err); t.err == nil {
			t.err = io.EOF
		}
		err = t.err
	}
	return n, err
}

// Close ends the body, wherever its reader stopped.
func (t *roundTrip) Close() error {
	if t.x != nil {
		_ = t.finish(t.drain())
	}
	t.err = http.ErrBodyReadAfterClose
	return nil
}

// errUnread: the rest of the body is too long to be read for the sake of the connection.
var errUnread = errors.New("the rest of the body was not read")

// drain reads the rest of the body within bounds and returns io.EOF if it ended.
func (t *roundTrip) drain() error {
	if t.resp.Close || t.resp.ContentLength-t.read > drainBytes ||
		!t.x.limit(t.conn.nc.SetReadDeadline, drainTime) {
		return errUnread
	}
	_, err := io.CopyN(io.Discard, t.body, drainBytes+1)
	return err
}
