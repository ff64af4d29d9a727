package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// tlsRow is one line of the table: so many hosts, with so many callbacks each. cpu and opened are
// its figures, of the first round or of the later ones.
type tlsRow struct {
	hosts, each int
	closes      bool // the hosts close connections that are idle
	first       bool
	cpu, opened goal
	openedOf    func(hub, loop tlsUsage) float64
}

var goalTLSFailed = atMost(0, "tls: attempts that failed", "")

var tlsRows = []tlsRow{
	{
		hosts: 3000, each: 1, openedOf: eachOpened,
		cpu:    atMost(0.8, "tls: 3,000 hosts × 1, later rounds: CPU per delivery ÷ loop", ""),
		opened: atMost(0.01, "tls: 3,000 hosts × 1, later rounds: handshakes per delivery", ""),
	},
	{
		hosts: 10_000, each: 1, openedOf: eachOpened,
		cpu:    atMost(0.8, "tls: 10,000 hosts × 1, later rounds: CPU per delivery ÷ loop", ""),
		opened: atMost(0.01, "tls: 10,000 hosts × 1, later rounds: handshakes per delivery", ""),
	},
	{
		hosts: 1000, each: 5, first: true, openedOf: opensLike,
		cpu:    atMost(1.1, "tls: 1,000 hosts × 5, first round: CPU per delivery ÷ loop", ""),
		opened: atMost(1.5, "tls: 1,000 hosts × 5, first round: handshakes ÷ loop", ""),
	},
	{
		hosts: 200, each: 20, first: true, openedOf: opensLike,
		cpu:    atMost(1.1, "tls: 200 hosts × 20, first round: CPU per delivery ÷ loop", ""),
		opened: atMost(1.5, "tls: 200 hosts × 20, first round: handshakes ÷ loop", ""),
	},
	{
		hosts: 1000, each: 1, closes: true,
		cpu:      atMost(1, "tls: hosts that close, later rounds: CPU per delivery ÷ loop", ""),
		opened:   atMost(0, "tls: hosts that close, later rounds: handshakes that are not resumed", ""),
		openedOf: func(hub, _ tlsUsage) float64 { return float64(hub.full) },
	},
}

func eachOpened(hub, _ tlsUsage) float64   { return hub.handshakesEach() }
func opensLike(hub, loop tlsUsage) float64 { return float64(hub.all()) / float64(loop.all()) }

// tlsUsage is what one contestant used in one or more rounds.
type tlsUsage struct {
	usage
	handshakes
}

func (u tlsUsage) handshakesEach() float64 { return float64(u.all()) / float64(u.Deliveries) }

// overTLS measures deliveries to many hosts over TLS, beside a bare loop.
func overTLS(ctx context.Context, e *env) error {
	e.report.section("Thousands of hosts, over TLS")
	if runtime.GOOS != "linux" {
		e.report.note("Left out: this needs Linux, where every address of 127.0.0.0/8 is this machine.")
		return nil
	}
	e.report.note("Every host is an address, with a certificate of its own (ECDSA P-256) below an intermediate one; TLS 1.3. %d bytes, signed by the hub. "+
		"The loop: net/http, %d workers, a session cache for all hosts, no bound on idle connections, the callbacks in an order that visits the hosts in turn. "+
		"Every contestant has a sink process of its own. First: the first round after the start. "+
		"Later: after that and another round, the median of %d (CPU: of the ratios of each round; handshakes: of all). "+
		"CPU: of the process, also in the %s after the round, when positions are saved. "+
		"Checked: each sink has counted exactly what was owed, and as often more as an attempt failed.",
		e.plan.bodyBytes, e.plan.connections, e.plan.tlsRounds, e.plan.tlsSettle)
	authority := filepath.Join(e.dir, "authority")
	if err := os.Mkdir(authority, 0o700); err != nil {
		return err
	}
	if err := newAuthority(authority); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	var rows [][]string
	failed := map[engine]int{}
	for _, row := range tlsRows {
		row.hosts /= e.plan.hostShare
		f := &tlsField{env: e, tlsRow: row, authority: authority}
		e.log("%s", f)
		lines, err := f.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		rows = append(rows, lines...)
		for _, c := range f.contestants {
			failed[c.on] += c.failed
		}
	}
	e.report.table(cells("hosts × callbacks|round|hub on|attempts delivered, in all rounds|CPU each|of the loop|÷|time|of the loop|"+
		"handshakes each (full + resumed)|of the loop"), rows)
	for _, on := range e.engines {
		e.report.put(goalTLSFailed, on, float64(failed[on]))
	}
	return nil
}

