package hub

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Defaults of Config.
const (
	DefaultMaxBody            = 52_428_800
	DefaultMaxForm            = 1 << 20
	DefaultMaxBodiesBytes     = 512 << 20
	DefaultMaxURL             = 2048
	DefaultMaxLinks           = 32
	DefaultMaxLinkBytes       = 8 << 10
	DefaultMaxPingTopics      = 1000
	DefaultMaxPings           = 20_000
	DefaultMaxPingsPerHost    = 1000
	DefaultBodyIdle           = 30 * time.Second
	DefaultBodyRate           = 32 << 10
	DefaultBodyTimeout        = 10 * time.Minute
	DefaultStoreTimeout       = 10 * time.Second
	DefaultRetryAfter         = 5 * time.Second
	DefaultTopicCheckTTL      = 10 * time.Minute
	DefaultTopicRefusalTTL    = 5 * time.Second
	DefaultTopicCheckEntries  = 10_000
	DefaultTopicCheckTimeout  = 10 * time.Second
	DefaultTopicChecks        = 64
	DefaultTopicChecksPerHost = 8
	DefaultTopicCheckSlow     = time.Second
	DefaultSlowTopicChecks    = 256
	DefaultTopicWatchInterval = time.Hour
	DefaultTopicRefusals      = 3
	DefaultVerifyTimeout      = 10 * time.Second
	DefaultFetches            = 8
	DefaultFetchesPerHost     = 2
	DefaultFetchSlowAfter     = time.Second
	DefaultSlowFetches        = 64
	DefaultFetchTimeout       = 30 * time.Second
	DefaultFetchRetryFirst    = 5 * time.Second
	DefaultFetchRetryMax      = 5 * time.Minute
	DefaultFetchRetryFor      = time.Hour
	DefaultClientRate         = 50
	DefaultClientBurst        = 1000
	DefaultClients            = 65_536
	DefaultAnswerRate         = 10
	DefaultAnswerBurst        = 100
	DefaultMemoryRate         = 10
	DefaultMemoryBurst        = 200
	DefaultMemoryReadings     = 64
	DefaultMemoryPerClient    = 4
)

