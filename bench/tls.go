package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The figures of this scenario.
var (
	goalTLSThousands     = atMost(0.8, "tls: 3,000 hosts × 1, later rounds: CPU per delivery ÷ loop", "")
	goalTLSThousandsOpen = atMost(0.01, "tls: 3,000 hosts × 1, later rounds: handshakes per delivery", "")
	goalTLSTen           = atMost(0.8, "tls: 10,000 hosts × 1, later rounds: CPU per delivery ÷ loop", "")
	goalTLSTenOpen       = atMost(0.01, "tls: 10,000 hosts × 1, later rounds: handshakes per delivery", "")
	goalTLSFive          = atMost(1.1, "tls: 1,000 hosts × 5, first round: CPU per delivery ÷ loop", "")
	goalTLSFiveOpen      = atMost(1.5, "tls: 1,000 hosts × 5, first round: handshakes ÷ loop", "")
	goalTLSTwenty        = atMost(1.1, "tls: 200 hosts × 20, first round: CPU per delivery ÷ loop", "")
	goalTLSTwentyOpen    = atMost(1.5, "tls: 200 hosts × 20, first round: handshakes ÷ loop", "")
	goalTLSClosing       = atMost(1, "tls: hosts that close, later rounds: CPU per delivery ÷ loop", "")
	goalTLSClosingFull   = atMost(0, "tls: hosts that close, later rounds: handshakes that are not resumed", "")
	goalTLSFarFirst      = atMost(1.5, "tls: 100 ms away, first round: time until the last ÷ loop with a worker for each host", "")
	goalTLSFarLater      = atMost(1.5, "tls: 100 ms away, later rounds: time until the last ÷ loop with a worker for each host", "")
	goalTLSVerified      = atMost(1, "tls: handshakes for each host, for its verification and its first delivery", "")
	goalTLSFailed        = atMost(0, "tls: attempts that failed", "")
	goalTLSMemory        = atMost(16, "tls: RSS for each connection that is kept", " KiB")
)

// spread is a number of hosts, each with a number of callbacks.
type spread struct{ hosts, each int }

func (s spread) callbacks() int { return s.hosts * s.each }

func (s spread) String() string { return fmt.Sprintf("%d × %d", s.hosts, s.each) }

// tlsBench holds what the parts of this scenario share.
type tlsBench struct {
	*env
	authority string         // the directory that newAuthority filled
	failed    map[engine]int // attempts that failed so far
}

// overTLS measures deliveries to many hosts over TLS, beside a bare loop.
func overTLS(ctx context.Context, e *env) error {
	e.report.section("Thousands of hosts, over TLS")
	if runtime.GOOS != "linux" {
		e.report.note("Left out: this needs Linux, where every address of 127.0.0.0/8 is this machine.")
		return nil
	}
	b := &tlsBench{env: e, authority: filepath.Join(e.dir, "authority"), failed: map[engine]int{}}
	if err := b.enoughFiles(); err != nil {
		return err
	}
	if err := os.Mkdir(b.authority, 0o700); err != nil {
		return err
	}
	if err := newAuthority(b.authority); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	for _, part := range []func(context.Context) error{b.costs, b.far, b.verified, b.memory} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	for _, on := range e.engines {
		e.report.put(goalTLSFailed, on, float64(b.failed[on]))
	}
	return nil
}

// enoughFiles returns an error unless a process may open one connection to every host, and
// some more files.
func (b *tlsBench) enoughFiles() error {
	most := 0
	for _, r := range b.rows() {
		most = max(most, r.hosts)
	}
	files, err := mostFiles()
	if needed := most + most/4; err == nil && files < needed {
		err = fmt.Errorf("a process may open %d files here, and %d connections are measured: allow %d (ulimit -Hn)", files, most, needed)
	}
	return err
}

// tlsRow is one line of the first table. first and later report the figures that have a
// goal, if any.
type tlsRow struct {
	spread
	manner
	first, later func(on engine, hub, loop tlsUsage, ratio float64)
}

func (r tlsRow) String() string {
	if r.closeAfter > 0 {
		return fmt.Sprintf("%s, closed after %s", r.spread, r.closeAfter)
	}
	return r.spread.String()
}

