package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"carillon/cmd/internal/program"
	"carillon/operator/ask"
)

// commands are the command line of the hub. Scripts rely on the names of its flags.
type commands struct {
	program.Common

	Serve   serveCommand   `cmd:"" default:"withargs" hidden:"" help:"Serve as a hub. It is what happens where no command is given."`
	Export  exportCommand  `cmd:"" help:"Write everything that a hub keeps as JSON lines."`
	Import  importCommand  `cmd:"" help:"Put what an export holds into a store."`
	Backup  backupCommand  `cmd:"" help:"Make a backup of a store, while its hub runs or not."`
	Restore restoreCommand `cmd:"" help:"Make a store of a backup."`
	Source  sourceCommands `cmd:"" help:"Say who may publish to a hub that runs with --publishers registered."`

	Topics        asking[ask.Topics]        `cmd:"" help:"List topics." group:"See and repair"`
	Topic         asking[ask.Topic]         `cmd:"" help:"Show a topic and what became of its notifications." group:"See and repair"`
	Subscriptions asking[ask.Subscriptions] `cmd:"" help:"List subscriptions." group:"See and repair"`
	Show          asking[ask.Show]          `cmd:"" help:"Show a subscription, or a notification: was it delivered to all?" group:"See and repair"`
	Retry         asking[ask.Retry]         `cmd:"" help:"Make the next attempt of a subscription now." group:"See and repair"`
	Replay        asking[ask.Replay]        `cmd:"" help:"Deliver a stretch of the log to one subscription once more." group:"See and repair"`
	Remove        asking[ask.Remove]        `cmd:"" help:"End a subscription." group:"See and repair"`
	Trim          asking[ask.Trim]          `cmd:"" help:"Remove the oldest notifications of a topic." group:"See and repair"`
	LevelOf       asking[ask.LogLevel]      `cmd:"" name:"log-level" help:"Print or change the level of a running hub's log lines." group:"See and repair"`

	Ready readyCommand `cmd:"" help:"Ask a running hub whether it is ready: the exit status is 0 if it is."`

	Settings program.ConfigCommands[serveCommand] `cmd:"" name:"config" help:"Look at the configuration without starting."`
	About    program.VersionCommand               `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

// level is that of the log lines. What a command of an operator has done is told by its own
// line.
func (c *commands) level(chosen any) program.Level {
	switch chosen.(type) {
	case interface{ quiet() }:
		return cmp.Or(c.LogLevel, "warn")
	}
	return c.LogLevel
}

// command is one of the things that the program does.
type command interface {
	run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error
}

// serveCommand is the hub itself.
type serveCommand struct {
	Listen string             `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Public listener; port 0 picks one." group:"Listeners"`
	URL    string             `name:"url" placeholder:"URL" help:"The hub URI as the world sees it; its path is where the hub is served. Default: http:// or, with --tls-cert, https://, the listener's address and /websub/. Needed where the hub listens on every address." group:"Listeners"`
	Host   []program.HostName `placeholder:"NAME" help:"Another host that the public listener answers to, besides that of --url, addresses and localhost; repeatable. A request for any other host gets 421." group:"Listeners"`
	Admin  string             `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"The operator's listener: the page, the JSON API, /healthz, /readyz and /metrics. On an address that is not loopback it needs --admin-token-file, and a certificate or --admin-plain." group:"Listeners"`

	Drain time.Duration `default:"5s" help:"How long the public listener serves on after SIGTERM, while /readyz answers 503 and each answer closes its connection, so that a load balancer can learn of the end: 0 to 15s. More than what the balancer takes to notice, which is two of its questions for most. SIGINT (Ctrl-C) waits for nothing." group:"Listeners" range:"0 to 15s"`

	TLS           program.TLS `embed:"" set:"listener=public listener" group:"Listeners"`
	AdminTLS      program.TLS `embed:"" prefix:"admin-" set:"listener=operator's listener" group:"Listeners"`
	operatorFlags `group:"Listeners"`
	storeFlags    `group:"Store"`
	Takeover      time.Duration `default:"10s" help:"With Redis: how long a process may be silent before the others take over its part: 1s to 5m." group:"Store" range:"1s to 5m"`

	wayOutFlags    `group:"Where the hub connects to"`
	publisherFlags `group:"Clients"`
	traceFlags     `group:"Traces"`
	clientFlags    `group:"Clients"`

	DNSTTL time.Duration `name:"dns-ttl" default:"30s" help:"How long the addresses of a name are remembered that come without a lifetime, as from /etc/hosts. What name servers say of theirs is kept to, up to 10m." group:"Where the hub connects to" range:"more than 0"`

	LeaseMin     time.Duration `default:"5m" help:"Shortest lease that is granted." group:"Leases" range:"more than 0"`
	LeaseDefault time.Duration `default:"240h" help:"Lease for who asks for none." group:"Leases" range:"more than 0"`
	LeaseMax     time.Duration `default:"744h" help:"Longest lease that is granted." group:"Leases" range:"more than 0"`

	RetryFirst time.Duration `default:"5s" help:"Pause before the first retry of a delivery, about; it doubles with each further one." group:"Deliveries" range:"more than 0"`
	RetryMax   time.Duration `default:"1h" help:"Longest pause between two attempts." group:"Deliveries" range:"more than 0"`
	RetryFor   time.Duration `default:"72h" help:"How old a notification may be before a failed attempt gives it up." group:"Deliveries" range:"more than 0"`

	KeepAtLeast time.Duration  `default:"5m" help:"Age before which no notification leaves the logs: 5s or more. With less than some minutes a subscription that is being verified may miss its first." group:"What is kept" range:"5s or more"`
	KeepFor     *time.Duration `placeholder:"DURATION" help:"Age at which a notification leaves the logs although a subscription still waits for it, which then may have a gap; 0: no bound by age. Default: a day more than --retry-for." group:"What is kept" range:"0, or --keep-at-least or more"`
	KeepBytes   byteSize       `default:"10GiB" placeholder:"SIZE" help:"What all logs together may take: 1MB or more. Beyond it the sites of topics that take most are cut, oldest notifications first, and who still waits for those may have a gap; what is younger than --keep-at-least stays, but for sites above their share. A number of bytes, or with KB, MB, GB, TB, KiB, MiB, GiB or TiB; 0: no bound." group:"What is kept" range:"0, or 1MB or more"`

	memoryFlags `group:"What is kept"`

	DeliveryTimeout time.Duration   `default:"30s" help:"Time for one delivery, from dialing to the last byte of the answer." group:"Deliveries" range:"more than 0"`
	Signature       string          `enum:"sha1,sha256,sha384,sha512" default:"sha256" help:"Algorithm of X-Hub-Signature: sha1, sha256, sha384 or sha512." group:"Deliveries"`
	SignatureFor    []hostSignature `placeholder:"HOST=METHOD" help:"Another algorithm of X-Hub-Signature for the callbacks of a host, whatever their port: sha1 for subscribers that know no other and drop every delivery; repeatable." group:"Deliveries"`
	TopicCheckTTL   time.Duration   `name:"topic-check-ttl" default:"10m" help:"How long it is remembered that a topic names this hub." group:"Publications" range:"more than 0"`
	MaxBody         byteSize        `default:"50MiB" placeholder:"SIZE" help:"Largest content of a topic, published or fetched: a number of bytes, or with a unit, as of --keep-bytes." group:"Publications" range:"1 to 1GiB"`

	again   program.Reloading // how the settings are read anew
	disturb func(*engine)     // called with the engine before it is used; nil but in tests
}

