package house

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery/send"
	"carillon/internal/engine"
	"carillon/internal/machine"
	"carillon/operator/api"
	"carillon/topic"
)

// Config says how a hub works. It has the fields of carillon.Config, which documents them, so that
// one converts into the other.
type Config struct {
	URL           string
	Store         string
	RedisPassword string
	RedisReplicas int
	AllowEviction bool
	Takeover      time.Duration
	Logger        *slog.Logger
	Level         interface {
		Get() string
		Set(name string) error
	}
	Registerer                       prometheus.Registerer
	Gatherer                         prometheus.Gatherer
	Warnings                         func() []string
	Names                            func(field string) string
	AllowNet                         []netip.Prefix
	AllowPort                        []string
	Proxy                            string
	ProxyFilters                     bool
	ConnectionBytes                  int64
	KeyExchange                      string
	DNSTTL                           time.Duration
	Resolver                         *net.Resolver
	Publishers                       string
	TrustedProxy                     []netip.Prefix
	TraceCallbacks                   bool
	LeaseMin, LeaseDefault, LeaseMax time.Duration
	RetryFirst, RetryMax             time.Duration
	RetryFor                         time.Duration
	DeliveryTimeout                  time.Duration
	Signature                        string
	SignatureFor                     map[string]string
	TopicCheckTTL                    time.Duration
	MaxBody                          int64
	KeepAtLeast                      time.Duration
	KeepFor                          time.Duration
	KeepBytes                        int64
	NoChangeMemory                   bool
	ChangeMemoryFor                  time.Duration
	ChangeMemoryBytes                int64
	OperatorToken                    func() string
	OperatorPprof                    bool
	Listen                           func(ctx context.Context) error
	Serve                            func(ctx context.Context, handler http.Handler) error
	StopWithin                       time.Duration
	OwnProcess                       bool
	SelfTLS                          *tls.Config
	NoSelfCheck                      bool
}

// The values of Config.Proxy and Config.KeyExchange that mean something of
// their own.
const (
	proxyFromEnvironment = "environment" // the proxy that the environment names
	hybridExchange       = "hybrid"
	classicExchange      = "classic" // without post-quantum methods
)

// Bounds of a Config.
const (
	// minKeepAtLeast is the least KeepAtLeast: logs are trimmed each second at most, and what
	// other processes say of their cursors is a few times that old.
	minKeepAtLeast = 5 * time.Second
	// minKeepBytes is the least KeepBytes. With less every log would be cut to a few
	// notifications; it stops a 10 that was to be 10GiB.
	minKeepBytes = 1_000_000
	// maxMaxBody is the largest MaxBody: a publication is held in memory.
	maxMaxBody = 1 << 30
	// minConnectionBytes is the least ConnectionBytes: with less hardly a connection would be
	// kept.
	minConnectionBytes = 1_000_000
	// minTakeover and maxTakeover bound Takeover: below, a pause of the network or of the machine
	// takes a shard away. Above, a shard rests for too long after its owner has died.
	minTakeover, maxTakeover = time.Second, 5 * time.Minute
	// minStopWithin is the least StopWithin.
	minStopWithin = 5 * time.Second
)