// tlsField is the contestants of a row: the loop, and then a hub on each engine.
type tlsField struct {
	*env
	tlsRow
	authority   string
	contestants []*tlsContestant
}

func (f *tlsField) String() string {
	if f.closes {
		return fmt.Sprintf("%d × %d, closed after %s", f.hosts, f.each, f.plan.closeAfter)
	}
	return fmt.Sprintf("%d × %d", f.hosts, f.each)
}

// measure runs the rounds, and returns the lines of the table.
func (f *tlsField) measure(ctx context.Context) (lines [][]string, err error) {
	if err := f.enoughFiles(); err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range f.contestants {
			c.stop()
		}
	}()
	for _, on := range append([]engine{noEngine}, f.engines...) {
		c := &tlsContestant{on: on, n: f.hosts * f.each}
		f.contestants = append(f.contestants, c)
		if err := f.start(ctx, c); err != nil {
			return nil, err
		}
	}
	rounds, err := f.runRounds(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range f.contestants {
		if err := c.settled(ctx, f.plan.tlsSettle); err != nil {
			return nil, err
		}
	}
	for i := 1; i < len(f.contestants); i++ {
		// The second round only warms up.
		lines = append(lines, f.line("first", rounds[:1], i, f.first), f.line("later", rounds[2:], i, !f.first))
	}
	return lines, nil
}

// enoughFiles returns an error unless a process may open a connection to every host, and some
// more files.
func (f *tlsField) enoughFiles() error {
	files, err := mostFiles()
	if needed := f.hosts + f.hosts/4; err == nil && files < needed {
		err = fmt.Errorf("a process may open %d files here, and %d connections are measured: allow %d (ulimit -Hn)",
			files, f.hosts, needed)
	}
	return err
}

// start starts a contestant. It has no connection yet.
func (f *tlsField) start(ctx context.Context, c *tlsContestant) (err error) {
	of := child{Hosts: f.hosts, Authority: f.authority}
	if f.closes {
		of.CloseAfter = f.plan.closeAfter
	}
	if c.town, err = startTown(ctx, of); err != nil {
		return err
	}
	c.stops = append(c.stops, c.town.stop)
	if c.on == noEngine {
		of.Role, of.Target, of.Requests, of.Callbacks = roleNetHTTP, c.town.port, c.n, c.n
		of.Connections, of.BodyBytes = f.plan.connections, f.plan.bodyBytes
		if c.loop, err = startLoop(ctx, of); err == nil {
			c.pid, c.stops = c.loop.pid, append(c.stops, c.loop.stop)
		}
		return err
	}
	store, err := f.newStore(ctx, c.on)
	if err != nil {
		return err
	}
	c.stops = append(c.stops, store.remove)
	own := *f.env // a busyHub finds its sink and the number of its callbacks there
	own.town, own.plan.callbacks = c.town, c.n
	own.environment = []string{"SSL_CERT_FILE=" + filepath.Join(f.authority, rootFile)}
	topic := own.town.topic("tls")
	c.busy, err = own.newBusy(ctx, store, topic, group(c.n, topic, func(i int) string {
		return tlsCallback(c.town.port, f.hosts, i)
	}))
	if err == nil {
		c.pid, c.stops = c.busy.hub.pid, append(c.stops, c.busy.hub.kill)
	}
	return err
}

