package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"carillon"
	"carillon/cmd/internal/program"
	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/internal/house"
	"carillon/operator/api"
)

// serveCommand is the hub itself. Its flags are in groups, each a struct, in the order of --help.
type serveCommand struct {
	listenFlags `group:"Listeners"`
	storeFlags  `group:"Store"`
	Takeover    time.Duration `default:"10s" help:"With Redis: how long a process may be silent before the others take over its part: 1s to 5m." group:"Store" range:"1s to 5m"`

	outboundFlags    `group:"Where the hub connects to"`
	publisherFlags   `group:"Clients"`
	traceFlags       `group:"Traces"`
	clientFlags      `group:"Clients"`
	leaseFlags       `group:"Leases"`
	deliveryFlags    `group:"Deliveries"`
	keepFlags        `group:"What is kept"`
	publicationFlags `group:"Publications"`

	again program.Reloading                        // how the settings are read anew
	open  func(carillon.Config) (openedHub, error) // carillon.Open; tests have others
}

// listenFlags say where the hub listens.
type listenFlags struct {
	Listen   string             `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Public listener; port 0 picks one."`
	URL      string             `name:"url" placeholder:"URL" help:"The hub URI as the world sees it; its path is where the hub is served. Default: http:// or, with --tls-cert, https://, the listener's address and /websub/. Needed where the hub listens on every address."`
	Host     []program.HostName `placeholder:"NAME" help:"Another host that the public listener answers to, besides that of --url, addresses and localhost; repeatable. A request for any other host gets 421."`
	Admin    string             `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"The operator's listener: the page, the JSON API, /healthz, /readyz and /metrics. On an address that is not loopback it needs --admin-token-file, and a certificate or --admin-plain."`
	Drain    time.Duration      `default:"5s" help:"How long the public listener serves on after SIGTERM: 0 to 15s. Meanwhile /readyz answers 503 and each answer closes its connection, so that a load balancer can learn of the end. Choose more than the balancer takes to notice, which is two of its questions for most. SIGINT (Ctrl-C) waits for nothing." range:"0 to 15s"`
	TLS      program.TLS        `embed:"" set:"listener=public listener"`
	AdminTLS program.TLS        `embed:"" prefix:"admin-" set:"listener=operator's listener"`
	operatorFlags
}

// outboundFlags say where the hub may connect to, and by whom.
type outboundFlags struct {
	AllowNet        []netip.Prefix     `placeholder:"CIDR" help:"A private network that callbacks and topics may be in; repeatable."`
	AllowPort       []egress.PortRange `placeholder:"N|N-M" help:"A port, or a range of them, that callbacks and topics may have besides 80, 443 and those above 1023 that no other service is known by; repeatable."`
	Proxy           string             `placeholder:"URL" help:"The HTTP proxy of all connections to callbacks and topics, http://HOST:PORT or https://HOST:PORT, by CONNECT. The value environment takes HTTPS_PROXY or HTTP_PROXY, with the exceptions in NO_PROXY. Needs --proxy-filters. Where it asks for a password, set it by the variable: a command line can be seen."`
	ProxyFilters    bool               `help:"The proxy refuses connections to private and other special addresses itself. The hub cannot see what a proxy connects to, and so does not use one that may connect to anything."`
	ConnectionBytes byteSize           `default:"512MiB" placeholder:"SIZE" help:"Memory for kept connections to callbacks and topics, and for the TLS sessions of their hosts, by estimate: 1MB or more. Three quarters are for connections: some 2 KiB each, or with TLS 14 KiB and the host's certificates. A quarter is for sessions, of 5 to 8 KiB each. With GOMEMLIMIT an eighth of that at most. Beyond it those that are expected to be used last are closed: the next request to such a host makes a connection anew. A number of bytes, or with a unit, as of --keep-bytes." range:"1MB or more"`
	KeyExchange     string             `enum:"hybrid,classic" default:"hybrid" help:"How keys are agreed with callbacks and topics over TLS. hybrid: by X25519 with ML-KEM-768 where the other side knows it, else by a classic method. Traffic that is recorded today then stays secret when there are quantum computers. classic: by X25519, P-256, P-384 or P-521 only. That takes less processor time for each connection that is opened, resumed ones too, and some 2 KB less of traffic."`
	DNSTTL          time.Duration      `name:"dns-ttl" default:"30s" help:"How long the addresses of a name are remembered that come without a lifetime, as from /etc/hosts. What name servers say of theirs is kept to, up to 10m." range:"more than 0"`

	resolver *net.Resolver // asks the name servers; the system's if nil
}

