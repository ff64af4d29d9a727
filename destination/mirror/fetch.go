package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/digests"
	"carillon/internal/retryafter"
)

// Causes for which a request is broken off.
var (
	errStalled = errors.New("nothing more came")
	errTooLong = errors.New("it took too long")
)

// trouble is why a resource was not fetched.
type trouble struct {
	state  State // Missing, Failed, Refused or Invalid
	reason string
	// host: it is its host's trouble, not that of the resource; after is how long that asks to be
	// left alone.
	host  bool
	after time.Duration
	// final: trying again is of no use.
	final bool
}

func (t *trouble) Error() string { return t.reason }

func failed(format string, args ...any) error {
	return &trouble{state: Failed, reason: fmt.Sprintf(format, args...)}
}

// errUnchanged: the server says that the file is what it has.
var errUnchanged = errors.New("not modified")

// fetched is what came of a request.
type fetched struct {
	file     *part
	hashes   *digests.Hashing
	size     int64
	modified time.Time // as the server told
	etag     string
	told     string // its Last-Modified
	encoding string
}

// fetcher asks servers for resources.
type fetcher struct {
	cfg    *Config
	client http.Client
	tree   *tree
}

func newFetcher(cfg *Config, t *tree, below func(*url.URL) bool) *fetcher {
	redirect := func(next *http.Request, via []*http.Request) error { return mayRedirect(next, via, below) }
	return &fetcher{cfg: cfg, tree: t, client: http.Client{Transport: cfg.Transport, CheckRedirect: redirect}}
}

// mayRedirect lets redirects lead to the same host and port, and from http to https, and
// not out of what is mirrored.
func mayRedirect(next *http.Request, via []*http.Request, below func(*url.URL) bool) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return failed("more than %d redirects", maxRedirects)
	case next.URL.User != nil || authority(from) != authority(next.URL) || from.Scheme == "https" && next.URL.Scheme != "https":
		return failed("its server redirects to %.200q, which is another host", next.URL.Redacted())
	case !below(next.URL):
		return failed("its server redirects to %.200q, which is outside of what is mirrored (--base)", next.URL.Redacted())
	}
	next.Header.Del("Referer")
	return nil
}

// fetch gets what a resource is now, verified, in a file that is not in its place yet.
// errUnchanged where the copy is still what the server has; fresh asks for no copy on the way.
func (f *fetcher) fetch(ctx context.Context, u *url.URL, told *Told, old *File, fresh bool) (got *fetched, err error) {
	if size := told.size(); size > f.cfg.MaxBytes {
		return nil, failed("it has %d bytes, more than the limit of %d", size, f.cfg.MaxBytes)
	}
	outer := ctx
	ctx, stop := context.WithTimeoutCause(ctx, f.cfg.Timeout, errTooLong)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(f.cfg.Idle, func() { cancel(errStalled) })
	defer idle.Stop()

	req, err := f.request(ctx, u, told, old, fresh)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, networkTrouble(outer, ctx, err)
	}
	defer resp.Body.Close()
	if err := statusTrouble(resp, old != nil); err != nil {
		drain(resp.Body)
		return nil, err
	}
	alive := aliveReader{resp.Body, func() { idle.Reset(f.cfg.Idle) }}
	got, err = f.take(alive, resp, told)
	if got == nil && err != nil {
		return nil, err
	}
	if err != nil { // broken off while it came
		got.file.discard()
		if t := (*trouble)(nil); errors.As(err, &t) || errors.Is(err, ErrRoom) {
			return nil, err
		}
		return nil, networkTrouble(outer, ctx, err)
	}
	return got, nil
}

func (f *fetcher) request(ctx context.Context, u *url.URL, told *Told, old *File, fresh bool) (*http.Request, error) {
	plain := *u
	plain.Fragment, plain.RawFragment = "", ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, plain.String(), nil)
	if err != nil {
		return nil, &trouble{state: Invalid, reason: ErrLoc.Error()}
	}
	req.Header.Set("User-Agent", f.cfg.UserAgent)
	// What is told of length and hash is told of the representation in that coding (core §7).
	req.Header.Set("Accept-Encoding", "identity")
	if told.Encoding != "" && headerSafe(told.Encoding) {
		req.Header.Set("Accept-Encoding", told.Encoding)
	}
	if fresh {
		req.Header.Set("Cache-Control", "no-cache")
	}
	if old != nil && old.ETag != "" {
		req.Header.Set("If-None-Match", old.ETag)
	}
	if old != nil && old.LastModified != "" {
		req.Header.Set("If-Modified-Since", old.LastModified)
	}
	return req, nil
}