// minKeepAtLeast is the least --keep-at-least: logs are trimmed each second at most,
// and what other processes tell of their cursors is a few times that old.
const minKeepAtLeast = 5 * time.Second

// minKeepBytes is the least --keep-bytes but for 0. With less every log would be cut to
// a few notifications; it stops a 10 that was to be 10GiB.
const minKeepBytes = 1_000_000

// maxMaxBody is the largest --max-body: a publication is held in memory.
const maxMaxBody = 1 << 30

// Bounds of --takeover: below, a pause of the network or of the machine takes a
// part away; above, a part rests for longer than anybody would want.
const (
	minTakeover = time.Second
	maxTakeover = 5 * time.Minute
)

// maxDrain is the longest --drain: what is left of program.StopWithin is for the requests and
// deliveries under way.
const maxDrain = 15 * time.Second

// Validate refuses values that cannot be kept, by the names that the operator
// knows, all at once. It is called when the flags are parsed.
func (f *serveCommand) Validate() error {
	var all []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"lease-min", f.LeaseMin},
		{"lease-default", f.LeaseDefault},
		{"lease-max", f.LeaseMax},
		{"retry-first", f.RetryFirst},
		{"retry-max", f.RetryMax},
		{"retry-for", f.RetryFor},
		{"delivery-timeout", f.DeliveryTimeout},
		{"topic-check-ttl", f.TopicCheckTTL},
		{"dns-ttl", f.DNSTTL},
	} {
		if d.value <= 0 {
			all = append(all, fmt.Errorf("--%s must be more than 0, not %s", d.name, d.value))
		}
	}
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	refuse(f.LeaseMin > f.LeaseDefault || f.LeaseDefault > f.LeaseMax,
		"the leases must be --lease-min <= --lease-default <= --lease-max, not %s, %s, %s", f.LeaseMin, f.LeaseDefault, f.LeaseMax)
	refuse(f.RetryFirst > f.RetryMax, "--retry-first (%s) must not be longer than --retry-max (%s)", f.RetryFirst, f.RetryMax)
	refuse(f.KeepAtLeast < minKeepAtLeast, "--keep-at-least must be %s or more, not %s", minKeepAtLeast, f.KeepAtLeast)
	if f.KeepFor != nil {
		refuse(*f.KeepFor < 0, "--keep-for must be 0 (no bound by age) or more, not %s", *f.KeepFor)
		refuse(*f.KeepFor > 0 && *f.KeepFor < f.KeepAtLeast,
			"--keep-for (%s) must not be shorter than --keep-at-least (%s); 0 is no bound by age", *f.KeepFor, f.KeepAtLeast)
	}
	refuse(f.KeepBytes != 0 && f.KeepBytes < minKeepBytes,
		"--keep-bytes must be 0 (no bound) or 1MB or more, not %d bytes; sizes may have units, like 10GiB", int64(f.KeepBytes))
	refuse(f.Takeover < minTakeover || f.Takeover > maxTakeover, "--takeover must be from %s to %s, not %s", minTakeover, maxTakeover, f.Takeover)
	refuse(f.Drain < 0 || f.Drain > maxDrain, "--drain must be from 0 (none) to %s, not %s", maxDrain, f.Drain)
	refuse(f.MaxBody < 1 || f.MaxBody > maxMaxBody, "--max-body must be from 1 to %s, not %s", byteSize(maxMaxBody), f.MaxBody)
	return errors.Join(append(all, f.memoryFlags.validate(int64(f.KeepBytes)), f.wayOutFlags.Validate(), f.clientFlags.Validate(), f.storeFlags.Validate())...)
}

// warn tells of values that can be kept, but lose what others promise.
func (f *serveCommand) warn(logger *slog.Logger) {
	if f.KeepFor != nil && *f.KeepFor > 0 && *f.KeepFor < f.RetryFor {
		logger.Warn("--keep-for is shorter than --retry-for: what is retried for longer than --keep-for leaves its log, and may be a gap before it is given up",
			"keep_for", *f.KeepFor, "retry_for", f.RetryFor)
	}
	f.clientFlags.warn(logger)
}