// publisherFlags say who may publish.
type publisherFlags struct {
	Publishers string `enum:"open,registered" default:"open" help:"open: any client may publish to topics that name the hub. registered: only Sources registered by hub source add may, each with a token and the prefixes of its topics."`
}

// traceFlags decide which traces go to others. The variables of OpenTelemetry, common to all programs,
// decide whether the hub makes traces, and where they go.
type traceFlags struct {
	TraceCallbacks bool `help:"Send traceparent (W3C Trace Context) with each delivery, so that a Destination's traces can go on where the hub's end. There are traces where OTEL_EXPORTER_OTLP_ENDPOINT names a collector."`
}

// clientFlags say who a client is, for the limits that are for each.
type clientFlags struct {
	TrustedProxy []netip.Prefix `placeholder:"CIDR" help:"A network of proxies before the hub; repeatable. Their X-Forwarded-For names the client that limits are for. Their X-Forwarded-Proto names a browser's scheme at the operator's listener. Default: the peer of a connection is the client, and one on this machine has no limits."`
}

// leaseFlags bound leases.
type leaseFlags struct {
	LeaseMin     time.Duration `default:"5m" help:"Shortest lease that is granted." range:"more than 0"`
	LeaseDefault time.Duration `default:"240h" help:"Lease of a subscription that asks for none." range:"more than 0"`
	LeaseMax     time.Duration `default:"744h" help:"Longest lease that is granted." range:"more than 0"`
}

// deliveryFlags say how deliveries are made.
type deliveryFlags struct {
	RetryFirst      time.Duration   `default:"5s" help:"Pause before the first retry of a delivery, about; it doubles with each further one." range:"more than 0"`
	RetryMax        time.Duration   `default:"1h" help:"Longest pause between two attempts." range:"more than 0"`
	RetryFor        time.Duration   `default:"72h" help:"How old a notification may be before a failed attempt gives it up." range:"more than 0"`
	DeliveryTimeout time.Duration   `default:"30s" help:"Time for one delivery, from dialing to the last byte of the answer." range:"more than 0"`
	Signature       string          `enum:"sha1,sha256,sha384,sha512" default:"sha256" help:"Algorithm of X-Hub-Signature: sha1, sha256, sha384 or sha512."`
	SignatureFor    []hostSignature `placeholder:"HOST=METHOD" help:"Another algorithm of X-Hub-Signature for the callbacks of a host, whatever their port: sha1 for subscribers that know no other and drop every delivery; repeatable."`
}