// runRounds runs each contestant once in a round, and returns what each used.
func (f *tlsField) runRounds(ctx context.Context) (rounds [][]tlsUsage, err error) {
	for i := range 2 + f.plan.tlsRounds {
		round := make([]tlsUsage, len(f.contestants))
		for j := range round {
			k := (max(0, i-1) + j) % len(round) // another order each time
			if f.closes {
				if err := f.contestants[k].town.closed(ctx); err != nil {
					return nil, err
				}
				if err := pause(ctx, f.plan.closePause); err != nil { // until the client has noticed
					return nil, err
				}
			}
			if round[k], err = f.contestants[k].round(ctx, f.plan.tlsSettle); err != nil {
				return nil, err
			}
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// line is that of the i-th contestant. It reports its figures if they are of these rounds.
func (f *tlsField) line(name string, rounds [][]tlsUsage, i int, report bool) []string {
	c, hub, loop := f.contestants[i], total(rounds, i), total(rounds, 0)
	ratio := median(rounds, func(r []tlsUsage) float64 { return r[i].cpuEach() / r[0].cpuEach() })
	if report {
		f.report.put(f.cpu, c.on, ratio)
		f.report.put(f.opened, c.on, f.openedOf(hub, loop))
	}
	cpu := func(i int) float64 {
		return median(rounds, func(r []tlsUsage) float64 { return r[i].cpuEach() / 1000 })
	}
	wall := func(i int) float64 {
		return median(rounds, func(r []tlsUsage) float64 { return r[i].Wall.Seconds() })
	}
	return cells("%s|%s|%s|%d of %d|%.0f µs|%.0f µs|%.2f|%.2f s|%.2f s|%.3f (%d + %d)|%.3f (%d + %d)",
		f, name, c.on, c.owed, c.owed+c.failed, cpu(i), cpu(0), ratio, wall(i), wall(0),
		hub.handshakesEach(), hub.full, hub.resumed, loop.handshakesEach(), loop.full, loop.resumed)
}

// total sums up the rounds of the i-th contestant.
func total(rounds [][]tlsUsage, i int) (sum tlsUsage) {
	for _, r := range rounds {
		sum.Deliveries += r[i].Deliveries
		sum.full, sum.resumed = sum.full+r[i].full, sum.resumed+r[i].resumed
	}
	return sum
}

// tlsContestant is a hub or the loop. It has a sink of its own, so that no other client makes the
// handshakes that the sink counts.
type tlsContestant struct {
	on     engine // noEngine: the loop
	town   *town
	pid    int
	n      int // deliveries in a round
	owed   int // deliveries so far
	failed int // attempts of a hub, set by settled
	busy   *busyHub
	loop   bareLoop
	stops  []func()
}

func (c *tlsContestant) stop() {
	for _, stop := range c.stops {
		defer stop()
	}
}

// round posts once to each callback. It measures also in the time to settle after that: then a hub
// saves positions, and opens connections that no request waits for.
func (c *tlsContestant) round(ctx context.Context, settle time.Duration) (u tlsUsage, err error) {
	cpu, err := processCPU(c.pid)
	if err != nil {
		return u, err
	}
	before, err := c.town.handshakes()
	if err != nil {
		return u, err
	}
	c.owed += c.n
	begin := time.Now()
	if c.busy != nil {
		err = c.busy.deliver(ctx, 1)
		u.Wall = time.Since(begin)
	} else {
		u.usage, err = c.loop.again()
	}
	if err != nil {
		return u, err
	}
	if err := pause(ctx, settle); err != nil {
		return u, err
	}
	after, err := c.town.handshakes()
	if err != nil {
		return u, err
	}
	u.Deliveries, u.full, u.resumed = c.n, after.full-before.full, after.resumed-before.resumed
	u.CPU, err = processCPU(c.pid)
	u.CPU -= cpu
	return u, err
}

// settled requires that every delivery arrived once. A failed attempt excuses one repetition.
func (c *tlsContestant) settled(ctx context.Context, settle time.Duration) error {
	if err := c.town.quiet(ctx, settle); err != nil {
		return err
	}
	count, err := c.town.counted()
	if err != nil {
		return err
	}
	if c.busy != nil {
		delivered := 0
		err := until(ctx, deliverWithin, 10*time.Millisecond, func() (done bool, err error) {
			delivered, c.failed, err = c.busy.hub.attempts()
			return delivered >= c.owed, err
		})
		if err != nil {
			return err
		}
		if delivered != c.owed {
			return fmt.Errorf("the hub counted %d deliveries, not %d", delivered, c.owed)
		}
	}
	if more := int(count) - c.owed; more < 0 || more > c.failed {
		return fmt.Errorf("the sink counted %d requests, not %d; %d attempts failed", count, c.owed, c.failed)
	}
	return nil
}
