// Package packages downloads the packages of dumps, and reads their content (core §11, §13).
//
//	lists.Package ──▶ Open: GET, Range ──▶ file in Config.Dir ──▶ length, hash ──▶ unpack.Archive
//	                    ▲      │                                                       │
//	                    └──────┘ goes on after a cut, also after a restart             ▼
//	                                                              Manifest, Content of each entry
//
// A package comes from a stranger: package unpack judges the ZIP, and this package bounds the cost of
// its server in bytes, time and disk. The descriptions in a manifest are not proven here: the keeper
// of a content compares it with the Source's description (package mirror does).
//
// A file stays in Config.Dir until Package.Discard or Client.Sweep, so that a process that was killed
// does not fetch it again. It is used again only where the server, or the hash in the dump, proves
// that it is still the same.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"carillon/destination/lists"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/internal/unpack"
	"carillon/payload"
)

// Errors of Open and Manifest, wrapped with the package's address.
var (
	// ErrAnswer: the server's response is not the package.
	ErrAnswer = errors.New("the package cannot be downloaded")
	// ErrDiffers: the package has not the length or the hash of its description.
	ErrDiffers = errors.New("the package does not match the dump")
	// ErrManifest: the manifest cannot be read, or is not one of this kind of dump.
	ErrManifest = errors.New("the manifest of the package is wrong")
)

// Config says how packages are downloaded. Dir and Transport are mandatory.
type Config struct {
	// Dir is the directory for packages. It belongs to one Client.
	Dir string
	// Transport carries the requests. It must not unpack what it gets.
	Transport http.RoundTripper
	UserAgent string
	// Trusts returns an error where the server of a package must not redirect from one address to
	// another; default fetch.StayAtServer.
	Trusts func(from, to *url.URL) error
	// Logger reports downloads that are repeated. Default: nowhere.
	Logger *slog.Logger
	// Room reports whether the disk has room for so many bytes more; nil: no check.
	Room func(bytes int64) error
	// Came is called with the number of bytes that came; may be nil. It may be called by several
	// goroutines.
	Came func(bytes int64)

	// MaxBytes is how large a package may be, bytes; default 64 GiB.
	MaxBytes int64
	// MinRate is how many bytes a second must come on average in each Window; defaults 1 KiB, 30 s.
	MinRate int64
	Window  time.Duration
	// Timeout bounds one download with all its repetitions; default 24 h.
	Timeout time.Duration
	// Attempts is how many requests in a row may bring less than a Window must; default 5. Retry and
	// RetryMax are the first and the longest wait between them; defaults 1 s and 30 s.
	Attempts        int
	Retry, RetryMax time.Duration
	// Limits bound what is in a package.
	Limits unpack.Limits
}

func (c Config) withDefaults() Config {
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<30)
	c.MinRate = cmp.Or(c.MinRate, 1<<10)
	c.Window = cmp.Or(c.Window, 30*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 24*time.Hour)
	c.Attempts = cmp.Or(c.Attempts, 5)
	c.Retry = cmp.Or(c.Retry, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Trusts == nil {
		c.Trusts = fetch.StayAtServer
	}
	if c.Room == nil {
		c.Room = func(int64) error { return nil }
	}
	if c.Came == nil {
		c.Came = func(int64) {}
	}
	return c
}

// least is how many bytes must come in a Window.
func (c *Config) least() int64 { return max(int64(float64(c.MinRate)*c.Window.Seconds()), 1) }

// Client downloads packages. Its methods may be called by several goroutines, each with packages of
// its own.
type Client struct {
	cfg  Config
	http fetch.Client
	dir  *directory
}

// New returns a Client. It touches nothing.
func New(cfg Config) *Client {
	cfg = cfg.withDefaults()
	return &Client{
		cfg: cfg, dir: &directory{name: cfg.Dir},
		http: fetch.Client{
			Transport: cfg.Transport, Window: cfg.Window, Least: cfg.least(),
			Redirects: maxRedirects, Lead: cfg.Trusts,
		},
	}
}

// Package is a package that was downloaded and whose ZIP was judged. Its methods may be called by
// several goroutines until Close or Discard.
type Package struct {
	lists.Package
	held    *held
	file    *os.File
	archive *unpack.Archive
}