// keepFlags say how long notifications are kept, for subscriptions and for those who come later.
type keepFlags struct {
	KeepAtLeast time.Duration  `default:"5m" help:"Age before which no notification leaves the logs: 5s or more. With less than some minutes a subscription that is being verified may miss its first." range:"5s or more"`
	KeepFor     *time.Duration `placeholder:"DURATION" help:"Age at which a notification leaves the logs although a subscription still waits for it, which then may have a gap; 0: no bound by age. Default: a day more than --retry-for." range:"0, or --keep-at-least or more"`
	KeepBytes   byteSize       `default:"10GiB" placeholder:"SIZE" help:"Size of all logs together: 1MB or more; 0: no bound. Beyond it the largest sites of topics are cut, oldest notifications first, and waiting subscriptions may have a gap. Notifications younger than --keep-at-least stay, except at sites above their share. A number of bytes, or with KB, MB, GB, TB, KiB, MiB, GiB or TiB." range:"0, or 1MB or more"`

	ChangeMemory      bool           `default:"true" help:"Whether Destinations may read recent changes, at memory below the hub URI: to catch up on missed ones. With --change-memory=false notifications without a waiting subscription go from the logs after --keep-at-least."`
	ChangeMemoryFor   *time.Duration `placeholder:"DURATION" help:"How long a notification stays for that when no subscription waits for it any more. Default: a day more than --retry-for. --keep-for and --keep-bytes come first." range:"0 or more"`
	ChangeMemoryBytes *byteSize      `placeholder:"SIZE" help:"Size of all logs together beyond which notifications without a waiting subscription go, though younger than --change-memory-for: of the largest sites of topics, oldest first. Default: a tenth of --keep-bytes; with Redis, which holds it in memory, 64MiB at most." range:"1MB or more, and not more than --keep-bytes"`
}

// publicationFlags bound publications.
type publicationFlags struct {
	TopicCheckTTL time.Duration `name:"topic-check-ttl" default:"10m" help:"How long it is remembered that a topic names this hub." range:"more than 0"`
	MaxBody       byteSize      `default:"50MiB" placeholder:"SIZE" help:"Largest content of a topic, published or fetched: a number of bytes, or with a unit, as of --keep-bytes." range:"1 to 1GiB"`
}

// hostSignature is the method of signatures for the callbacks of one host.
type hostSignature struct {
	host   program.HostName
	method string
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *hostSignature) UnmarshalText(text []byte) error {
	host, method, _ := strings.Cut(string(text), "=")
	if err := s.host.UnmarshalText([]byte(host)); err != nil {
		return err
	}
	if err := send.CheckSignature(method); err != nil {
		return fmt.Errorf(
			"%q: the method for a host must be sha1, sha256, sha384 or sha512, as in hub.example.org=sha1", text,
		)
	}
	s.method = method
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s hostSignature) MarshalText() ([]byte, error) {
	return []byte(string(s.host) + "=" + s.method), nil
}

// maxDrain is the longest --drain: the rest of program.StopWithin is for the requests and deliveries
// under way.
const maxDrain = 15 * time.Second

const (
	// minBytes is the least of --keep-bytes and --change-memory-bytes, but for no bound, and of
	// --connection-bytes.
	minBytes = 1_000_000
	// maxMaxBody is the largest --max-body.
	maxMaxBody = 1 << 30
)

