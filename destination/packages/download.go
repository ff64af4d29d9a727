package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"carillon/destination/lists"
	"carillon/internal/await"
	"carillon/internal/digests"
	"carillon/internal/fetch"
	"carillon/internal/legible"
)

const (
	maxRedirects = 5
	// copyBuffer is how much of a package is held at a time, bytes.
	copyBuffer = 128 << 10
)

var errTooLong = errors.New("it took too long")

// passing returns a failure that may pass. Another request is made then.
func passing(format string, args ...any) error {
	return &fetch.Trouble{Kind: fetch.Broken, Err: fmt.Errorf(format, args...)}
}

// fetch has the file of a package be there, whole. A file that was put together of several
// responses and is wrong is fetched once more, from its beginning.
func (c *Client) fetch(ctx context.Context, p lists.Package) (*held, error) {
	limit := c.cfg.MaxBytes
	if p.Length > limit {
		return nil, fmt.Errorf("%w: it has %d bytes, more than the limit of %d", ErrAnswer, p.Length, limit)
	}
	if p.Length >= 0 {
		limit = p.Length
	}
	h, err := c.hold(p)
	if err != nil {
		return nil, err
	}
	known, _ := digests.Parse(p.Hash)
	if h.info.Whole && len(known) > 0 {
		return h, nil // it was compared with the hash
	}
	// An earlier run had all of it, and ended before that was noted. Without a hash the server is
	// asked whether it is still the same.
	ended := h.size > 0 && h.size == h.info.Total
	h.info.Whole = ended && len(known) == 0
	outer := ctx
	ctx, stop := context.WithTimeoutCause(ctx, c.cfg.Timeout, errTooLong)
	defer stop()
	for ; ; ended = false {
		d := download{c: c, h: h, limit: limit, joined: h.size > 0}
		if !ended || h.info.Whole {
			err = d.run(ctx)
		}
		if err == nil && d.unchanged {
			return h, nil
		}
		if err == nil {
			err = verify(ctx, h, p, known)
		}
		switch {
		case err == nil:
			h.info.Whole = true
			return h, h.write()
		case outer.Err() != nil:
			return nil, outer.Err()
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrAnswer, context.Cause(ctx))
		case !errors.Is(err, ErrDiffers):
			return nil, err
		}
		if err := errors.Join(err, h.drop()); !d.joined {
			return nil, err
		}
		c.cfg.Logger.Warn(
			"a package that was downloaded in parts is wrong: it is downloaded again",
			"uri", legible.Cut(p.URI), "reason", err,
		)
	}
}