// WithDefaults returns the Config with its defaults where a field is zero.
func (c Config) WithDefaults() Config {
	c.Takeover = cmp.Or(c.Takeover, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.ConnectionBytes = cmp.Or(c.ConnectionBytes, 512<<20)
	c.KeyExchange = cmp.Or(c.KeyExchange, hybridExchange)
	c.DNSTTL = cmp.Or(c.DNSTTL, 30*time.Second)
	c.Publishers = cmp.Or(c.Publishers, api.Everybody)
	c.LeaseMin = cmp.Or(c.LeaseMin, 5*time.Minute)
	c.LeaseDefault = cmp.Or(c.LeaseDefault, 240*time.Hour)
	c.LeaseMax = cmp.Or(c.LeaseMax, 744*time.Hour)
	c.RetryFirst = cmp.Or(c.RetryFirst, 5*time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, time.Hour)
	c.RetryFor = cmp.Or(c.RetryFor, 72*time.Hour)
	c.DeliveryTimeout = cmp.Or(c.DeliveryTimeout, 30*time.Second)
	c.Signature = cmp.Or(c.Signature, "sha256")
	c.TopicCheckTTL = cmp.Or(c.TopicCheckTTL, 10*time.Minute)
	c.MaxBody = cmp.Or(c.MaxBody, 50<<20)
	c.KeepAtLeast = cmp.Or(c.KeepAtLeast, 5*time.Minute)
	c.KeepBytes = cmp.Or(c.KeepBytes, 10<<30)
	c.StopWithin = cmp.Or(c.StopWithin, 23*time.Second)
	return c
}

// Format shows only where the hub is, because a Config holds passwords. A URL with a user name,
// which Open refuses, is not shown.
func (c Config) Format(s fmt.State, _ rune) {
	where := c.URL
	if strings.Contains(where, "@") {
		where = "…"
	}
	fmt.Fprintf(s, "hub %s on %s", where, c.Engine().Shown())
}

// name returns what users call a field.
func (c Config) name(field string) string {
	if c.Names == nil {
		return field
	}
	return c.Names(field)
}

// Validate returns all that is wrong with a Config that has its defaults.
func (c Config) Validate() error {
	var all []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"LeaseMin", c.LeaseMin},
		{"LeaseDefault", c.LeaseDefault},
		{"LeaseMax", c.LeaseMax},
		{"RetryFirst", c.RetryFirst},
		{"RetryMax", c.RetryMax},
		{"RetryFor", c.RetryFor},
		{"DeliveryTimeout", c.DeliveryTimeout},
		{"TopicCheckTTL", c.TopicCheckTTL},
		{"DNSTTL", c.DNSTTL},
	} {
		refuse(d.value <= 0, "%s must be more than 0, not %s", c.name(d.field), d.value)
	}
	refuse(c.LeaseMin > c.LeaseDefault || c.LeaseDefault > c.LeaseMax, "the leases must be %s <= %s <= %s, not %s, %s, %s",
		c.name("LeaseMin"), c.name("LeaseDefault"), c.name("LeaseMax"), c.LeaseMin, c.LeaseDefault, c.LeaseMax)
	refuse(
		c.RetryFirst > c.RetryMax, "%s (%s) must not be longer than %s (%s)", c.name("RetryFirst"),
		c.RetryFirst, c.name("RetryMax"), c.RetryMax,
	)
	refuse(
		c.Takeover < minTakeover || c.Takeover > maxTakeover, "%s must be from %s to %s, not %s",
		c.name("Takeover"), minTakeover, maxTakeover, c.Takeover,
	)
	refuse(
		c.StopWithin < minStopWithin, "%s must be %s or more, not %s", c.name("StopWithin"),
		minStopWithin, c.StopWithin,
	)
	refuse(
		c.MaxBody < 1 || c.MaxBody > maxMaxBody, "%s must be from 1 byte to 1GiB, not %d bytes",
		c.name("MaxBody"), c.MaxBody,
	)
	refuse(
		c.Publishers != api.Everybody && c.Publishers != api.Registered,
		"%s must be %s or %s, not %q", c.name("Publishers"), api.Everybody, api.Registered,
		c.Publishers,
	)
	return errors.Join(
		append(all, c.validateKeeping(), c.validateOutbound(), c.validateSignatures(), c.Engine().Validate())...,
	)
}

// validateKeeping refuses bounds of the logs that cannot be kept.
func (c Config) validateKeeping() error {
	var all []error
	if c.KeepAtLeast < minKeepAtLeast {
		all = append(
			all, fmt.Errorf("%s must be %s or more, not %s", c.name("KeepAtLeast"), minKeepAtLeast, c.KeepAtLeast),
		)
	}
	if c.KeepFor > 0 && c.KeepFor < c.KeepAtLeast {
		all = append(all, fmt.Errorf("%s (%s) must not be shorter than %s (%s), unless there is no bound by age",
			c.name("KeepFor"), c.KeepFor, c.name("KeepAtLeast"), c.KeepAtLeast))
	}
	if c.KeepBytes >= 0 && c.KeepBytes < minKeepBytes {
		all = append(
			all,
			fmt.Errorf(
				"%s must be 1MB or more, unless there is no bound, not %d bytes", c.name("KeepBytes"), c.KeepBytes,
			),
		)
	}
	switch {
	case c.ChangeMemoryBytes != 0 && c.ChangeMemoryBytes < minKeepBytes:
		all = append(all, fmt.Errorf("%s must be 1MB or more, not %d bytes", c.name("MemoryBytes"), c.ChangeMemoryBytes))
	case c.KeepBytes > 0 && c.ChangeMemoryBytes > c.KeepBytes:
		all = append(
			all,
			fmt.Errorf(
				"%s (%d bytes) must not be more than %s (%d bytes)", c.name("MemoryBytes"),
				c.ChangeMemoryBytes, c.name("KeepBytes"), c.KeepBytes,
			),
		)
	}
	return errors.Join(all...)
}

