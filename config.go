package carillon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how a hub works. Only URL and Store are required: the zero value of every other field
// is its default. Each field that command hub has a flag for has the flag's name (RetryFor is
// --retry-for) and its meaning; docs/configuration.md has more words on each.
//
// Open reports every value that cannot be kept, by the name of its field.
type Config struct {
	// URL is the hub URI as publishers and subscribers reach it, http or https, with a path at
	// which Handler serves: https://hub.example.org/websub/. Topics name it (WebSub §4), and
	// subscriptions last, so it must stay the same. Where its host is loopback, callbacks and
	// topics on loopback are allowed. Required.
	URL string

	// Store says where everything is kept: pebble:DIRECTORY, which one process has to itself; or
	// Redis, which several processes share: redis://USER@HOST:PORT/DB, rediss:// (TLS),
	// redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB or redis+cluster://HOST:PORT,HOST:PORT.
	// Required.
	Store string
	// RedisPassword is the password of Redis, where Store has none.
	RedisPassword string
	// RedisReplicas is how many replicas confirm what Redis acknowledges, 0 to 100. With fewer
	// the hub answers 503. 0 leaves it to Store.
	RedisReplicas int
	// AllowEviction starts although the maxmemory-policy of Redis lets it drop what was
	// acknowledged.
	AllowEviction bool
	// Takeover is, with Redis, how long a process may be silent before others take over its part:
	// 1 s to 5 min; default 10 s.
	Takeover time.Duration

	// Logger takes the log lines; default: none are written.
	Logger *slog.Logger
	// Level is the least level of log lines, for the operator's API and page to show and change;
	// nil: they cannot. Set refuses what is no level.
	Level interface {
		Get() string
		Set(name string) error
	}
	// Registerer takes the hub's metrics, all or none; nil: only Operator shows them. Two hubs
	// with one registry need prometheus.WrapRegistererWith. Close takes them out again.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics of Operator shows; nil: the metrics of this hub alone.
	Gatherer prometheus.Gatherer
	// Warnings returns what else the operator must know, each with what to do, for /readyz and the
	// operator's page. It does not block. nil: nothing.
	Warnings func() []string
	// Names returns what errors, warnings and log lines call a field, where users of the
	// program know it by another name, as that of a flag; nil: the field's name.
	Names func(field string) string

	// AllowNet are private networks that callbacks and topics may be in. All other special
	// addresses are refused, by the address that is dialed.
	AllowNet []netip.Prefix
	// AllowPort are ports that callbacks and topics may have besides 80, 443 and those above 1023
	// that no other service is known by, each N or N-M.
	AllowPort []string
	// Proxy is the HTTP proxy by which all connections to callbacks and topics go,
	// http://HOST:PORT or https://HOST:PORT, or the word environment: the one that HTTPS_PROXY or
	// HTTP_PROXY names, with the exceptions in NO_PROXY. It needs ProxyFilters.
	Proxy string
	// ProxyFilters says that the proxy refuses private and other special addresses itself, which
	// the hub cannot see.
	ProxyFilters bool
	// ConnectionBytes bounds the memory of connections that are kept for the next request, and of
	// the TLS sessions of their hosts, by estimate: 1,000,000 bytes or more; default 512 MiB.
	ConnectionBytes int64
	// KeyExchange is how keys are agreed on over TLS: hybrid (default: with ML-KEM-768 where the
	// other side knows it) or classic.
	KeyExchange string
	// DNSTTL is how long addresses are remembered that come without a lifetime; default 30 s.
	DNSTTL time.Duration
	// Resolver asks the name servers; nil: the system's.
	Resolver *net.Resolver

	// Publishers is open or registered. open, the default: any client may publish to topics that name the
	// hub. registered: only registered Sources, with a token, may publish.
	Publishers string
	// TrustedProxy are the networks of proxies before the hub, whose X-Forwarded-For says who the
	// clients are that limits are for, and whose X-Forwarded-Proto counts for Operator.
	TrustedProxy []netip.Prefix
	// TraceCallbacks sends traceparent (W3C Trace Context) with each delivery. There are traces
	// where the environment variable OTEL_EXPORTER_OTLP_ENDPOINT names a collector.
	TraceCallbacks bool

	// LeaseMin, LeaseDefault and LeaseMax are the shortest lease that is granted, the one of a
	// request without hub.lease_seconds, and the longest (WebSub §5.1, CN §4.2), in this order;
	// defaults 5 min, 240 h, 744 h.
	LeaseMin, LeaseDefault, LeaseMax time.Duration

	// RetryFirst is the pause before the first retry of a delivery, about; it doubles with each
	// further one up to RetryMax. Defaults 5 s and 1 h.
	RetryFirst, RetryMax time.Duration
	// RetryFor is how old a notification may be before a failed attempt gives it up; default 72 h.
	RetryFor time.Duration
	// DeliveryTimeout bounds one delivery, from dialing to the last byte of the answer; default 30 s.
	DeliveryTimeout time.Duration
	// Signature is the algorithm of X-Hub-Signature (WebSub §7.1): sha1, sha256 (default), sha384
	// or sha512. SignatureFor has others by the host of the callback, in small letters, without a
	// port.
	Signature    string
	SignatureFor map[string]string

	// TopicCheckTTL is how long the hub remembers that a topic names it; default 10 min.
	TopicCheckTTL time.Duration
	// MaxBody is the largest content of a topic, published or fetched: 1 byte to 1 GiB; default
	// 50 MiB.
	MaxBody int64

	// KeepAtLeast is the age before which no notification leaves the logs: 5 s or more; default
	// 5 min.
	KeepAtLeast time.Duration
	// KeepFor is the age at which a notification leaves the logs although a subscription waits for
	// it, which then may have a gap: KeepAtLeast or more; default a day more than RetryFor;
	// negative: no bound.
	KeepFor time.Duration
	// KeepBytes is what all logs together may take: 1,000,000 bytes or more; default 10 GiB;
	// negative: no bound.
	KeepBytes int64
	// NoChangeMemory closes the change memory: Destinations cannot read what was published lately.
	NoChangeMemory bool
	// ChangeMemoryFor is how long a notification stays for that when no subscription waits for it any
	// more; default a day more than RetryFor; negative: not at all. KeepFor and KeepBytes come
	// first.
	ChangeMemoryFor time.Duration
	// ChangeMemoryBytes bounds all logs together. Beyond it notifications that no subscription waits for
	// go, though they are younger than ChangeMemoryFor: 1,000,000 bytes or more, at most KeepBytes;
	// default a tenth of KeepBytes, with Redis 64 MiB at most.
	ChangeMemoryBytes int64

	// OperatorToken returns the token that clients of Operator must send, which may change meanwhile. It
	// must be cheap and never return "". nil: no token is needed, and every client that reaches Operator
	// is the operator.
	OperatorToken func() string
	// OperatorPprof adds the profiles of the process at /debug/pprof/ of Operator.
	OperatorPprof bool

	// Listen opens the port of Handler, where it is to be closed while the store is away, so that a
	// load balancer asks other processes. Run calls it once the store is reached, or five seconds
	// after its begin, and takes shards only when it has returned nil. nil: the program listens
	// when it likes; Handler answers 503 until the store is reached.
	Listen func(ctx context.Context) error
	// Serve answers requests by handler, which is Handler, until ctx ends, and returns when those
	// under way are finished. Run calls it after Listen, and stops deliveries when it has returned.
	// nil: the program serves by itself.
	Serve func(ctx context.Context, handler http.Handler) error
	// StopWithin bounds the end of Run: default 23 s, at least 5 s. Requests under way and
	// deliveries have up to 10 s each of it.
	StopWithin time.Duration
	// OwnProcess says that the process does little but this hub. Then the hub adapts Go's garbage
	// collector to its table of subscriptions.
	OwnProcess bool
	// SelfTLS is with which TLS the hub asks itself at URL, to see whether URL leads back to it; nil: as
	// any client of the machine. NoSelfCheck stops the asking.
	SelfTLS     *tls.Config
	NoSelfCheck bool
}
