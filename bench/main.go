// Command bench measures what the hub adds to HTTP itself, and what it does not
// let its subscribers feel: a real hub process, as it comes, beside yardsticks
// in the same run, on Pebble and, where a redis-server is installed, on Redis.
//
//	go run ./bench                          everything, some twenty minutes
//	go run ./bench -only throughput,million these scenarios
//	go run ./bench -engines pebble -quick   a small run, whose figures mean nothing
//	go run ./bench -markdown >bench/RESULTS.md
//
// Absolute figures depend on the machine and the moment; quote the ratios. It
// runs on this machine only, through the loopback interface, and ends by itself.
// It exits with 0 also where a goal is not met: the table at the end says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit ends a run that hangs.
const limit = 30 * time.Minute

// options are the command line.
type options struct {
	only, engines   string
	quick, markdown bool
	profile         string
	child           child
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.only, "only", "", "measure only these scenarios: "+strings.Join(names(), ","))
	flags.StringVar(&o.engines, "engines", "pebble,redis", "the engines to measure on")
	flags.BoolVar(&o.quick, "quick", false, "small numbers: a run that shows that everything works, and measures nothing")
	flags.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	flags.StringVar(&o.profile, "profile", "", "put CPU profiles of the hubs during the throughput rounds, and of both sides of dumps, into this directory (by perf, which costs some time)")
	o.child.flags(flags)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var err error
	if o.child.role != "" {
		err = o.child.run(ctx, stdout)
	} else {
		err = measure(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// scenario measures some of the figures, and reports them.
type scenario struct {
	name string
	run  func(context.Context, *env) error
}

var scenarios = []scenario{
	{"throughput", throughput},
	{"million", million},
	{"publishers", publishers},
	{"sick", sick},
	{"slow", slow},
	{"first", first},
	{"documents", documents},
	{"lists", lists},
	{"mirror", mirror},
	{"dump", dump},
	{"retention", retention},
	{"tls", overTLS},
}

func names() []string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return all
}

// env is what all scenarios share.
type env struct {
	plan    plan
	engines []engine
	binary  string // the hub
	dir     string // removed at the end
	town    *town
	profile string // a directory; empty: no profiles
	report  *report
	stderr  io.Writer
}

// log tells who waits what is going on.
func (e *env) log(format string, args ...any) {
	fmt.Fprintf(e.stderr, time.Now().Format("15:04:05 ")+format+"…\n", args...)
}

func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	e := &env{plan: fullPlan, profile: o.profile, stderr: stderr}
	if o.quick {
		e.plan = quickPlan
	}
	if e.engines, err = chooseEngines(o.engines, stderr); err != nil {
		return err
	}
	if e.dir, err = os.MkdirTemp("", "carillon-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(e.dir)
	e.log("building the hub")
	if e.binary, err = e.dir+"/hub", build(ctx, e.dir, "hub"); err != nil {
		return err
	}
	if e.town, err = startTown(ctx, e.plan.hosts()); err != nil {
		return err
	}
	defer e.town.stop()
	e.report = &report{w: stdout, markdown: o.markdown, engines: e.engines}
	e.describe(o)
	for _, s := range chosen {
		e.log("%s", s.name)
		if err := s.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	e.report.summary()
	return nil
}

func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no scenario %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

func chooseEngines(list string, stderr io.Writer) ([]engine, error) {
	var chosen []engine
	for name := range strings.SplitSeq(list, ",") {
		switch e := engine(name); e {
		case onRedis:
			if _, err := exec.LookPath("redis-server"); errors.Is(err, exec.ErrNotFound) {
				fmt.Fprintln(stderr, "THERE IS NO redis-server: the hub on Redis is left out")
				continue
			}
			chosen = append(chosen, e)
		case onPebble:
			chosen = append(chosen, e)
		default:
			return nil, fmt.Errorf("-engines: %q is neither pebble nor redis", name)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("-engines: none is left")
	}
	return chosen, nil
}

// onEach runs a scenario on each engine, with a store of its own.
func (e *env) onEach(ctx context.Context, do func(on engine, s *store) error) error {
	for _, on := range e.engines {
		if err := e.with(ctx, on, do); err != nil {
			return fmt.Errorf("on %s: %w", on, err)
		}
	}
	return nil
}

func (e *env) with(ctx context.Context, on engine, do func(on engine, s *store) error) error {
	s, err := e.newStore(ctx, on)
	if err != nil {
		return err
	}
	defer s.remove()
	return do(on, s)
}
