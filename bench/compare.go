package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// The hubs among the contestants, by their engine.
const (
	onPebble = "hub"
	onRedis  = "hub, Redis"
)

// field is the contestants, in the order in which each round runs them, and the
// hubs among them.
type field struct {
	names []string
	hubs  map[string]*hub
}

// compare runs every round and prints the table.
func compare(ctx context.Context, p plan, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := buildHub(ctx, dir)
	if err != nil {
		return err
	}
	target, stopSink, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer stopSink()
	measured, err := runRounds(ctx, p, binary, dir, target, stderr)
	if err != nil {
		return err
	}
	printTable(stdout, p, measured)
	if p.idle == 0 {
		return nil
	}
	return weighIdle(ctx, p, binary, "pebble:"+filepath.Join(dir, "idle"), target, stdout, stderr)
}

// results are what the rounds gave.
type results struct {
	names  []string
	rounds []map[string]usage // by name
	// atRest is redisServer.atRest.
	atRest float64
}

// runRounds starts the hubs and runs every round.
func runRounds(ctx context.Context, p plan, binary, dir, target string, stderr io.Writer) (r results, err error) {
	f := field{names: []string{roleNetHTTP, roleFastHTTP}, hubs: map[string]*hub{}}
	defer func() {
		for _, h := range f.hubs {
			h.stop()
		}
	}()
	if err := f.enter(ctx, p, onPebble, binary, "pebble:"+filepath.Join(dir, "deliveries"), target, stderr); err != nil {
		return r, err
	}
	server, err := startRedis(ctx, filepath.Join(dir, "redis"))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		fmt.Fprintln(stderr, "THERE IS NO redis-server: the hub on Redis is left out")
	case err != nil:
		return r, err
	default:
		defer server.stop()
		defer func() { f.stop(onRedis) }() // first: it saves its cursors at the end
		if err := f.enter(ctx, p, onRedis, binary, "redis://"+server.address+"/0", target, stderr); err != nil {
			return r, err
		}
		f.hubs[onRedis].redis = server
		fmt.Fprintf(stderr, "%s: at rest for %s…\n", onRedis, p.rest)
		if r.atRest, err = server.watchAtRest(ctx, p.rest); err != nil {
			return r, err
		}
		server.atRest = r.atRest
	}
	for i := range p.rounds {
		fmt.Fprintf(stderr, "round %d of %d…\n", i+1, p.rounds)
		round, err := f.run(ctx, p, target)
		if err != nil {
			return r, err
		}
		r.rounds = append(r.rounds, round)
	}
	r.names = f.names
	return r, nil
}

// enter starts a hub, and makes the subscriptions that it delivers to.
func (f *field) enter(ctx context.Context, p plan, name, binary, store, target string, stderr io.Writer) error {
	fmt.Fprintf(stderr, "%s: %d subscriptions are being made…\n", name, p.callbacks)
	h, err := startHub(ctx, binary, store, target)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.names, f.hubs[name] = append(f.names, name), h
	if err := h.prepare(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (f *field) stop(name string) {
	if h := f.hubs[name]; h != nil {
		h.stop()
	}
}

// run runs one round.
func (f *field) run(ctx context.Context, p plan, target string) (map[string]usage, error) {
	round := map[string]usage{}
	for _, name := range f.names {
		var u usage
		var err error
		if h := f.hubs[name]; h != nil {
			u, err = h.deliver(ctx, p)
		} else {
			u, err = runChild(ctx, p, name, target)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		round[name] = u
	}
	return round, nil
}

// runChild runs one bare loop in a process of its own.
func runChild(ctx context.Context, p plan, role, target string) (usage, error) {
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", role, "-target", target,
		"-callbacks", fmt.Sprint(p.callbacks), "-publications", fmt.Sprint(p.publications),
		"-connections", fmt.Sprint(p.connections), "-body", fmt.Sprint(p.bodyBytes))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return usage{}, err
	}
	var u usage
	return u, json.Unmarshal(out, &u)
}

// printTable prints the median of each figure, and the median of the ratios
// that each round gives by itself: what was slow in a round was slow for all.
func printTable(w io.Writer, p plan, measured results) {
	names, rounds := measured.names, measured.rounds
	fmt.Fprintf(w, "\n%s/%s, %d processors, %s; %d callbacks on one host, %d bytes, %d rounds of %d deliveries; medians\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), p.callbacks, p.bodyBytes, p.rounds, p.callbacks*p.publications)
	fmt.Fprintf(w, "hub: durable, in order, signed with sha256; the loops: %d connections, nothing but the POST\n\n", p.connections)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "contestant\tdeliveries/s\t÷ net/http\t÷ fasthttp\tCPU each\t÷ net/http\t÷ fasthttp\t")
	for _, name := range names {
		speed := func(r map[string]usage, of string) float64 { return r[of].perSecond() }
		cost := func(r map[string]usage, of string) float64 { return float64(r[of].cpuEach()) }
		fmt.Fprintf(tw, "%s\t%.0f\t%.2f\t%.2f\t%s\t%.2f\t%.2f\t\n", name,
			median(rounds, func(r map[string]usage) float64 { return speed(r, name) }),
			median(rounds, func(r map[string]usage) float64 { return speed(r, name) / speed(r, roleNetHTTP) }),
			median(rounds, func(r map[string]usage) float64 { return speed(r, name) / speed(r, roleFastHTTP) }),
			time.Duration(median(rounds, func(r map[string]usage) float64 { return cost(r, name) })).Round(100*time.Nanosecond),
			median(rounds, func(r map[string]usage) float64 { return cost(r, name) / cost(r, roleNetHTTP) }),
			median(rounds, func(r map[string]usage) float64 { return cost(r, name) / cost(r, roleFastHTTP) }))
	}
	tw.Flush()
	if slices.Contains(names, onRedis) {
		fmt.Fprintf(w, "\nRedis (AOF, appendfsync always): %.4f commands for each delivery, publishing included; the leases take %.0f a second\n",
			median(rounds, func(r map[string]usage) float64 { return r[onRedis].commandsEach() }), measured.atRest)
	}
}

func median[T any](of []T, figure func(T) float64) float64 {
	figures := make([]float64, len(of))
	for i, x := range of {
		figures[i] = figure(x)
	}
	slices.SortFunc(figures, cmp.Compare[float64])
	return figures[len(figures)/2]
}