// headerSafe: a stranger's text may be a header's value.
func headerSafe(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// take reads the body into a file. Where it returns one with an error the body broke off, or is
// not what was told.
func (f *fetcher) take(body io.Reader, resp *http.Response, told *Told) (*fetched, error) {
	got := &fetched{etag: header(resp, "ETag"), told: header(resp, "Last-Modified"), encoding: header(resp, "Content-Encoding")}
	if at, err := http.ParseTime(got.told); err == nil {
		if got.modified = at; !settled(resp, at) {
			got.etag, got.told = "", ""
		}
	}
	err := f.write(got, body, resp.ContentLength, told)
	if got.file == nil {
		return nil, err
	}
	return got, err
}

// write writes content into a file, and compares it with what is told. length is how much is to come,
// -1 where nobody knows. Where got has a file beside an error the content broke off, or is not what was told.
func (f *fetcher) write(got *fetched, body io.Reader, length int64, told *Told) error {
	want := told.size()
	limit := f.cfg.MaxBytes
	if length > limit {
		return failed("it has %d bytes, more than the limit of %d", length, limit)
	}
	if want >= 0 {
		limit = want
	}
	if err := f.tree.room.take(max(want, length)); err != nil {
		return err
	}
	file, err := f.tree.newPart()
	if err != nil {
		return writeTrouble(err)
	}
	known, _ := digests.Parse(told.Hash)
	got.file, got.hashes = file, digests.New(known)
	buffer := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buffer)
	to := &writeMarker{to: io.MultiWriter(file, got.hashes)}
	got.size, err = io.CopyBuffer(to, io.LimitReader(body, limit+1), buffer[:])
	switch wrong, have, differs := got.hashes.Differs(known); {
	case err != nil && to.failed:
		return writeTrouble(err)
	case err != nil:
		return err
	case got.size > limit && want < 0:
		return failed("it has more bytes than the limit of %d", limit)
	case got.size > limit:
		return failed("it has more bytes than the %d that the Source told", want)
	case want >= 0 && got.size != want:
		return failed("it has %d bytes, and the Source told %d", got.size, want)
	case differs:
		return failed("its hash is %s:%s, and the Source told %s", wrong.Algorithm, have, wrong.Hex)
	}
	return nil
}

// settled tells whether a Last-Modified says which content it was (RFC 9110 §8.8.2.2): what was
// modified within the second may be modified again in it. Many servers make their ETags of it, too.
func settled(resp *http.Response, modified time.Time) bool {
	const grain = 2 * time.Second
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return err == nil && date.Sub(modified) >= grain
}

// header is a header's value that may be kept.
func header(resp *http.Response, name string) string {
	const maxKept = 1024
	if value := resp.Header.Get(name); len(value) <= maxKept {
		return value
	}
	return ""
}

// statusTrouble tells what is no answer with a resource in it.
func statusTrouble(resp *http.Response, conditional bool) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotModified && conditional:
		return errUnchanged
	case code == http.StatusNotFound || code == http.StatusGone:
		return &trouble{state: Missing, reason: "its server answers " + status(code)}
	case code == http.StatusTooManyRequests || code >= 500:
		after := retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())
		return &trouble{state: Failed, reason: "its server answers " + status(code), host: true, after: after}
	default:
		return failed("its server answers %s", status(code))
	}
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// networkTrouble says why there was no answer, or only a part of one.
func networkTrouble(outer, ctx context.Context, err error) error {
	if outer.Err() != nil {
		return outer.Err() // nobody waits for it any more
	}
	if t := (*trouble)(nil); errors.As(err, &t) {
		return t // of a redirect
	}
	if cause := context.Cause(ctx); cause != nil {
		return &trouble{state: Failed, reason: cause.Error(), host: errors.Is(cause, errStalled)}
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the loc
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return failed("its server broke off: %v", err)
	}
	return &trouble{state: Failed, reason: fmt.Sprintf("its server cannot be asked: %v", err), host: true}
}

// writeTrouble says why a file could not be written; ErrRoom stays what it is.
func writeTrouble(err error) error {
	if errors.Is(err, ErrRoom) {
		return err
	}
	return failed("its file cannot be written: %v", err)
}

// drain reads what is left of a short answer, so that its connection can be used again.
func drain(body io.Reader) {
	const maxDrained = 16 << 10
	_, _ = io.CopyN(io.Discard, body, maxDrained)
}

// aliveReader tells of every part that comes.
type aliveReader struct {
	from io.Reader
	came func()
}

func (r aliveReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if n > 0 {
		r.came()
	}
	return n, err
}

// writeMarker remembers that it was writing that failed.
type writeMarker struct {
	to     io.Writer
	failed bool
}

func (w *writeMarker) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.failed = w.failed || err != nil
	return n, err
}
