package lists

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// maxRetryAfter is how far a server's Retry-After is heeded.
const maxRetryAfter = time.Hour

// earliestHeader is where the change memory of a hub says from when on it has
// something (410).
const earliestHeader = "X-Hub-Memory-Earliest"

// StatusError is a status without a document: 404, 403 and others that will not pass by themselves.
// errors.Is matches it with ErrAnswer.
type StatusError struct {
	URI    string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %v: %d %s", e.URI, ErrAnswer, e.Status, http.StatusText(e.Status))
}

// Is makes errors.Is tell ErrAnswer.
func (e *StatusError) Is(target error) bool { return target == ErrAnswer }

// BusyError is a refusal that may pass: 429, 5xx and the like.
type BusyError struct {
	URI    string
	Status int
	// RetryAfter is how long the server asks to wait, an hour at most; 0 if it does not say.
	RetryAfter time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: is answered %d %s", e.URI, e.Status, http.StatusText(e.Status))
}

// response is an answer with a document, which the caller closes.
type response struct {
	uri       *url.URL // after redirects
	header    http.Header
	unchanged bool // 304: there is no body
	body      io.Reader
	close     func()
}

// get asks for a document, and follows redirects. k has the earlier reading of it, nil for none.
func (r *reading) get(ctx context.Context, at *url.URL, k *known) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err == nil {
		err = r.count()
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at, err)
	}
	req.Header.Set("User-Agent", r.c.cfg.UserAgent)
	req.Header.Set("Accept", "application/xml, text/xml;q=0.9, */*;q=0.5")
	// Asked for by hand, so that what comes unpacked has a bound of ours.
	req.Header.Set("Accept-Encoding", "gzip")
	if k != nil {
		k.Ask(req.Header)
	}
	asked := fetch.Client{
		Transport: r.c.cfg.Transport, Timeout: r.c.cfg.Timeout, Redirects: r.c.cfg.Limits.Redirects,
		Lead: func(from, to *url.URL) error {
			if err := r.count(); err != nil {
				return err
			}
			return r.allow(from, to)
		},
	}
	resp, err := asked.Do(req)
	if err != nil {
		return nil, notRead(at, err)
	}
	a, err := r.response(resp.Request.URL, resp, k != nil)
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	a.close = func() { resp.Body.Close() }
	return a, nil
}

// notRead makes the error for a request without a response.
func notRead(at *url.URL, err error) error {
	t, is := errors.AsType[*fetch.Trouble](err)
	switch {
	case errors.Is(err, fetch.ErrRedirects):
		return fmt.Errorf("%w: %s: %w", ErrLoop, at, err)
	case is && t.Kind == fetch.Refused && !errors.Is(err, ErrLoop) && !errors.Is(err, ErrOtherHost):
		return fmt.Errorf("%w: %s: %w", ErrAnswer, at, err)
	}
	return fmt.Errorf("reading %s: %w", at, err)
}

// response judges an answer by its status.
func (r *reading) response(at *url.URL, resp *http.Response, conditional bool) (*response, error) {
	a := &response{uri: at, header: resp.Header}
	switch code := resp.StatusCode; {
	case code == http.StatusNotModified && conditional:
		a.unchanged = true
		return a, nil
	case code == http.StatusOK || code == http.StatusNonAuthoritativeInfo || code == http.StatusNoContent:
		body, err := r.c.unpacked(resp)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", at, err)
		}
		a.body = body
		return a, nil
	case code == http.StatusGone:
		earliest, _ := payload.ParseDatetime(resp.Header.Get(earliestHeader))
		return nil, &GoneError{URI: at.String(), Earliest: earliest}
	}
	if t := fetch.Judge(resp); t.Kind == fetch.Busy {
		return nil, &BusyError{at.String(), resp.StatusCode, min(t.After, maxRetryAfter)}
	}
	return nil, &StatusError{at.String(), resp.StatusCode}
}

// unpacked returns the body without its coding. A body that is itself a gzip file, as sitemaps often
// are, is unpacked too, for any header.
func (c *Client) unpacked(resp *http.Response) (io.Reader, error) {
	body := c.bounded(resp.Body)
	switch coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); {
	case coding == "" || coding == "identity" || resp.Uncompressed:
	case coding == "gzip" || coding == "x-gzip":
		z, err := gzip.NewReader(body)
		if errors.Is(err, io.EOF) { // nothing, packed as nothing
			return body, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: it is said to be gzip: %w", ErrAnswer, err)
		}
		body = c.bounded(z)
	default:
		return nil, fmt.Errorf("%w: the coding %q is not known", ErrAnswer, legible.Cut(coding))
	}
	start := bufio.NewReader(body)
	if magic, _ := start.Peek(2); string(magic) != "\x1f\x8b" {
		return start, nil
	}
	z, err := gzip.NewReader(start)
	if err != nil {
		return nil, fmt.Errorf("%w: it looks like gzip: %w", ErrAnswer, err)
	}
	return c.bounded(z), nil
}

func (c *Client) bounded(r io.Reader) io.Reader {
	return &bounded{r: r, limit: c.cfg.Limits.Bytes, left: c.cfg.Limits.Bytes}
}

// bounded ends a document that has more than limit bytes with an error.
type bounded struct {
	r           io.Reader
	limit, left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", payload.ErrTooLarge, b.limit)
	}
	return n, err
}