// Config is what an operator may set. Only URL has no default.
type Config struct {
	// URL is the hub URI: absolute http or https, without query, fragment and
	// userinfo. Its path is where the hub is served; a slash at its end may be
	// left out by those who use it. Sources name it as rel=hub.
	URL string
	// Version goes into the User-Agent of the requests that the hub makes:
	// Carillon/VERSION (+URL). Default "dev".
	Version string

	// MaxBody bounds a publication, published or fetched, bytes: a longer one
	// is 413, or not distributed. Default 52,428,800, the limit of a
	// ResourceSync document (core §7).
	MaxBody int64
	// MaxForm bounds the body of a form, bytes: 413 beyond. Default 1 MiB, room
	// for MaxPingTopics addresses of 1,000 bytes each.
	MaxForm int64
	// MaxBodiesBytes bounds the memory for the bodies of requests that are being
	// taken in at the same time, bytes; at least MaxBody and MaxForm. It is taken as a body
	// arrives; where there is no more a request is 503 with Retry-After. An eighth
	// of it, as far as MaxBody leaves it, is kept for what is not longer than 1 MiB.
	// A body of several parts is there twice while it is put together. Fetches
	// are not in it (see Fetches). Default 512 MiB.
	MaxBodiesBytes int64
	// MaxURL bounds a topic and a callback, bytes: 400 beyond. Default 2048.
	MaxURL int
	// MaxLinks and MaxLinkBytes bound the Link values that are relayed with a
	// publication besides self and hub: 400 beyond. Default 32 and 8 KiB.
	MaxLinks     int
	MaxLinkBytes int
	// MaxPingTopics is how many topics one ping may name: 400 beyond. Default 1,000.
	MaxPingTopics int
	// MaxPings is how many topics may wait to be fetched by this process, in all and, MaxPingsPerHost, of
	// one host: a ping for one more is 503, or 429, with Retry-After. One for a topic that waits already
	// is taken. The store bounds the fetches of other processes, which is 429 too. Default 20,000 and
	// 1,000.
	MaxPings        int
	MaxPingsPerHost int
	// BodyIdle is how long a client may send nothing in the middle of its
	// body, BodyRate how fast the body must come, bytes a second, beside one such
	// pause in each MiB, and BodyTimeout how long the whole body may take: 408
	// beyond. Default 30 s, 32 KiB/s and 10 min.
	BodyIdle    time.Duration
	BodyRate    int64
	BodyTimeout time.Duration
	// StoreTimeout is how long a request waits for the
	// store: 503 beyond. The end of Run may take it twice. Default 10 s.
	StoreTimeout time.Duration
	// RetryAfter is what a 503, a 502 and a 429 advise, whole seconds. Default 5 s.
	RetryAfter time.Duration

	// TopicCheckTTL is how long it is remembered that a topic names this hub.
	// Past half of it the topic is asked again in the background. Default 10 min.
	TopicCheckTTL time.Duration
	// TopicRefusalTTL is how long it is remembered that a topic does not. It
	// stays short, so that a Source that has mended its topic is not
	// turned away for long. Default 5 s.
	TopicRefusalTTL time.Duration
	// TopicCheckEntries is how many topics are remembered; those asked for
	// longest ago are forgotten first. Default 10,000.
	TopicCheckEntries int
	// TopicCheckTimeout bounds one check, HEAD and GET together, and before that the
	// wait for a place, beyond which a content publish is 503. Default 10 s.
	TopicCheckTimeout time.Duration
	// TopicChecks is how many checks run at once, and TopicChecksPerHost how
	// many of them ask one host, by its name, so that a host that hangs holds up only its
	// own topics. Default 64 and 8.
	TopicChecks        int
	TopicChecksPerHost int
	// TopicCheckSlowAfter is when a check gives its place back for another and goes on beside
	// the others; SlowTopicChecks is how many may do so. It stays one of those of
	// its host. Default 1 s and 256.
	TopicCheckSlowAfter time.Duration
	SlowTopicChecks     int
	// TopicWatchInterval is how often every topic with subscribers is checked
	// anew. Default 1 h.
	TopicWatchInterval time.Duration
	// TopicRefusals is after how many definitive refusals in a row the watch
	// denies a topic's subscribers. Default 3.
	TopicRefusals int

	// VerifyTimeout bounds one request to a callback that asks for its intent or reports a denial. Default
	// 10 s.
	VerifyTimeout time.Duration

	// Fetches is how many topics are fetched at once after pings, and
	// FetchesPerHost how many of them from one host, by its name, whatever the
	// port. Default 8 and 2.
	Fetches        int
	FetchesPerHost int
	// MaxFetchBytes bounds the memory for the bodies of all fetches, the slow ones too, bytes; at least
	// MaxBody. A fetch without room is made later. A body is there twice while it is put together. Default
	// Fetches times MaxBody.
	MaxFetchBytes int64
	// FetchSlowAfter is when a fetch gives its place back for another and goes on
	// beside the others; SlowFetches is how many may do so. It stays one of
	// those from its host. Default 1 s and 64.
	FetchSlowAfter time.Duration
	SlowFetches    int
	// FetchTimeout bounds one fetch, from dialing to the last byte. Default 30 s: a Source whose
	// topic takes longer publishes with the content.
	FetchTimeout time.Duration
	// FetchRetryFirst is about how long after a failed fetch the next one follows. The time grows up to
	// FetchRetryMax, and within it is not less than what the topic's server asks for (Retry-After).
	// FetchRetryFor is how long after the first failure the ping is dropped; a restart begins anew. A
	// topic that has no subscription in this process, and is not remembered to name this hub, is tried
	// four times more within that time. Default 5 s, 5 min and 1 h.
	FetchRetryFirst time.Duration
	FetchRetryMax   time.Duration
	FetchRetryFor   time.Duration

	// TrustedProxies are the networks of the proxies before the hub, whose X-Forwarded-For
	// is believed. Default none: a client is the peer of its connection.
	TrustedProxies []netip.Prefix
	// ClientRate is how many requests a second one client may send that make the hub ask another server.
	// They are: subscribe, unsubscribe, each topic of a ping, and publications to a topic whose check is
	// not remembered. ClientBurst is how many of them may come at once. Beyond that the answer is 429. A
	// client is an IPv4 address or a /64 of IPv6; one on this machine has no limit, nor has a registered
	// Source that publishes. Default 50 and 1,000; ClientBurst is at least MaxPingTopics.
	ClientRate  int
	ClientBurst int
	// Clients is how many clients are remembered, some 200 bytes each; the least recent is forgotten
	// first. Default 65,536.
	Clients int

	// AnswerRate is how many times a second a registered Source may ask the outcome of its
	// notifications, and AnswerBurst how many times at once: 429 beyond. Default 10 and 100.
	AnswerRate  int
	AnswerBurst int

	// MemoryRate is how many times a second one client may read the change memory, and MemoryBurst how
	// many times at once; clients are those of ClientRate. MemoryReadings is how many readings are under
	// way at a time, and MemoryReadingsPerClient how many of them of one client: one more is 503, or 429.
	// Each has BodyIdle and its time at BodyRate, BodyTimeout at most. All together have a quarter of
	// MaxBodiesBytes, of which one client has a quarter, or one body. A reading that takes more than 10 s
	// is cut off where another would be refused. The amount that it has read counts, too: each MiB, 512
	// notifications and 1,024 summaries as one time more. Default 10, 200, 64 and 4.
	MemoryRate              int
	MemoryBurst             int
	MemoryReadings          int
	MemoryReadingsPerClient int

	// OwnCallbacks is the origin of callbacks that are the hub's own. A request for a callback at its host
	// gets 403, so that no subscriber can have one. Empty: the hub has none.
	OwnCallbacks string
}

