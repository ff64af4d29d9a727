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
	"strconv"
	"time"

	"carillon/internal/digests"
	"carillon/internal/fetch"
)

// answer is what is at an address, or a file.
type answer struct {
	uri    *url.URL // after redirects; nil of a file
	status int
	header http.Header
	body   *bufio.Reader
	close  func()
}

// visitor asks for addresses and opens files, within the limits.
type visitor struct {
	*reporter
	unpackedBytes int64
}

// get asks for what is at an address, and follows redirects. The caller closes the answer.
// within bounds the request to its last byte.
func (v *visitor) get(ctx context.Context, method string, at *url.URL, within time.Duration) (*answer, error) {
	// Lengths and hashes are of what is sent.
	return v.getAs(ctx, method, at, within, "identity")
}

// getAs is get with the Accept-Encoding of the request.
func (v *visitor) getAs(
	ctx context.Context, method string, at *url.URL, within time.Duration, encoding string,
) (*answer, error) {
	c := fetch.Client{
		Transport: asker{v, v.cfg.Allow}, Timeout: within, Redirects: v.cfg.Limits.Redirects,
		Lead: func(_, to *url.URL) error {
			*to = *plain(to)
			return nil
		},
	}
	resp, err := v.ask(ctx, &c, method, at, encoding)
	if err != nil {
		return nil, err
	}
	return &answer{
		uri: resp.Request.URL, status: resp.StatusCode, header: resp.Header,
		body:  bufio.NewReader(v.counted(resp.Body)),
		close: func() { resp.Body.Close() },
	}, nil
}

// ask makes a request. The caller closes the body of the response.
func (v *visitor) ask(
	ctx context.Context, c *fetch.Client, method string, at *url.URL, encoding string,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", v.cfg.UserAgent)
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

// asker is the transport of a visitor. It makes the requests that the limits and allow permit.
type asker struct {
	v     *visitor
	allow func(*url.URL) error
}

func (a asker) RoundTrip(req *http.Request) (*http.Response, error) {
	v := a.v
	switch {
	case v.cfg.Transport == nil:
		return nil, fmt.Errorf("%w: there is no way to ask for addresses here", errNotAllowed)
	case v.sum.Requests >= v.cfg.Limits.Requests:
		return nil, errRequests
	case v.sum.Bytes >= v.cfg.Limits.Bytes:
		return nil, errBytes
	}
	if a.allow != nil {
		if err := a.allow(req.URL); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotAllowed, err)
		}
	}
	v.sum.Requests++
	return v.cfg.Transport.RoundTrip(req)
}

// openFile opens a local file as an answer.
func (v *visitor) openFile(name string) (*answer, error) {
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
	return &answer{status: http.StatusOK, body: bufio.NewReader(v.counted(f)), close: func() { f.Close() }}, nil
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
func (v *visitor) counted(r io.Reader) io.Reader {
	return &counted{r, &v.sum.Bytes, v.cfg.Limits.Bytes, errBytes}
}

// expanded counts what is unpacked, of gzip files and packages alike.
func (v *visitor) expanded(r io.Reader) io.Reader {
	return &counted{r, &v.unpackedBytes, v.cfg.Limits.Unpacked, errUnpacked}
}

// unpacked is the body of a document: unpacked where it is a gzip file, as sitemaps often are. The
// reader bounds it; Limits.Unpacked bounds all together.
func (v *visitor) unpacked(a *answer) (io.Reader, error) {
	if magic, _ := a.body.Peek(2); string(magic) != "\x1f\x8b" {
		return a.body, nil
	}
	z, err := gzip.NewReader(a.body)
	if err != nil {
		return nil, err
	}
	return v.expanded(z), nil
}

// compare copies an answer to a writer. It returns the length, and what is otherwise than c says.
func (c claim) compare(to io.Writer, a *answer) (n int64, differ []difference, err error) {
	known, _ := digests.Parse(c.hash)
	sums := digests.New(known)
	if n, err = io.Copy(io.MultiWriter(to, sums), a.body); err != nil {
		return n, nil, err
	}
	differs := func(attribute, told, have string) {
		differ = append(differ, difference{attribute, told, have})
	}
	if length, err := strconv.ParseInt(c.length, 10, 64); err == nil && length != n {
		differs("length", c.length, strconv.FormatInt(n, 10))
	}
	if wrong, have, is := sums.Differs(known); is {
		differs("hash", wrong.Algorithm+":"+wrong.Hex, wrong.Algorithm+":"+have)
	}
	if have := a.header.Get("Content-Type"); c.mediaType != "" && have != "" &&
		mediaTypeOf(c.mediaType) != mediaTypeOf(have) {
		differs("type", c.mediaType, have)
	}
	return n, differ, nil
}

// isPackage reports whether a ZIP file comes.
func (a *answer) isPackage() bool {
	magic, _ := a.body.Peek(4)
	return string(magic) == "PK\x03\x04" || string(magic) == "PK\x05\x06"
}
