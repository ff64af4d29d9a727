package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"carillon/internal/await"
	"carillon/internal/retryafter"
	"carillon/payload"
)

// Bounds of the requests for content.
const (
	perHost      = 4                // requests to one host at a time
	contentTime  = time.Hour        // for one resource
	contentIdle  = 30 * time.Second // without a byte
	maxRedirects = 5
	maxHeader    = 64 << 10
	dialTimeout  = 30 * time.Second
	idleConn     = time.Minute
	// longestAsked bounds how long a host is left alone because it asks for that.
	longestAsked = 30 * time.Second
)

// Causes for which a request is broken off.
var (
	errIdle    = errors.New("nothing more came")
	errTooLong = errors.New("it took too long")
)

func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: perHost,
		IdleConnTimeout: idleConn, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
	}
}

// fetcher is a Source: the resources at their own addresses.
type fetcher struct {
	client    http.Client
	userAgent string

	mu    sync.Mutex
	hosts map[string]*host // guarded by mu
}

// host is a server that is asked.
type host struct {
	slots chan struct{}

	mu    sync.Mutex
	until time.Time // guarded by mu: it is not asked before
}

func newFetcher(cfg *Config) *fetcher {
	return &fetcher{
		client:    http.Client{Transport: cfg.Transport, CheckRedirect: mayRedirect},
		userAgent: cfg.UserAgent, hosts: map[string]*host{},
	}
}

// errRedirect: a redirect that is not followed.
var errRedirect = errors.New("redirects")

// mayRedirect lets redirects lead to the same host, and from http to https.
func mayRedirect(next *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("its server %w more than %d times", errRedirect, maxRedirects)
	case next.URL.User != nil || !strings.EqualFold(from.Hostname(), next.URL.Hostname()) ||
		from.Scheme == next.URL.Scheme && from.Port() != next.URL.Port() || from.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("its server %w to %.200q, which is another host", errRedirect, next.URL.Redacted())
	}
	next.Header.Del("Referer")
	return nil
}

// of returns the host of a resource.
func (f *fetcher) of(name string) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		const mostHosts = 10_000
		if len(f.hosts) >= mostHosts {
			clear(f.hosts) // those that are in use stay so with who uses them
		}
		h = &host{slots: make(chan struct{}, perHost)}
		f.hosts[name] = h
	}
	return h
}

// enter waits for a slot, and for as long as the host asked to be left alone.
func (h *host) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	h.mu.Lock()
	wait := time.Until(h.until)
	h.mu.Unlock()
	if wait > 0 && await.For(ctx, wait) != nil {
		<-h.slots
		return ctx.Err()
	}
	return nil
}

// leaveAlone has nobody ask the host for a while.
func (h *host) leaveAlone(wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := time.Now().Add(min(wait, longestAsked)); until.After(h.until) {
		h.until = until
	}
}

// Open implements Source.
func (f *fetcher) Open(ctx context.Context, e *payload.Entry) (_ *Content, err error) {
	u, err := url.Parse(e.Loc)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, leftOut(Refused, false, "its loc is no http or https address")
	}
	u.Fragment, u.RawFragment = "", ""
	h := f.of(u.Host)
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	outer := ctx
	ctx, stop := context.WithTimeoutCause(ctx, contentTime, errTooLong)
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(contentIdle, func() { cancel(errIdle) })
	end := sync.OnceFunc(func() {
		idle.Stop()
		cancel(nil)
		stop()
		<-h.slots
	})
	defer func() {
		if err != nil {
			end()
		}
	}()
	resp, err := f.ask(ctx, u, e)
	if err != nil {
		return nil, networkTrouble(outer, ctx, err)
	}
	if err := statusTrouble(resp, h); err != nil {
		const drained = 16 << 10
		_, _ = io.CopyN(io.Discard, resp.Body, drained) // so that the connection can be used again
		resp.Body.Close()
		return nil, err
	}
	body := &fetchedBody{body: resp.Body, end: end, alive: func() { idle.Reset(contentIdle) }, trouble: func(err error) error {
		return networkTrouble(outer, ctx, err)
	}}
	return &Content{
		ReadCloser: body, Size: resp.ContentLength, Type: mediaType(resp.Header.Get("Content-Type")),
		LastMod: lastModified(resp.Header.Get("Last-Modified")), Encoding: coding(resp.Header.Get("Content-Encoding")),
	}, nil
}

func (f *fetcher) ask(ctx context.Context, u *url.URL, e *payload.Entry) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", f.userAgent)
	// Length and hash are told of the representation in that coding (core §7).
	r.Header.Set("Accept-Encoding", "identity")
	if coding(e.Encoding) != "" {
		r.Header.Set("Accept-Encoding", e.Encoding)
	}
	return f.client.Do(r)
}

// statusTrouble is an answer without the resource in it.
func statusTrouble(resp *http.Response, h *host) error {
	code := resp.StatusCode
	text := strings.TrimSpace(fmt.Sprintf("its server answers %d %s", code, http.StatusText(code)))
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return leftOut(Missing, false, "%s", text)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		if after := retryafter.Parse(resp.Header.Get("Retry-After"), time.Now()); after > 0 {
			h.leaveAlone(after)
		}
		return leftOut(Unreachable, true, "%s", text)
	}
	return leftOut(Refused, false, "%s", text)
}

// networkTrouble says why there was no answer, or only a part of one.
func networkTrouble(outer, ctx context.Context, err error) error {
	if outer.Err() != nil {
		return outer.Err()
	}
	if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err // without the loc, which the log line has
	}
	if errors.Is(err, errRedirect) {
		return leftOut(Refused, false, "%v", err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return leftOut(Unreachable, errors.Is(cause, errIdle), "its server is too slow: %v", cause)
	}
	return leftOut(Unreachable, true, "its server cannot be asked: %v", err)
}

// fetchedBody is the body of an answer.
type fetchedBody struct {
	body    io.ReadCloser
	alive   func()
	trouble func(error) error
	end     func()
}

func (b *fetchedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if n > 0 {
		b.alive()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.trouble(err)
	}
	return n, err
}

func (b *fetchedBody) Close() error {
	defer b.end()
	return b.body.Close()
}

// mediaType is a Content-Type without its parameters; empty where it is none.
func mediaType(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || !strings.Contains(kind, "/") {
		return ""
	}
	return kind
}

// lastModified is the header as a W3C Datetime; empty where it is no date.
func lastModified(header string) string {
	at, err := http.ParseTime(header)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05Z")
}

// coding is a content coding; empty where it is none, or identity.
func coding(header string) string {
	const most = 100
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == ',' || c == ' '
	}
	text := strings.ToLower(strings.TrimSpace(header))
	if text == "identity" || len(text) > most || strings.ContainsFunc(text, func(c rune) bool { return !plain(c) }) {
		return ""
	}
	return text
}
