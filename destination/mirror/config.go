package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"time"

	"carillon/destination/follow"
	"carillon/internal/fetch"
)

const (
	// maxParallel bounds Config.Parallel: each has a connection and a file open.
	maxParallel = 1024
	// maxRedirects is how many are followed for one resource.
	maxRedirects = 5
)

// Config says what to mirror, and where to.
type Config struct {
	// Dir is the directory for the copies, made if it is missing. It belongs to one mirror.
	Dir string
	// Bases are the URLs below which resources are mirrored: absolute, http or https. A resource
	// outside of them is refused, since a loc is a stranger's word for where to ask.
	Bases []string
	// Chosen: the operator has set Bases, and resources outside of them are no trouble.
	Chosen bool
	// Catalog and Ledger are the mirror's memory. Ledger is for Baseline and Audit.
	Catalog Catalog
	Ledger  Ledger
	// Homes knows the directory again: one that has not the Catalog's copies, as its disk is not
	// mounted, is refused. Nil: it is not checked. *pebblestore.Mirrored is one.
	Homes Homes
	// Positions knows up to when the copies have every change. Baseline refuses a Resource Dump
	// that is older, with ErrOlder. Nil: it is not checked.
	Positions Positions
	// ReadOnly is for Audit alone: the directory must be there, and nothing in it is touched.
	ReadOnly bool
	// Delete removes the file of a resource that the Source has deleted. Otherwise it is
	// kept and recorded (Gone).
	Delete bool
	// MaxDelete is how many copies one Baseline or Sweep may delete; default half of them. More are
	// recorded as Gone, and returned as ErrTooMany: a Source that lists next to nothing has trouble of its
	// own more often than it has deleted everything. Deletions in a Change List do not count.
	MaxDelete Share
	// Sync has each file and its directories on the disk before the Catalog says so.
	Sync bool

	// Dump says when Baseline takes content from the packages of a Resource Dump; default DumpNever.
	// With DumpOnly no resource is fetched by itself, by no method.
	Dump DumpMode
	// Packages is the directory for packages of dumps; default one in Dir. An Audit, which touches
	// nothing in Dir, reads packages only with a directory here.
	Packages string
	// Trusts returns an error where the server of a package must not redirect from one address to
	// another, as lists.Client.Trusts does; default: another server.
	Trusts func(from, to *url.URL) error

	// Transport carries the requests; default a transport with limits of its own and the
	// proxy of the environment. It must not unpack what it gets.
	Transport http.RoundTripper
	// UserAgent of requests; default "Carillon-Destination".
	UserAgent string
	// Logger reports what failed. Default: nowhere.
	Logger *slog.Logger

	// Parallel is how many resources are fetched at a time, 1 to 1,024, default 16; PerHost how many
	// of one host, default 8.
	Parallel, PerHost int
	// MaxBytes is how large a resource may be, bytes; default 10 GiB.
	MaxBytes int64
	// MinFree is how many bytes must stay free on the disk; default 256 MiB. File systems
	// that cannot tell are not asked.
	MinFree uint64
	// Timeout bounds the fetching of one resource, default 1 h; Idle how long nothing may come
	// of it, default 30 s.
	Timeout, Idle time.Duration
	// RetryFirst and RetryMax are the first and the longest wait before what failed is tried
	// again, half of it random; defaults 2 s and 6 h.
	RetryFirst, RetryMax time.Duration
}

// Validate names the setting that is wrong, by the flag that it comes from.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return errors.New("mirror: must name a directory")
	}
	if len(c.Bases) == 0 {
		return errors.New("base: is missing")
	}
	for _, raw := range c.Bases {
		if _, err := parseBase(raw); err != nil {
			return err
		}
	}
	switch c.Dump {
	case "", DumpNever, DumpAuto, DumpOnly:
	default:
		return fmt.Errorf("dump: must be %s, %s or %s", DumpAuto, DumpNever, DumpOnly)
	}
	switch {
	case c.Parallel < 0 || c.Parallel > maxParallel:
		return fmt.Errorf("parallel: must be between 1 and %d", maxParallel)
	case c.PerHost < 0:
		return errors.New("per-host: must be 1 or more")
	case c.MaxBytes < 0:
		return errors.New("max-bytes: must not be negative")
	case c.Timeout < 0 || c.Idle < 0 || c.RetryFirst < 0 || c.RetryMax < 0:
		return errors.New("a limit is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Parallel = cmp.Or(c.Parallel, 16)
	c.PerHost = cmp.Or(c.PerHost, 8)
	c.MaxBytes = cmp.Or(c.MaxBytes, 10<<30)
	c.MaxDelete = cmp.Or(c.MaxDelete, Share{Percent: 50})
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.Timeout = cmp.Or(c.Timeout, time.Hour)
	c.Idle = cmp.Or(c.Idle, 30*time.Second)
	c.RetryFirst = cmp.Or(c.RetryFirst, 2*time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 6*time.Hour)
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon-Destination")
	c.PerHost = min(c.PerHost, c.Parallel)
	c.MaxBytes = min(c.MaxBytes, math.MaxInt64-1)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Transport == nil {
		t := fetch.NewTransport(c.PerHost)
		t.MaxIdleConns, t.ReadBufferSize = 2*c.Parallel, copyBuffer
		c.Transport = t
	}
	return c
}

// DumpMode says when content is taken from the packages of a dump.
type DumpMode string

// The modes.
const (
	// DumpNever fetches each resource by itself.
	DumpNever DumpMode = "never"
	// DumpAuto uses a Resource Dump where more than half of the set is missing here, and fetches
	// what the dump lacks, has too old, or has wrong.
	DumpAuto DumpMode = "auto"
	// DumpOnly uses packages, and fetches no resource by itself.
	DumpOnly DumpMode = "only"
)

// Home is which directory has the copies of a Catalog.
type Home struct {
	// ID is in a file of the directory, too; empty while it is unknown.
	ID string
	// Begun: a baseline brought the copies to the Source's state once, or the operator has chosen to begin
	// without.
	Begun bool
	// Moment: the copies are kept as they were at a moment, by BaselineAt; zero: they are not.
	Moment time.Time
}

// Homes keeps a Home, durably.
type Homes interface {
	Home(ctx context.Context) (Home, error)
	SetHome(ctx context.Context, h Home) error
}

// Positions knows up to when changes were taken: *pebblestore.Following does.
type Positions interface {
	Position(ctx context.Context) (follow.Position, error)
}
