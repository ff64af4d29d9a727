package lists

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// Config says how to read. Its zero value is one that works.
type Config struct {
	// Transport carries the requests; default a transport with limits of its own
	// and the proxy of the environment.
	Transport http.RoundTripper
	// UserAgent of requests; default "Carillon-Destination".
	UserAgent string
	// Logger reports what was left out, and why. Default: nowhere.
	Logger *slog.Logger
	// Warn is called for each deviation of a document from the specification. It is called by the
	// goroutine that reads, maybe by several at a time; default: a line of the Logger.
	Warn func(Warning)
	// Limits bound what a reading may cost.
	Limits Limits
	// Timeout bounds the reading of one document, from the request to its last
	// byte; default 5 m.
	Timeout time.Duration
	// Dir is where documents are put down that are too large for memory; default
	// the system's directory for temporary files. A document takes Limits.Bytes
	// at most, and is gone when it was read.
	Dir string
	// Hosts are trusted besides the one at which a reading begins: documents may
	// lead there. "lists.example.org" is that host at any port,
	// "lists.example.org:8443" at that one.
	Hosts []string
}

// Limits bound what a Source may make a Client do. Zero fields have the default.
type Limits struct {
	// Bytes of one document, as it comes and unpacked; default 52,428,800 (core §7).
	Bytes int64
	// Entries of one list; default 50,000 (core §7).
	Entries int
	// Parts of one index; default 50,000 (core §7).
	Parts int
	// Documents of one call of Discover, Changes or Resources, indexes and
	// redirects among them; default 100,000.
	Documents int
	// Sets that one call of Discover finds; default 1,000.
	Sets int
	// Redirects from one address; default 5.
	Redirects int
}

// maxIdlePerHost is how many connections to one host are kept.
const maxIdlePerHost = 4

// Client reads what Sources serve. Its methods may be called by several goroutines
// at a time.
type Client struct {
	cfg Config

	mu     sync.Mutex
	known  map[string]known    // by address; guarded by mu
	warned map[uint64]struct{} // the reported warnings, by their hash; guarded by mu
	seed   maphash.Seed
}

// New returns a Client. The error names the setting that is wrong.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg.withDefaults(), known: map[string]known{}, warned: map[uint64]struct{}{},
		seed: maphash.MakeSeed(),
	}
	return c, nil
}

func (c *Config) validate() error {
	for _, h := range c.Hosts {
		if u, err := url.Parse("//" + h); err != nil || u.Host != h || u.Hostname() == "" ||
			u.User != nil || strings.ContainsAny(h, " \t\r\n") {
			return fmt.Errorf("hosts: %q is not the name of a host, with a port or without", h)
		}
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil {
			return fmt.Errorf("dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("dir: %s is not a directory", c.Dir)
		}
	}
	l := c.Limits
	if c.Timeout < 0 || l.Bytes < 0 ||
		min(l.Entries, l.Parts, l.Documents, l.Sets, l.Redirects) < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	l := c.Limits
	c.Limits = Limits{
		Bytes:     cmp.Or(l.Bytes, payload.MaxReadBytes),
		Entries:   cmp.Or(l.Entries, payload.MaxEntries),
		Parts:     cmp.Or(l.Parts, payload.MaxEntries),
		Documents: cmp.Or(l.Documents, 2*payload.MaxEntries),
		Sets:      cmp.Or(l.Sets, 1000), Redirects: cmp.Or(l.Redirects, 5),
	}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Minute)
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon-Destination")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Warn == nil {
		logger := c.Logger
		c.Warn = func(w Warning) {
			logger.Warn("a document is not as the specification has it", "uri", legible.Cut(w.URI),
				"clause", w.Clause, "found", legible.Cut(w.Message))
		}
	}
	if c.Transport == nil {
		c.Transport = fetch.NewTransport(maxIdlePerHost)
	}
	return c
}
