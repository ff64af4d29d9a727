// Package fetch asks the servers of strangers for content, with GET and HEAD.
//
//	Client.Do ──▶ RoundTrip ──▶ a redirect? ──▶ Client.Lead ──▶ RoundTrip …
//	                  │
//	                  └──▶ *http.Response: Judge reads its status, Body keeps the limits
//
// A Client bounds what one request costs: redirects, its whole time, and how slowly the response
// may arrive. Every failure is a *Trouble, which says if the host or the resource is its cause.
// Hosts bounds how many requests one host gets, and pauses a host that fails or asks for it. The
// caller bounds the bytes.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxDrain and drainTime bound how much of an unread response is read, and for how long, so that
	// its connection can be used again.
	maxDrain  = 16 << 10
	drainTime = time.Second
)

// errTooLong is the cause with which Timeout ends a request.
var errTooLong = errors.New("it took too long")

// errSwitched is why a response with status 101 is refused.
var errSwitched = errors.New("its server changes to a protocol that it was not asked for (101)")

// Client asks servers. Transport is mandatory; its fields must not change while it is used. Its
// methods may be called by several goroutines.
type Client struct {
	// Transport carries the requests.
	Transport http.RoundTripper
	// Timeout bounds a request, from its beginning to the last byte of its response, redirects
	// among them; 0: the context of the request alone bounds it.
	Timeout time.Duration
	// Window is the time in which the next Least bytes must come; 0: a response may be slow. Least
	// is 1 where it is 0.
	Window time.Duration
	Least  int64
	// Redirects is how many redirects of a GET or HEAD are followed. One more is Refused; with 0 a
	// redirect is a response like any other.
	Redirects int
	// Lead judges a redirect: an error refuses it. It may change to. Addresses other than http and
	// https, and those with a user name, are refused before; nil: everything else is followed.
	Lead func(from, to *url.URL) error
}

// Do makes a request and follows redirects. The Request of the response has the last address.
// Errors of Do and of the response's Body are *Trouble, or the error of the request's context. The
// caller closes the Body, which ends the request.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	b := &body{outer: req.Context(), window: c.Window, least: max(c.Least, 1)}
	ctx, stop := b.outer, context.CancelFunc(func() {})
	if c.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, errTooLong)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b.ctx, b.cancel, b.stop = ctx, cancel, stop
	if c.Window > 0 {
		b.slow = time.AfterFunc(c.Window, func() { cancel(&slowError{b.least, c.Window}) })
	}
	resp, err := c.follow(req.WithContext(ctx))
	if err != nil {
		err = b.trouble(err, Unreachable)
		b.end()
		return nil, err
	}
	b.from, resp.Body = resp.Body, b
	return resp, nil
}

// CloseIdleConnections closes the connections that the Transport keeps for later.
func (c *Client) CloseIdleConnections() {
	if t, keeps := c.Transport.(interface{ CloseIdleConnections() }); keeps {
		t.CloseIdleConnections()
	}
}

func (c *Client) follow(req *http.Request) (*http.Response, error) {
	for n := 0; ; n++ {
		resp, err := RoundTrip(c.Transport, req)
		if err != nil {
			return nil, err
		}
		resp.Request = req
		location := resp.Header.Get("Location")
		if location == "" || c.Redirects == 0 || !redirects(req, resp) {
			return resp, nil
		}
		drain(req.Context(), resp.Body)
		if n == c.Redirects {
			err := fmt.Errorf("%w more than %d times", ErrRedirects, c.Redirects)
			return nil, &Trouble{Kind: Refused, Err: err}
		}
		to, err := c.lead(req.URL, location)
		if err != nil {
			return nil, &Trouble{Kind: Refused, Err: err}
		}
		next := *req
		next.URL, next.Host = to, ""
		req = &next
	}
}

// RoundTrip makes one request. Unlike the transport alone, it refuses a response with status 101:
// its body is the connection, and reading it ends with no context.
func RoundTrip(by http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := by.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.Join(&Trouble{Kind: Refused, Err: errSwitched}, resp.Body.Close())
	}
	return resp, err
}

// lead returns where a redirect leads.
func (c *Client) lead(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(strings.TrimSpace(location))
	if err != nil || !Web(to) {
		return nil, fmt.Errorf("it redirects to %.200q, "+
			"which is no http or https address without a user name", location)
	}
	to.Fragment, to.RawFragment = "", ""
	if c.Lead != nil {
		err = c.Lead(from, to)
	}
	return to, err
}

// Web reports whether u is an absolute http or https address without a user name.
func Web(u *url.URL) bool {
	web := u.Scheme == "http" || u.Scheme == "https"
	return web && u.Hostname() != "" && u.Opaque == "" && u.User == nil
}

// redirects reports whether the response of a GET or HEAD is a redirect.
func redirects(req *http.Request, resp *http.Response) bool {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return false
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// body is the body of a response, with the limits of its request.
type body struct {
	outer, ctx context.Context // of one request
	cancel     context.CancelCauseFunc
	stop       context.CancelFunc
	slow       *time.Timer // nil: it may be slow
	window     time.Duration
	least      int64

	from  io.ReadCloser
	came  int64 // since slow was set
	ended bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.came += int64(n); b.slow != nil && b.came >= b.least {
		b.came = 0
		b.slow.Reset(b.window)
	}
	if err != nil {
		b.ended = true
		if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = b.trouble(err, Broken)
		}
	}
	return n, err
}

// Close ends the request.
func (b *body) Close() error {
	defer b.end()
	if b.ended {
		return b.from.Close()
	}
	b.ended = true
	late := time.AfterFunc(drainTime, func() { b.cancel(nil) })
	defer late.Stop()
	return drain(b.ctx, b.from)
}

func (b *body) end() {
	if b.slow != nil {
		b.slow.Stop()
	}
	b.cancel(nil)
	b.stop()
}

// trouble gives the reason why a request failed; kind is that of a failure without a cause known here.
func (b *body) trouble(err error, kind Kind) error {
	if b.outer.Err() != nil {
		return b.outer.Err() // the caller has given up
	}
	if t, known := errors.AsType[*Trouble](err); known {
		return t
	}
	cause := context.Cause(b.ctx)
	if slow, is := errors.AsType[*slowError](cause); is {
		return &Trouble{Kind: Slow, Err: slow}
	}
	if errors.Is(cause, errTooLong) {
		return &Trouble{Kind: TooLong, Err: cause}
	}
	return &Trouble{Kind: kind, Err: err}
}

// drain reads the rest of a short response, for its connection to be used again, and closes it.
func drain(ctx context.Context, from io.ReadCloser) error {
	if ctx.Err() == nil {
		_, _ = io.CopyN(io.Discard, from, maxDrain)
	}
	return from.Close()
}

// slowError is the cause with which Window ends a request.
type slowError struct {
	least  int64
	window time.Duration
}

func (e *slowError) Error() string {
	if e.least <= 1 {
		return fmt.Sprintf("nothing more came in %s", e.window)
	}
	return fmt.Sprintf("less than %d bytes came in %s", e.least, e.window)
}
