package check

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/legible"
)

// Limits that were reached. They end what is under way, and are notes.
var (
	errTime     = errors.New("the time is over")
	errRequests = errors.New("as many requests as are allowed were made")
	errBytes    = errors.New("as many bytes as are allowed were read")
	errUnpacked = errors.New("as many bytes as are allowed were unpacked")
)

// errNoFile: a package cannot be put into a temporary file.
var errNoFile = errors.New("no temporary file can be written")

// errNotAllowed: Config.Allow refuses the address.
var errNotAllowed = errors.New("not allowed")

// answer is what is at an address, or a file.
type answer struct {
	uri    *url.URL // after redirects; nil of a file
	status int
	header http.Header
	body   *bufio.Reader
	close  func()
}

// get asks for what is at an address, and follows redirects. The caller closes the answer.
// within bounds the request to its last byte.
func (w *walk) get(ctx context.Context, method string, at *url.URL, within time.Duration) (*answer, error) {
	// Lengths and hashes are of what is sent.
	return w.getAs(ctx, method, at, within, "identity")
}

// getAs is get with the Accept-Encoding of the request.
func (w *walk) getAs(ctx context.Context, method string, at *url.URL, within time.Duration, encoding string) (*answer, error) {
	c := fetch.Client{
		Transport: asker{w, w.cfg.Allow}, Timeout: within, Redirects: w.cfg.Limits.Redirects,
		Lead: func(_, to *url.URL) error {
			*to = *plain(to)
			return nil
		},
	}
	resp, err := w.ask(ctx, &c, method, at, encoding)
	if err != nil {
		return nil, err
	}
	return &answer{
		uri: resp.Request.URL, status: resp.StatusCode, header: resp.Header,
		body:  bufio.NewReader(w.counted(resp.Body)),
		close: func() { resp.Body.Close() },
	}, nil
}

// ask makes a request. The caller closes the body of the response.
func (w *walk) ask(ctx context.Context, c *fetch.Client, method string, at *url.URL, encoding string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", w.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := c.Do(req)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	if t, is := errors.AsType[*fetch.Trouble](err); is {
		err = t.Err
	}
	return resp, err
}

// asker is the transport of a walk. It makes the requests that the limits and allow permit.
type asker struct {
	w     *walk
	allow func(*url.URL) error
}

func (a asker) RoundTrip(req *http.Request) (*http.Response, error) {
	w := a.w
	switch {
	case w.cfg.Transport == nil:
		return nil, fmt.Errorf("%w: there is no way to ask for addresses here", errNotAllowed)
	case w.sum.Requests >= w.cfg.Limits.Requests:
		return nil, errRequests
	case w.sum.Bytes >= w.cfg.Limits.Bytes:
		return nil, errBytes
	}
	if a.allow != nil {
		if err := a.allow(req.URL); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotAllowed, err)
		}
	}
	w.sum.Requests++
	return w.cfg.Transport.RoundTrip(req)
}

// openFile opens a local file as an answer.
func (w *walk) openFile(name string) (*answer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file; name the files in it one by one", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &answer{status: http.StatusOK, body: bufio.NewReader(w.counted(f)), close: func() { f.Close() }}, nil
}

// counted counts what is read, and fails with over where the sum would exceed most.
type counted struct {
	r    io.Reader
	sum  *int64
	most int64
	over error
}

func (c *counted) Read(p []byte) (int, error) {
	if *c.sum < c.most {
		p = p[:min(int64(len(p)), c.most-*c.sum)]
	} else {
		p = p[:min(len(p), 1)] // the end may be there
	}
	n, err := c.r.Read(p)
	if *c.sum+int64(n) > c.most {
		return 0, c.over
	}
	*c.sum += int64(n)
	return n, err
}

// counted counts what is read from the network or a file.
func (w *walk) counted(r io.Reader) io.Reader {
	return &counted{r, &w.sum.Bytes, w.cfg.Limits.Bytes, errBytes}
}

// expanded counts what is unpacked, of gzip files and packages alike.
func (w *walk) expanded(r io.Reader) io.Reader {
	return &counted{r, &w.unpackedBytes, w.cfg.Limits.Unpacked, errUnpacked}
}

// unpacked is the body of a document: unpacked where it is a gzip file, as sitemaps often are. Who reads it
// bounds it; Limits.Unpacked bounds all together.
func (w *walk) unpacked(a *answer) (io.Reader, error) {
	if magic, _ := a.body.Peek(2); string(magic) != "\x1f\x8b" {
		return a.body, nil
	}
	z, err := gzip.NewReader(a.body)
	if err != nil {
		return nil, err
	}
	return w.expanded(z), nil
}

// isPackage reports whether a ZIP file comes.
func (a *answer) isPackage() bool {
	magic, _ := a.body.Peek(4)
	return string(magic) == "PK\x03\x04" || string(magic) == "PK\x05\x06"
}

// plain is an address without its fragment, in the form by which addresses are compared: scheme
// and host in lower case, no default port, and a path (RFC 3986 §6.2).
func plain(u *url.URL) *url.URL {
	p := *u
	p.Fragment, p.RawFragment = "", ""
	p.Host = strings.ToLower(p.Host)
	if port := p.Port(); port == "" || p.Scheme == "http" && port == "80" || p.Scheme == "https" && port == "443" {
		p.Host = strings.TrimSuffix(p.Host, ":"+port)
	}
	if p.Path == "" {
		p.Path = "/"
	}
	return &p
}

// maxQuoted is how much of a stranger's text is repeated, characters.
const maxQuoted = 200

// quote makes a stranger's text short, and fit for one line.
func quote(s string) string { return fmt.Sprintf("%.*q", maxQuoted, s) }

// reason is an error as a part of a finding. Some repeat what a server has sent.
func reason(err error) string {
	text := []rune(legible.Line(err.Error()))
	if len(text) > maxQuoted {
		text = append(text[:maxQuoted], '…')
	}
	return string(text)
}
