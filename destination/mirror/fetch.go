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
	"carillon/internal/fetch"
)

// errUnchanged: the server says that the file is what it has.
var errUnchanged = errors.New("not modified")

// fetched is the outcome of a request.
type fetched struct {
	file      *part
	hashes    *digests.Hashing
	size      int64
	modified  time.Time // from the server's answer
	etag      string
	described string // its Last-Modified
	encoding  string
}

// fetcher asks servers for resources.
type fetcher struct {
	cfg    *Config
	client fetch.Client
	tree   *tree
}

func newFetcher(cfg *Config, t *tree, below func(*url.URL) bool) *fetcher {
	return &fetcher{cfg: cfg, tree: t, client: fetch.Client{
		Transport: cfg.Transport, Timeout: cfg.Timeout, Window: cfg.Idle, Redirects: maxRedirects,
		Lead: func(from, to *url.URL) error {
			if err := fetch.StayAtServer(from, to); err != nil || below(to) {
				return err
			}
			return fmt.Errorf("it redirects to %.200q, which is outside of what is mirrored (--base)", to)
		},
	}}
}

// fetch gets what a resource is now, verified, in a file that is not in its place yet.
// errUnchanged where the copy is still what the server has; fresh asks for no copy on the way.
func (f *fetcher) fetch(ctx context.Context, u *url.URL, described *Described, old *File, fresh bool) (got *fetched, err error) {
	if size := described.size(); size > f.cfg.MaxBytes {
		return nil, failed("it has %d bytes, more than the limit of %d", size, f.cfg.MaxBytes)
	}
	req, err := f.request(ctx, u, described, old, fresh)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, troubleOf(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && old != nil {
		return nil, errUnchanged
	}
	if t := fetch.Judge(resp, http.StatusOK); t != nil {
		return nil, troubleOf(t)
	}
	if got, err = f.read(resp.Body, resp, described); got != nil && err != nil { // broken off while it came
		got.file.discard()
		got = nil
	}
	return got, troubleOf(err)
}

// troubleOf is what a failed request means for a resource. Other errors stay what they are.
func troubleOf(err error) error {
	t, is := errors.AsType[*fetch.Trouble](err)
	if !is {
		return err
	}
	state := Failed
	if t.Kind == fetch.Missing {
		state = Missing
	}
	return &failure{state: state, reason: t.Error(), cause: t, host: t.OfHost(), after: t.After}
}

func (f *fetcher) request(ctx context.Context, u *url.URL, described *Described, old *File, fresh bool) (*http.Request, error) {
	plain := *u
	plain.Fragment, plain.RawFragment = "", ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, plain.String(), nil)
	if err != nil {
		return nil, &failure{state: Invalid, reason: ErrLoc.Error()}
	}
	req.Header.Set("User-Agent", f.cfg.UserAgent)
	// The described length and hash are those of the representation in that coding (core §7).
	req.Header.Set("Accept-Encoding", "identity")
	if described.Encoding != "" && headerSafe(described.Encoding) {
		req.Header.Set("Accept-Encoding", described.Encoding)
	}
	if fresh {
		req.Header.Set("Cache-Control", "no-cache")
	}
	if old != nil {
		fetch.Validators{ETag: old.ETag, LastModified: old.LastModified}.Ask(req.Header)
	}
	return req, nil
}

// headerSafe: a stranger's text may be a header's value.
func headerSafe(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// read reads the body into a file. A file beside an error means that the body broke off, or does not
// match the description.
func (f *fetcher) read(body io.Reader, resp *http.Response, described *Described) (*fetched, error) {
	known := fetch.ValidatorsOf(resp.Header)
	got := &fetched{etag: known.ETag, described: known.LastModified}
	got.modified, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	const maxKept = 1024
	if coding := resp.Header.Get("Content-Encoding"); len(coding) <= maxKept {
		got.encoding = coding
	}
	err := f.write(got, body, resp.ContentLength, described)
	if got.file == nil {
		return nil, err
	}
	return got, err
}

// write writes content into a file, and compares it with the description. length is the expected one,
// -1 if unknown. Where got has a file beside an error the content broke off, or does not match.
func (f *fetcher) write(got *fetched, body io.Reader, length int64, described *Described) error {
	want := described.size()
	limit := f.cfg.MaxBytes
	if length > limit {
		return failed("it has %d bytes, more than the limit of %d", length, limit)
	}
	if want >= 0 {
		limit = want
	}
	if err := f.tree.space.reserve(max(want, length)); err != nil {
		return err
	}
	file, err := f.tree.newPart()
	if err != nil {
		return writeFailure(err)
	}
	known, _ := digests.Parse(described.Hash)
	got.file, got.hashes = file, digests.New(known)
	buffer := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buffer)
	to := &writeMarker{to: io.MultiWriter(file, got.hashes)}
	got.size, err = io.CopyBuffer(to, io.LimitReader(body, limit+1), buffer[:])
	switch wrong, have, differs := got.hashes.Differs(known); {
	case err != nil && to.failed:
		return writeFailure(err)
	case err != nil:
		return err
	case got.size > limit && want < 0:
		return failed("it has more bytes than the limit of %d", limit)
	case got.size > limit:
		return failed("it has more bytes than the %d that the Source announced", want)
	case want >= 0 && got.size != want:
		return failed("it has %d bytes, and the Source announced %d", got.size, want)
	case differs:
		return failed("its hash is %s:%s, and the Source announced %s", wrong.Algorithm, have, wrong.Hex)
	}
	return nil
}

// writeFailure gives the reason why a file could not be written; ErrRoom stays what it is.
func writeFailure(err error) error {
	if errors.Is(err, ErrRoom) {
		return err
	}
	return failed("its file cannot be written: %v", err)
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
