package dump

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/fetch"
	"carillon/notifier"
	"carillon/payload"
)

// Defaults of Config.
const (
	DefaultEvery        = 24 * time.Hour
	DefaultKeep         = 48 * time.Hour
	DefaultPackageBytes = 1 << 30
	DefaultBytes        = 64 << 30
	DefaultMinFree      = 512 << 20
)

// Bounds of Config.
const (
	shortestEvery = time.Minute
	longestEvery  = 31 * 24 * time.Hour
	// LeastPackageBytes is the least bound of a package, so that a manifest has room.
	LeastPackageBytes = 1 << 20
)

// Set is one set of resources to dump.
type Set struct {
	Name string
	// Source has the content. Nil: resources are fetched from their addresses.
	Source Source
}

// Config says what is dumped, and how. Notifier, Store, Dir and Sets must be set.
type Config struct {
	// Notifier serves the dumps, and has the clock.
	Notifier *notifier.Notifier
	// Store is that of the notifier.
	Store notifier.Store
	// Sets are those to dump. The resources of each must be known: notifier.ErrNotWhole.
	Sets []Set
	// Dir is the directory for the dumps, made if it does not exist; nothing else may be in it.
	Dir string
	// Every is how often a Resource Dump is made, 1 min to 744 h. Default 24 h.
	Every time.Duration
	// Keep is how long a Resource Dump stays after the next one took its place. Default 48 h.
	Keep time.Duration
	// PackageBytes bounds a package, 1 MiB or more. Default 1 GiB. Content that is larger has a
	// package to itself.
	PackageBytes int64
	// PackageEntries bounds the entries of a package, 1 to 50,000. Default 50,000.
	PackageEntries int
	// Packages bounds the packages of a Resource Dump, and those of the Change Dump, 1 to 50,000
	// (core §7). Default 50,000, or fewer where these do not fit in a document.
	Packages int
	// Bytes bounds the disk that all dumps take, with what is being made. Default 64 GiB.
	Bytes int64
	// MinFree is how many bytes dumps leave free on the disk, where that is known. Default 512 MiB:
	// the journal, which is there too, takes nothing any more where less than half of that is free.
	MinFree int64
	// Transport makes the requests for content. It must not unpack what it gets. Default: one of
	// its own, with the proxy of the environment.
	Transport http.RoundTripper
	// UserAgent is sent with these. Default "Carillon".
	UserAgent string
	// Logger takes what an operator should know. Default: nowhere.
	Logger *slog.Logger
	// Registry takes the metrics. Default: a new one.
	Registry prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Keep = cmp.Or(c.Keep, DefaultKeep)
	c.PackageBytes = cmp.Or(c.PackageBytes, DefaultPackageBytes)
	c.PackageEntries = cmp.Or(c.PackageEntries, payload.MaxEntries)
	c.Packages = cmp.Or(c.Packages, payload.MaxEntries)
	c.Bytes = cmp.Or(c.Bytes, DefaultBytes)
	c.MinFree = cmp.Or(c.MinFree, DefaultMinFree)
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon")
	if c.Transport == nil {
		c.Transport = fetch.NewTransport(perHost)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// Validate reports, in one line, whether New takes the settings but for Notifier, Store and Sets.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Dir == "":
		return errors.New("dump: the directory has no name")
	case c.Every < shortestEvery || c.Every > longestEvery:
		return fmt.Errorf("dump-every must be %s to %s, not %s", shortestEvery, longestEvery, c.Every)
	case c.Keep < 0:
		return fmt.Errorf("dump-keep must not be negative, as %s is", c.Keep)
	case c.PackageBytes < LeastPackageBytes:
		return fmt.Errorf("dump-package-bytes must be %d or more, not %d", LeastPackageBytes, c.PackageBytes)
	case c.PackageEntries < 1 || c.PackageEntries > payload.MaxEntries:
		return fmt.Errorf("PackageEntries must be 1 to %d, not %d", payload.MaxEntries, c.PackageEntries)
	case c.Packages < 1 || c.Packages > payload.MaxEntries:
		return fmt.Errorf("the packages of a dump must be 1 to %d, not %d", payload.MaxEntries, c.Packages)
	case c.Bytes < c.PackageBytes:
		return fmt.Errorf("dump-bytes must be at least %d, the largest package, not %d; "+
			"allow more, or smaller packages (--dump-package-bytes)", c.PackageBytes, c.Bytes)
	}
	return nil
}
