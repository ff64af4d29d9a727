package source

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/topic"
)

// ErrUnknownToken: no Source has the token: it is wrong, or was revoked.
var ErrUnknownToken = errors.New("no Source has this token")

// Config says how old what a Registry knows may be. A field that is zero takes its default.
type Config struct {
	// Every is how often Run reads the Sources: how long one that another process
	// revoked is let in, besides the time of a reading. Default 5 s.
	Every time.Duration
	// Stale is for how long what was read counts while the Store cannot be read. Default 5 m.
	Stale time.Duration
	// Unknown is the least pause between two readings because of unknown tokens:
	// a new token works at once, and a flood of wrong ones does not reach the Store.
	// Default 1 s.
	Unknown time.Duration
	// ReadTimeout ends a reading that takes longer; the Store is then taken to be
	// away. Default 5 s.
	ReadTimeout time.Duration
}

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Every, 5 * time.Second},
		{&c.Stale, 5 * time.Minute},
		{&c.Unknown, time.Second},
		{&c.ReadTimeout, 5 * time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return c
}

// Validate refuses limits that cannot be kept.
func (c Config) Validate() error {
	c = c.withDefaults()
	if min(c.Every, c.Stale, c.Unknown, c.ReadTimeout) < 0 {
		return errors.New("source: a time of the Config is negative")
	}
	if c.Stale <= c.Every+c.ReadTimeout {
		return fmt.Errorf("source: Stale (%s) must be longer than Every and ReadTimeout together", c.Stale)
	}
	return nil
}

// Registry knows the Sources of a Store by their tokens. All are in memory, so that
// who publishes does not wait for the Store. Its methods may be called from any goroutine.
type Registry struct {
	store  Store
	cfg    Config
	logger *slog.Logger

	current atomic.Pointer[table] // the last reading; nil before the first

	reading chan struct{} // holds one value, for the reader: readings do not overtake each other
	looked  time.Time     // when the last reading for an unknown token began. Owned by reading.
	failure error         // how that one failed. Owned by reading.
}

// NewRegistry returns a Registry, which has read nothing yet. The logger and the registerer may be nil.
func NewRegistry(store Store, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{store: store, cfg: cfg.withDefaults(), logger: logger, reading: make(chan struct{}, 1)}
	if reg == nil {
		return r, nil
	}
	return r, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "source", Name: "registered", Help: "Sources that may publish, as read last.",
	}, func() float64 { return float64(r.Count()) }))
}

// Grant is what a token is good for, at the moment.
type Grant struct {
	name     string
	hash     Hash
	prefixes []topic.Prefix
}

// Name is the Source's.
func (g *Grant) Name() string { return g.name }

// Covers reports whether the Source may publish to the topic.
func (g *Grant) Covers(at topic.Address) bool { return topic.Covers(g.prefixes, at) }

// table is what was read at one time. It is never changed.
type table struct {
	began  time.Time // when the reading did
	count  int
	grants map[[8]byte][]*Grant // by the beginning of the hash
}

func newTable(began time.Time, all []Source) *table {
	t := &table{began: began, count: len(all), grants: make(map[[8]byte][]*Grant, len(all))}
	for _, s := range all {
		at := [8]byte(s.TokenHash[:])
		t.grants[at] = append(t.grants[at], &Grant{name: s.Name, hash: s.TokenHash, prefixes: parsed(s.Prefixes)})
	}
	return t
}

// parsed reads prefixes. An invalid text covers nothing: an older hub may have stored it.
func parsed(texts []string) (prefixes []topic.Prefix) {
	for _, text := range texts {
		if p, err := topic.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// find returns the grant of a token by its hash, or nil. Its time depends on the
// beginning of the hash, which a client cannot choose. The rest is compared in constant time.
func (t *table) find(hash Hash) *Grant {
	for _, g := range t.grants[[8]byte(hash[:])] {
		if subtle.ConstantTimeCompare(g.hash[:], hash[:]) == 1 {
			return g
		}
	}
	return nil
}

// Count is how many Sources there were when they were read last.
func (r *Registry) Count() int {
	if t := r.current.Load(); t != nil {
		return t.count
	}
	return 0
}

// usable returns what was read last, or nil where that is too old, or nothing was.
func (r *Registry) usable() *table {
	if t := r.current.Load(); t != nil && time.Since(t.began) <= r.cfg.Stale {
		return t
	}
	return nil
}

// Authenticate returns the grant of the token. It returns ErrUnknownToken if no Source has it, and
// ErrUnavailable if the registry cannot know.
func (r *Registry) Authenticate(ctx context.Context, token Token) (*Grant, error) {
	hash := token.Hash()
	if t := r.usable(); t != nil {
		if g := t.find(hash); g != nil {
			return g, nil
		}
	}
	t, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if g := t.find(hash); g != nil {
		return g, nil
	}
	return nil, ErrUnknownToken
}

// look returns what there is now for a token that was unknown a moment ago. It reads the
// Store once in Config.Unknown; in between, what was found then counts.
func (r *Registry) look(ctx context.Context) (*table, error) {
	came := time.Now()
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	defer r.unlock()
	if t := r.usable(); t != nil && !t.began.Before(came) {
		return t, nil // another has looked meanwhile
	}
	if r.looked.IsZero() || time.Since(r.looked) >= r.cfg.Unknown {
		r.looked = time.Now()
		// For all callers that wait: this one may hang up.
		r.failure = r.read(context.WithoutCancel(ctx))
	}
	if r.failure != nil {
		return nil, r.failure
	}
	if t := r.usable(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: the Sources were not read for too long", ErrUnavailable)
}

// Refresh reads the Sources now. If it returns nil, every change before the call is in effect.
func (r *Registry) Refresh(ctx context.Context) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	err := r.read(ctx)
	if err == nil {
		r.failure = nil
	}
	return err
}

func (r *Registry) lock(ctx context.Context) error {
	select {
	case r.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Registry) unlock() { <-r.reading }

// read reads the Sources. The caller holds reading.
func (r *Registry) read(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, r.cfg.ReadTimeout)
	defer cancel()
	began := time.Now()
	all, err := r.store.List(bounded)
	if err == nil {
		r.current.Store(newTable(began, all))
		return nil
	}
	if ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("read the Sources: %w", err)
}

// Run reads the Sources every Config.Every until ctx ends, and returns nil. While they
// cannot be read it says so once, and goes on trying.
func (r *Registry) Run(ctx context.Context) error {
	away := false
	for {
		err := r.Refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			r.logger.Error("the Sources cannot be read: the known ones may publish for so long, and none after that",
				"for", r.cfg.Stale.String(), "error", err)
		case err == nil && away:
			r.logger.Info("the Sources are read again", "count", r.Count())
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.cfg.Every):
		}
	}
}