// Open downloads a package, or takes what an earlier download left, and opens it. Its errors are
// ErrAnswer, ErrDiffers, those of package unpack, those of Config.Room and of the disk, and that of ctx.
func (c *Client) Open(ctx context.Context, p lists.Package) (*Package, error) {
	h, err := c.fetch(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", legible.Cut(p.URI), err)
	}
	one, err := c.open(p, h)
	if err != nil {
		if judged(err) {
			err = errors.Join(err, h.drop()) // another download is not begun with it
		}
		return nil, fmt.Errorf("package %s: %w", legible.Cut(p.URI), err)
	}
	return one, nil
}

func (c *Client) open(p lists.Package, h *held) (*Package, error) {
	file, err := h.open()
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var a *unpack.Archive
		if a, err = unpack.Open(file, info.Size(), c.cfg.Limits); err == nil {
			return &Package{Package: p, held: h, file: file, archive: a}, nil
		}
	}
	return nil, errors.Join(err, file.Close())
}

// judged reports whether err is about the ZIP, and not about the disk.
func judged(err error) bool {
	for _, one := range []error{
		unpack.ErrFormat, unpack.ErrTruncated, unpack.ErrEncrypted, unpack.ErrUnsupported,
		unpack.ErrBomb, unpack.ErrNames, unpack.ErrSpecial, unpack.ErrManifest,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// Entry is what a manifest says of a bitstream.
type Entry struct {
	payload.Entry
	// Packed: the package has a file at Path.
	Packed bool
}

// Manifest reads the manifest, which must be of the capability, and visits its entries as they
// stand, before the rest of it was read. An error of visit ends the reading, and is returned. The
// header has what the document says of itself before its first entry. A manifest that names files so
// often that more would come of the package than Config.Limits allow is in error from there on.
func (p *Package) Manifest(capability string, visit func(payload.Header, Entry) error) error {
	r, err := p.archive.Manifest()
	if err != nil {
		return p.failed(err)
	}
	defer r.Close()
	xml := payload.NewReader(r, payload.Limits{})
	head, err := xml.Header()
	if err != nil {
		return p.failed(err)
	}
	if head.Root != payload.RootURLSet || head.Capability != "" && head.Capability != capability {
		return p.failed(
			fmt.Errorf(
				"it is a %s of capability %q, and not of %q", head.Root, legible.Cut(head.Capability), capability,
			),
		)
	}
	named := int64(0) // bytes of files, each as often as the manifest names it
	for {
		e, err := xml.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.failed(err)
		}
		file, packed := p.archive.Lookup(e.Path)
		if err := p.archive.Allows(named + file.Size); err != nil {
			return p.failed(err)
		}
		named += file.Size
		if err := visit(head, Entry{e, packed && e.Path != ""}); err != nil {
			return err
		}
	}
	if head, err = xml.Header(); err == nil && head.Capability != capability {
		err = fmt.Errorf("its capability is %q, and not %q", legible.Cut(head.Capability), capability)
	}
	if err != nil {
		return p.failed(err)
	}
	return nil
}

func (p *Package) failed(err error) error {
	return fmt.Errorf("package %s: %w: %w", legible.Cut(p.URI), ErrManifest, err)
}

// Content opens the bitstream at a path of the manifest. Its errors, and those of reading it, are
// those of package unpack and of the disk.
func (p *Package) Content(path string) (io.ReadCloser, error) { return p.archive.Open(path) }

// Close ends the use of the package, and keeps its file for another Open.
func (p *Package) Close() error { return p.file.Close() }

// Discard ends the use of the package, removes its file, and has Used report it until Sweep.
func (p *Package) Discard() error { return errors.Join(p.file.Close(), p.held.used()) }

// Has reports whether a part of the package is there, as the dump describes it now.
func (c *Client) Has(p lists.Package) bool {
	n, ok := c.info(p)
	return ok && n.of(&p)
}

// Used reports whether the package was discarded, as the dump describes it now, since the last Sweep.
func (c *Client) Used(p lists.Package) bool {
	n, ok := c.info(p)
	return ok && n.Used && n.of(&p)
}

func (c *Client) info(p lists.Package) (fileInfo, bool) {
	root, err := c.dir.begun()
	if root == nil || err != nil {
		return fileInfo{}, false
	}
	return (&held{root: root, name: nameOf(p.URI)}).read()
}

// Begun reports whether an earlier use of packages was not ended by Sweep.
func (c *Client) Begun() (bool, error) {
	root, err := c.dir.begun()
	return root != nil, err
}

// Close gives the directory back, with what is in it.
func (c *Client) Close() error { return c.dir.close() }

// Sweep removes all that earlier downloads left, and the directory.
func (c *Client) Sweep() error { return c.dir.sweep() }