// validateSignatures refuses unknown algorithms, and client networks from which no client
// can connect.
func (c Config) validateSignatures() error {
	var all []error
	if err := send.CheckSignature(c.Signature); err != nil {
		all = append(all, fmt.Errorf("%s: %w", c.name("Signature"), err))
	}
	for host, method := range c.SignatureFor {
		if !isHost(host) {
			all = append(
				all,
				fmt.Errorf(
					"%s: %q is not the host of a callback: write it in small letters, without a port",
					c.name("SignatureFor"), host,
				),
			)
		}
		if err := send.CheckSignature(method); err != nil {
			all = append(all, fmt.Errorf("%s: %s: %w", c.name("SignatureFor"), host, err))
		}
	}
	for _, p := range c.TrustedProxy {
		switch {
		case !p.IsValid():
			all = append(all, fmt.Errorf("%s: a network is missing: write it as 192.0.2.0/24", c.name("TrustedProxy")))
		case p.Addr().Is4In6():
			all = append(all, fmt.Errorf("%s %s: write a network of IPv4 as 192.0.2.0/24", c.name("TrustedProxy"), p))
		}
	}
	return errors.Join(all...)
}

// isHost reports whether host is one as callbacks are compared by it.
func isHost(host string) bool {
	authority := host
	if strings.Contains(host, ":") {
		authority = "[" + host + "]"
	}
	return host != "" && topic.Host("http://"+authority+"/") == host
}

// warnings returns what loses what others promise, although it can be kept.
func (c Config) warnings() (all []string) {
	for _, p := range c.TrustedProxy {
		if p.Bits() <= 1 {
			all = append(
				all,
				fmt.Sprintf(
					"%s takes in everybody (%s): who connects names his own address by X-Forwarded-For, and limits for a client stop nobody. Give the networks of the proxies alone",
					c.name("TrustedProxy"), p,
				),
			)
		}
	}
	return all
}

// warn logs the warnings, and what is kept for less long than it is retried.
func (c Config) warn() {
	if c.KeepFor > 0 && c.KeepFor < c.RetryFor {
		c.Logger.Warn("--keep-for is shorter than --retry-for: what is retried for longer than --keep-for leaves its log, and may be a gap before it is given up",
			"keep_for", c.KeepFor, "retry_for", c.RetryFor)
	}
	for _, warning := range c.warnings() {
		c.Logger.Warn(warning)
	}
}

// Check returns everything that would keep Open from working, as far as it shows without opening
// anything, and logs what a start would warn of.
func (c Config) Check() error {
	return errors.Join(c.WithDefaults().Validate(), c.CheckEnvironment())
}

// Look is Check without Validate.
func (c Config) CheckEnvironment() error {
	c = c.WithDefaults()
	c.warn()
	held, files := c.budgets(), machine.OpenFiles()
	held.logLimit(c.Logger, machine.MemoryLimit(), c.MaxBody, c.ConnectionBytes)
	partsOf(files).logLimit(c.Logger, files)
	for _, warning := range c.Engine().Exposed() {
		c.Logger.Warn(warning)
	}
	return errors.Join(checkFiles(files), c.Engine().Check(), c.checkOutbound(), c.validateURL())
}

// Connections returns how many connections the listeners of a hub should have open at most, and how
// many it has to callbacks and topics.
func Connections() (public, operator, outgoing int) {
	p := partsOf(machine.OpenFiles())
	return p.public, p.operator, p.conns
}

// budgets are the parts that what is large has of the memory.
func (c Config) budgets() budgets {
	return budgetsWithin(machine.MemoryLimit(), c.MaxBody, c.ConnectionBytes)
}

// Engine returns the part of the Config that is about the store.
func (c Config) Engine() engine.Config {
	return engine.Config{
		Store: c.Store, Password: c.RedisPassword, Replicas: c.RedisReplicas, AllowEviction: c.AllowEviction,
		Takeover: c.Takeover, MaxBody: c.MaxBody, Names: c.Names, Logger: c.Logger,
	}
}

// FinishWithin is stageWithin for servers.
func (c Config) FinishWithin() time.Duration { return c.WithDefaults().stageWithin() }

// stageWithin bounds each of the two long stages of the end, the requests under way and the
// deliveries.
func (c Config) stageWithin() time.Duration { return min(longestStage, (c.StopWithin-forPositions)/2) }

const (
	// longestStage is the longest stage of the end.
	longestStage = 10 * time.Second
	// forPositions is the part of StopWithin for the last positions.
	forPositions = 3 * time.Second
)
