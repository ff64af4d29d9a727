package dump

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"carillon/internal/fetch"
	"carillon/payload"
)

// Bounds of the requests for content.
const (
	perHost      = 4                // requests to one host at a time
	contentTime  = time.Hour        // for one resource
	contentIdle  = 30 * time.Second // without a byte
	maxRedirects = 5
	// longestAsked bounds how long a host is left alone because it asks for that.
	longestAsked = 30 * time.Second
)

// fetcher is a Source: the resources at their own addresses.
type fetcher struct {
	client    fetch.Client
	userAgent string
	hosts     fetch.Hosts
}

func newFetcher(cfg *Config) *fetcher {
	return &fetcher{
		client: fetch.Client{
			Transport: cfg.Transport, Timeout: contentTime, Window: contentIdle,
			Redirects: maxRedirects, Lead: fetch.StayAtServer,
		},
		userAgent: cfg.UserAgent,
		// Failures alone pause no host: the maker of the dump stops after many in a row.
		hosts: fetch.Hosts{PerHost: perHost, MaxPause: longestAsked},
	}
}

// Open implements Source.
func (f *fetcher) Open(ctx context.Context, e *payload.Entry) (_ *Content, err error) {
	u, err := url.Parse(e.Loc)
	if err != nil || !fetch.Web(u) {
		return nil, leftOut(Refused, false, "its loc is no http or https address without a user name")
	}
	u.Fragment, u.RawFragment = "", ""
	h := f.hosts.Of(fetch.Authority(u))
	if err := h.Enter(ctx); err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(h.Leave)
	defer func() {
		if err != nil {
			leave()
		}
	}()
	resp, err := f.ask(ctx, u, e)
	if err != nil {
		return nil, leftOutBy(err)
	}
	if t := fetch.Judge(resp, http.StatusOK); t != nil {
		h.Note(t)
		_ = resp.Body.Close() // the status has said what counts
		return nil, leftOutBy(t)
	}
	return &Content{
		ReadCloser: &fetchedBody{resp.Body, leave}, Size: resp.ContentLength, Type: mediaType(resp.Header.Get("Content-Type")),
		LastMod: lastModified(resp.Header.Get("Last-Modified")), Encoding: coding(resp.Header.Get("Content-Encoding")),
	}, nil
}

func (f *fetcher) ask(ctx context.Context, u *url.URL, e *payload.Entry) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", f.userAgent)
	// The described length and hash are those of the representation in that coding (core §7).
	r.Header.Set("Accept-Encoding", "identity")
	if coding(e.Encoding) != "" {
		r.Header.Set("Accept-Encoding", e.Encoding)
	}
	return f.client.Do(r)
}

// leftOutBy gives the reason why a resource that was asked for has no content. Other errors stay what they are.
func leftOutBy(err error) error {
	t, is := errors.AsType[*fetch.Trouble](err)
	if !is {
		return err
	}
	switch t.Kind {
	case fetch.Missing:
		return leftOut(Missing, false, "%v", t)
	case fetch.Refused:
		return leftOut(Refused, false, "%v", t)
	}
	return leftOut(Unreachable, t.Kind != fetch.TooLong, "%v", t)
}

// fetchedBody is the body of a response. Close gives its slot at the host back.
type fetchedBody struct {
	io.ReadCloser
	leave func()
}

func (b *fetchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, leftOutBy(err)
}

func (b *fetchedBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

// mediaType is a Content-Type without its parameters; empty if it is invalid.
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

// coding is a content coding; empty for an invalid one, or identity.
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