// verify compares the file with its description in the dump.
func verify(ctx context.Context, h *held, p lists.Package, known []digests.Digest) error {
	if p.Length >= 0 && h.size != p.Length {
		return fmt.Errorf("%w: it has %d bytes, and the dump has %d", ErrDiffers, h.size, p.Length)
	}
	h.info.Total = h.size
	if len(known) == 0 {
		return nil
	}
	file, err := h.open()
	if err != nil {
		return err
	}
	defer file.Close()
	sums := digests.New(known)
	if _, err := io.CopyBuffer(sums, untilDone{ctx, file}, make([]byte, copyBuffer)); err != nil {
		return err
	}
	if wrong, have, is := sums.Differs(known); is {
		return fmt.Errorf("%w: its hash is %s:%s, and the dump has %s", ErrDiffers, wrong.Algorithm, have, wrong.Hex)
	}
	return nil
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx  context.Context // of one call
	from io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// download is one download, with as many requests as it takes.
type download struct {
	c     *Client
	h     *held
	limit int64
	// joined: the file has parts of several responses; unchanged: the server says that the whole
	// file that was there is what it has.
	joined, unchanged bool
}

// run asks until all of the file is there.
func (d *download) run(ctx context.Context) error {
	wait, failures := d.c.cfg.Retry, 0
	for {
		before := d.h.size
		err := d.ask(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		t, is := errors.AsType[*fetch.Trouble](err)
		switch {
		case !is:
			return err
		case t.Kind == fetch.Missing || t.Kind == fetch.Refused:
			return fmt.Errorf("%w: %w", ErrAnswer, t)
		}
		if d.h.size-before >= d.c.cfg.least() {
			wait, failures = d.c.cfg.Retry, 0
		}
		if failures++; failures >= d.c.cfg.Attempts {
			return fmt.Errorf("%w: %w, after %d attempts", ErrAnswer, err, failures)
		}
		pause := min(max(wait, t.After), d.c.cfg.RetryMax)
		d.c.cfg.Logger.Info("the download of a package broke off, and goes on", "uri", legible.Cut(d.h.info.URI),
			"bytes", d.h.size, "reason", legible.Cut(err.Error()), "pause", pause)
		if err := await.For(ctx, pause); err != nil {
			return err
		}
		wait *= 2
	}
}

// ask makes one request, and takes what comes.
func (d *download) ask(ctx context.Context) error {
	if d.h.size > 0 && d.h.info.validators() == (fetch.Validators{}) {
		d.h.forget() // the rest may belong to another file
	}
	req, err := d.request(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	resp, err := d.c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := d.prepare(resp); err != nil || d.unchanged {
		return err
	}
	return d.read(resp.Body)
}

func (d *download) request(ctx context.Context) (*http.Request, error) {
	n := &d.h.info
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URI, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", d.c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	switch {
	case d.h.size == 0:
	case n.Whole:
		n.validators().Ask(req.Header)
	default:
		n.validators().Range(req.Header, d.h.size)
	}
	return req, nil
}

// prepare judges a response by its header, and prepares the file for its body.
func (d *download) prepare(resp *http.Response) error {
	h := d.h
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		if err := h.drop(); err != nil { // before the new validators are written
			return err
		}
		d.joined = false
		known := fetch.ValidatorsOf(resp.Header).Strong()
		h.info.ETag, h.info.LastModified = known.ETag, known.LastModified
		h.info.Total = resp.ContentLength
	case code == http.StatusPartialContent && h.size > 0 && !h.info.Whole:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		tag := resp.Header.Get("ETag")
		if !ok || from != h.size || h.info.Total >= 0 && total >= 0 && total != h.info.Total || tag != "" && h.info.ETag != "" && tag != h.info.ETag {
			h.forget()
			return passing("it sent a part that does not follow on what is there")
		}
		d.joined = true
		h.info.Total = max(h.info.Total, total)
	case code == http.StatusNotModified && h.info.Whole:
		d.unchanged = true
		return nil
	case code == http.StatusRequestedRangeNotSatisfiable && h.size > 0:
		h.forget()
		return passing("it has fewer bytes than there were")
	default:
		return fetch.Judge(resp)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fmt.Errorf("%w: its server sends it in the coding %q", ErrAnswer, legible.Cut(coding))
	}
	total := h.info.Total
	if total > d.limit || total >= 0 && d.h.info.Length >= 0 && total != d.h.info.Length {
		return fmt.Errorf(
			"%w: its server has %d bytes; the dump has %d, and the limit is %d", ErrDiffers,
			total, d.h.info.Length, d.limit,
		)
	}
	if err := d.c.cfg.Room(max(total, d.h.info.Length) - h.size); err != nil {
		return err
	}
	return h.write()
}

// contentRange reads that header; total is -1 where it is missing.
func contentRange(s string) (from, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, all, cut := strings.Cut(s, "/")
	begin, _, dash := strings.Cut(span, "-")
	from, err := strconv.ParseInt(begin, 10, 64)
	if !ok || !cut || !dash || err != nil || from < 0 {
		return 0, 0, false
	}
	if all == "*" {
		return from, -1, true
	}
	total, err = strconv.ParseInt(all, 10, 64)
	return from, total, err == nil && total >= from
}

// read appends what comes to the file.
func (d *download) read(body io.Reader) error {
	file, err := d.h.writer()
	if err != nil {
		return err
	}
	err = d.copy(file, body)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func (d *download) copy(file *os.File, body io.Reader) error {
	buffer := make([]byte, copyBuffer)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			d.c.cfg.Came(int64(n))
			if d.h.size+int64(n) > d.limit {
				return fmt.Errorf("%w: it has more than %d bytes", ErrDiffers, d.limit)
			}
			if d.h.info.Total < 0 && d.h.info.Length < 0 {
				if err := d.c.cfg.Room(int64(n)); err != nil {
					return err
				}
			}
			if _, err := file.Write(buffer[:n]); err != nil {
				return err
			}
			d.h.size += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF) && (d.h.info.Total < 0 || d.h.size == d.h.info.Total):
			return nil
		case errors.Is(err, io.EOF):
			return passing("it ended after %d of %d bytes", d.h.size, d.h.info.Total)
		case err != nil:
			return err
		}
	}
}