// Validate refuses values that cannot be kept, all at once. It is called when the flags are parsed.
func (f *serveCommand) Validate() error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	cfg, err := f.config(slog.New(slog.DiscardHandler))
	// A value with another meaning in the flags than in a Config is refused here alone.
	if f.KeepFor != nil && *f.KeepFor < 0 {
		refuse("--keep-for must be 0 (no bound by age) or more, not %s", *f.KeepFor)
	} else if cfg.KeepFor > 0 && cfg.KeepFor < f.KeepAtLeast {
		refuse(
			"--keep-for (%s) must not be shorter than --keep-at-least (%s); 0 is no bound by age",
			cfg.KeepFor, f.KeepAtLeast,
		)
		cfg.KeepFor = 0
	}
	if f.ChangeMemoryFor != nil && *f.ChangeMemoryFor < 0 {
		refuse("--change-memory-for must be 0 or more, not %s", *f.ChangeMemoryFor)
	}
	if f.KeepBytes != 0 && f.KeepBytes < minBytes {
		refuse(
			"--keep-bytes must be 0 (no bound) or 1MB or more, not %d bytes; sizes may have units, like 10GiB",
			int64(f.KeepBytes),
		)
		cfg.KeepBytes = -1
	}
	if f.ChangeMemoryBytes != nil && *f.ChangeMemoryBytes < minBytes {
		refuse(
			"--change-memory-bytes must be 1MB or more, not %d bytes; sizes may have units, like 1GiB; --change-memory=false keeps nothing",
			int64(*f.ChangeMemoryBytes),
		)
		cfg.ChangeMemoryBytes = 0
	} else if cfg.KeepBytes > 0 && cfg.ChangeMemoryBytes > cfg.KeepBytes {
		refuse("--change-memory-bytes (%s) must not be more than --keep-bytes (%s)", f.ChangeMemoryBytes, f.KeepBytes)
		cfg.ChangeMemoryBytes = 0
	}
	if f.MaxBody < 1 || f.MaxBody > maxMaxBody {
		refuse("--max-body must be from 1 to %s, not %s", byteSize(maxMaxBody), f.MaxBody)
		cfg.MaxBody = 1
	}
	if f.ConnectionBytes < minBytes {
		refuse(
			"--connection-bytes must be 1MB or more, not %d bytes; sizes may have units, like 256MiB",
			int64(f.ConnectionBytes),
		)
		cfg.ConnectionBytes = minBytes
	}
	if f.Drain < 0 || f.Drain > maxDrain {
		refuse("--drain must be from 0 (none) to %s, not %s", maxDrain, f.Drain)
		cfg.StopWithin = program.StopWithin
	}
	// Other words than these flags have are refused by who parses them.
	cfg.Publishers, cfg.KeyExchange, cfg.Signature = api.Everybody, "hybrid", "sha256"
	return errors.Join(append(all, err, house.Config(cfg).Validate())...)
}

// config returns what the flags say of a hub.
func (f *serveCommand) config(logger *slog.Logger) (carillon.Config, error) {
	store, err := f.engine(logger)
	cfg := carillon.Config{
		URL: f.URL, Store: f.Store, RedisPassword: store.Password, RedisReplicas: f.RedisReplicas, AllowEviction: f.AllowEviction, Takeover: f.Takeover,
		Logger: logger, Names: store.Names,
		AllowNet: f.AllowNet, Proxy: f.Proxy, ProxyFilters: f.ProxyFilters, ConnectionBytes: int64(f.ConnectionBytes),
		KeyExchange: f.KeyExchange, DNSTTL: f.DNSTTL, Resolver: f.resolver,
		Publishers: f.Publishers, TrustedProxy: f.TrustedProxy, TraceCallbacks: f.TraceCallbacks,
		LeaseMin: f.LeaseMin, LeaseDefault: f.LeaseDefault, LeaseMax: f.LeaseMax,
		RetryFirst: f.RetryFirst, RetryMax: f.RetryMax, RetryFor: f.RetryFor, DeliveryTimeout: f.DeliveryTimeout,
		Signature: f.Signature, SignatureFor: map[string]string{}, TopicCheckTTL: f.TopicCheckTTL, MaxBody: int64(f.MaxBody),
		KeepAtLeast: f.KeepAtLeast, KeepBytes: cmp.Or(int64(f.KeepBytes), -1), NoChangeMemory: !f.ChangeMemory,
		OperatorPprof: f.AdminPprof, StopWithin: program.StopWithin - f.Drain, OwnProcess: true,
	}
	for _, ports := range f.AllowPort {
		cfg.AllowPort = append(cfg.AllowPort, ports.String())
	}
	for _, s := range f.SignatureFor {
		cfg.SignatureFor[string(s.host)] = s.method
	}
	if f.KeepFor != nil { // 0 is no bound here, and the default there
		cfg.KeepFor = cmp.Or(*f.KeepFor, -1)
	}
	if f.ChangeMemoryFor != nil {
		cfg.ChangeMemoryFor = cmp.Or(*f.ChangeMemoryFor, -1)
	}
	if f.ChangeMemoryBytes != nil {
		cfg.ChangeMemoryBytes = int64(*f.ChangeMemoryBytes)
	}
	return cfg, err
}