func (b *tlsBench) rows() []tlsRow {
	of := func(hosts, each int) spread { return spread{hosts / b.plan.hostShare, each} }
	keeps := func(cpu, open goal) func(engine, tlsUsage, tlsUsage, float64) {
		return func(on engine, hub, _ tlsUsage, ratio float64) {
			b.report.put(cpu, on, ratio)
			b.report.put(open, on, hub.handshakesEach())
		}
	}
	opens := func(cpu, open goal) func(engine, tlsUsage, tlsUsage, float64) {
		return func(on engine, hub, loop tlsUsage, ratio float64) {
			b.report.put(cpu, on, ratio)
			b.report.put(open, on, float64(hub.all())/float64(loop.all()))
		}
	}
	return []tlsRow{
		{spread: of(3000, 1), later: keeps(goalTLSThousands, goalTLSThousandsOpen)},
		{spread: of(10_000, 1), later: keeps(goalTLSTen, goalTLSTenOpen)},
		{spread: of(1000, 5), first: opens(goalTLSFive, goalTLSFiveOpen)},
		{spread: of(200, 20), first: opens(goalTLSTwenty, goalTLSTwentyOpen)},
		{
			spread: of(1000, 1), manner: manner{closeAfter: b.plan.closeAfter},
			later: func(on engine, hub, _ tlsUsage, ratio float64) {
				b.report.put(goalTLSClosing, on, ratio)
				b.report.put(goalTLSClosingFull, on, float64(hub.full))
			},
		},
	}
}

// costs measures the CPU time and the handshakes of each delivery.
func (b *tlsBench) costs(ctx context.Context) error {
	b.report.note("Every host is an address, with a certificate of its own (ECDSA P-256) below an intermediate one; TLS 1.3. %d bytes, signed by the hub. "+
		"The loop: net/http, %d workers, a session cache for all hosts, no bound on idle connections, the callbacks in an order that visits the hosts in turn. "+
		"Every contestant has a sink process of its own. First: the first round after the start. Later: after that and another round, the median of %d (CPU: of the ratios of each round; handshakes: of all). "+
		"CPU: of the process, also in the %s after the round, when positions are saved. "+
		"Checked: each sink has counted exactly what was owed, and as often more as an attempt failed.",
		b.plan.bodyBytes, b.plan.connections, b.plan.tlsRounds, b.plan.tlsSettle)
	var rows [][]string
	for _, row := range b.rows() {
		b.log("%s", row)
		lines, err := b.cost(ctx, row)
		if err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
		rows = append(rows, lines...)
	}
	b.report.table([]string{
		"hosts × callbacks", "round", "hub on", "attempts delivered, in all rounds", "CPU each", "of the loop", "÷", "time", "of the loop",
		"handshakes each (full + resumed)", "of the loop",
	}, rows)
	return nil
}

func (b *tlsBench) cost(ctx context.Context, row tlsRow) (lines [][]string, err error) {
	field, err := b.field(ctx, row.spread, row.manner, b.plan.connections)
	if err != nil {
		return nil, err
	}
	defer stopAll(field)
	rounds, err := b.runTLS(ctx, field, row.manner)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name   string
		rounds [][]tlsUsage
		put    func(engine, tlsUsage, tlsUsage, float64)
	}{{"first", rounds.first, row.first}, {"later", rounds.later, row.later}} {
		for i := 1; i < len(field); i++ {
			ratio := median(part.rounds, func(r []tlsUsage) float64 { return r[i].cpuEach() / r[0].cpuEach() })
			hub, loop := total(part.rounds, i), total(part.rounds, 0)
			lines = append(lines, append([]string{row.String(), part.name, field[i].on.String(), field[i].attempts}, costs(part.rounds, i, ratio)...))
			if part.put != nil {
				part.put(field[i].on, hub, loop, ratio)
			}
		}
	}
	return lines, nil
}

// total sums up the rounds of the i-th contestant.
func total(rounds [][]tlsUsage, i int) (sum tlsUsage) {
	for _, r := range rounds {
		sum = sum.and(r[i])
	}
	return sum
}

func costs(rounds [][]tlsUsage, i int, ratio float64) []string {
	cpu := func(i int) string {
		return fmt.Sprintf("%.0f µs", median(rounds, func(r []tlsUsage) float64 { return r[i].cpuEach() })/1000)
	}
	wall := func(i int) string {
		return fmt.Sprintf("%.2f s", median(rounds, func(r []tlsUsage) float64 { return r[i].Wall.Seconds() }))
	}
	made := func(i int) string {
		u := total(rounds, i)
		return fmt.Sprintf("%.3f (%d + %d)", u.handshakesEach(), u.full, u.resumed)
	}
	return []string{cpu(i), cpu(0), fmt.Sprintf("%.2f", ratio), wall(i), wall(0), made(i), made(0)}
}
