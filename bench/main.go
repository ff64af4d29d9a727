// Command bench measures what the hub adds to HTTP itself, and how little its subscribers
// disturb one another: a real hub process with default settings, beside yardsticks in the same
// run, on Pebble and, if a redis-server is installed, on Redis.
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
	"encoding/json"
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
	child           string
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.only, "only", "", "measure only these scenarios: "+strings.Join(names(), ","))
	flags.StringVar(&o.engines, "engines", "pebble,redis", "the engines to measure on")
	flags.BoolVar(&o.quick, "quick", false, "a small run, whose figures mean nothing")
	flags.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	flags.StringVar(&o.child, "child", "", "for the processes that bench starts itself")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var err error
	if o.child != "" {
		err = runChild(ctx, o.child, stdout)
	} else {
		err = measure(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// runChild plays the role of a process that bench starts of itself.
func runChild(ctx context.Context, config string, stdout io.Writer) error {
	var c child
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("-child: %w", err)
	}
	switch c.Role {
	case roleSink:
		return runSink(ctx, c, stdout)
	case roleNetHTTP, roleFastHTTP:
		return runLoop(ctx, c, os.Stdin, stdout)
	}
	return fmt.Errorf("there is no role %q", c.Role)
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
	{"mirror", mirror},
	{"tls", overTLS},
}

func names() []string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return all
}

func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	e := &env{plan: fullPlan, stderr: stderr}
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
	if e.binary, err = build(ctx, e.dir, "hub"); err != nil {
		return err
	}
	if e.town, err = startTown(ctx, child{Hosts: e.plan.hosts()}); err != nil {
		return err
	}
	defer e.town.stop()
	e.report = &report{w: stdout, markdown: o.markdown, engines: e.engines}
	e.describe(o.command())
	if o.quick {
		e.report.note("THESE ARE THE SMALL NUMBERS OF -quick: THEY MEAN NOTHING.")
	}
	for _, s := range chosen {
		e.log("%s", s.name)
		if err := s.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	e.report.summary()
	return nil
}

// command is the command line that these options came from.
func (o options) command() string {
	command := "go run ./bench"
	if o.only != "" {
		command += " -only " + o.only
	}
	command += " -engines " + o.engines
	if o.quick {
		command += " -quick"
	}
	if o.markdown {
		command += " -markdown"
	}
	return command
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