// Validate reports the faults of the Config, defaults applied.
func (c Config) Validate() error {
	if err := validHubURL(c.URL); err != nil {
		return err
	}
	if strings.ContainsFunc(c.Version, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("the version is not one printable word")
	}
	c = c.withDefaults()
	return errors.Join(c.validSizes(), c.validTimes(), validProxies(c.TrustedProxies))
}

func validHubURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("the hub URL %q cannot be parsed", raw)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("the hub URL %q is not an absolute http or https URL", raw)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return fmt.Errorf("the hub URL %q has userinfo, a query or a fragment", u.Redacted())
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f }),
		u.RawPath != "" && u.RawPath != u.EscapedPath():
		return fmt.Errorf("the hub URL %q contains characters that must be escaped", raw)
	}
	return nil
}

func (c Config) validSizes() error {
	for name, n := range map[string]int64{
		"MaxBody": c.MaxBody, "MaxForm": c.MaxForm, "MaxURL": int64(c.MaxURL),
		"MaxLinks": int64(c.MaxLinks), "MaxLinkBytes": int64(c.MaxLinkBytes),
		"BodyRate": c.BodyRate, "MaxPings": int64(c.MaxPings), "MaxPingsPerHost": int64(c.MaxPingsPerHost),
		"MaxPingTopics": int64(c.MaxPingTopics), "TopicCheckEntries": int64(c.TopicCheckEntries),
		"TopicChecks": int64(c.TopicChecks), "TopicChecksPerHost": int64(c.TopicChecksPerHost),
		"TopicRefusals": int64(c.TopicRefusals), "SlowTopicChecks": int64(c.SlowTopicChecks),
		"AnswerRate": int64(c.AnswerRate), "AnswerBurst": int64(c.AnswerBurst),
		"MemoryRate": int64(c.MemoryRate), "MemoryBurst": int64(c.MemoryBurst),
		"MemoryReadings": int64(c.MemoryReadings), "MemoryReadingsPerClient": int64(c.MemoryReadingsPerClient),
		"ClientRate": int64(c.ClientRate), "ClientBurst": int64(c.ClientBurst), "Clients": int64(c.Clients),
		"SlowFetches": int64(c.SlowFetches), "Fetches": int64(c.Fetches), "FetchesPerHost": int64(c.FetchesPerHost),
	} {
		if n < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	if c.MaxBodiesBytes < max(c.MaxBody, c.MaxForm) {
		return errors.New("MaxBodiesBytes is less than MaxBody or MaxForm")
	}
	if c.ClientBurst < c.MaxPingTopics {
		return errors.New("ClientBurst is less than MaxPingTopics")
	}
	if c.MaxFetchBytes < c.MaxBody {
		return errors.New("MaxFetchBytes is less than MaxBody")
	}
	return nil
}

func (c Config) validTimes() error {
	for name, d := range map[string]time.Duration{
		"BodyIdle": c.BodyIdle, "BodyTimeout": c.BodyTimeout, "StoreTimeout": c.StoreTimeout,
		"RetryAfter": c.RetryAfter, "TopicCheckTTL": c.TopicCheckTTL,
		"TopicRefusalTTL": c.TopicRefusalTTL, "TopicCheckTimeout": c.TopicCheckTimeout, "TopicCheckSlowAfter": c.TopicCheckSlowAfter,
		"TopicWatchInterval": c.TopicWatchInterval, "VerifyTimeout": c.VerifyTimeout,
		"FetchSlowAfter": c.FetchSlowAfter, "FetchTimeout": c.FetchTimeout, "FetchRetryFirst": c.FetchRetryFirst,
		"FetchRetryMax": c.FetchRetryMax, "FetchRetryFor": c.FetchRetryFor,
	} {
		if d < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	if c.FetchRetryMax < c.FetchRetryFirst {
		return errors.New("FetchRetryMax is less than FetchRetryFirst")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Version == "" {
		c.Version = "dev"
	}
	orDefault(&c.MaxBody, DefaultMaxBody)
	orDefault(&c.MaxForm, DefaultMaxForm)
	orDefault(&c.MaxBodiesBytes, max(DefaultMaxBodiesBytes, c.MaxBody, c.MaxForm))
	orDefault(&c.MaxURL, DefaultMaxURL)
	orDefault(&c.MaxLinks, DefaultMaxLinks)
	orDefault(&c.MaxLinkBytes, DefaultMaxLinkBytes)
	orDefault(&c.MaxPingTopics, DefaultMaxPingTopics)
	orDefault(&c.MaxPings, DefaultMaxPings)
	orDefault(&c.MaxPingsPerHost, DefaultMaxPingsPerHost)
	orDefault(&c.BodyIdle, DefaultBodyIdle)
	orDefault(&c.BodyRate, DefaultBodyRate)
	orDefault(&c.BodyTimeout, DefaultBodyTimeout)
	orDefault(&c.StoreTimeout, DefaultStoreTimeout)
	orDefault(&c.RetryAfter, DefaultRetryAfter)
	orDefault(&c.TopicCheckTTL, DefaultTopicCheckTTL)
	orDefault(&c.TopicRefusalTTL, DefaultTopicRefusalTTL)
	orDefault(&c.TopicCheckEntries, DefaultTopicCheckEntries)
	orDefault(&c.TopicCheckTimeout, DefaultTopicCheckTimeout)
	orDefault(&c.TopicChecks, DefaultTopicChecks)
	orDefault(&c.TopicChecksPerHost, DefaultTopicChecksPerHost)
	orDefault(&c.TopicCheckSlowAfter, DefaultTopicCheckSlow)
	orDefault(&c.SlowTopicChecks, DefaultSlowTopicChecks)
	orDefault(&c.TopicWatchInterval, DefaultTopicWatchInterval)
	orDefault(&c.TopicRefusals, DefaultTopicRefusals)
	orDefault(&c.VerifyTimeout, DefaultVerifyTimeout)
	orDefault(&c.Fetches, DefaultFetches)
	orDefault(&c.FetchesPerHost, DefaultFetchesPerHost)
	orDefault(&c.MaxFetchBytes, max(int64(c.Fetches)*c.MaxBody, c.MaxBody))
	orDefault(&c.FetchSlowAfter, DefaultFetchSlowAfter)
	orDefault(&c.SlowFetches, DefaultSlowFetches)
	orDefault(&c.FetchTimeout, DefaultFetchTimeout)
	orDefault(&c.FetchRetryFirst, DefaultFetchRetryFirst)
	orDefault(&c.FetchRetryMax, max(DefaultFetchRetryMax, c.FetchRetryFirst))
	orDefault(&c.FetchRetryFor, DefaultFetchRetryFor)
	orDefault(&c.ClientRate, DefaultClientRate)
	orDefault(&c.ClientBurst, max(DefaultClientBurst, c.MaxPingTopics))
	orDefault(&c.Clients, DefaultClients)
	orDefault(&c.AnswerRate, DefaultAnswerRate)
	orDefault(&c.AnswerBurst, DefaultAnswerBurst)
	orDefault(&c.MemoryRate, DefaultMemoryRate)
	orDefault(&c.MemoryBurst, DefaultMemoryBurst)
	orDefault(&c.MemoryReadings, DefaultMemoryReadings)
	orDefault(&c.MemoryReadingsPerClient, DefaultMemoryPerClient)
	return c
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// userAgent is the User-Agent of every request that the hub makes.
func (c Config) userAgent() string { return "Carillon/" + c.Version + " (+" + c.URL + ")" }

// validProxies refuses networks that no client can be in.
func validProxies(networks []netip.Prefix) error {
	for _, p := range networks {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf(
				"the trusted proxy %s is no network: write one of IPv4 as 192.0.2.0/24, one of IPv6 as 2001:db8::/32",
				p,
			)
		}
	}
	return nil
}
