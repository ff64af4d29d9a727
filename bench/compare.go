package main

import (
	"cmp"
	"context"
	"encoding/json"
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

// contestants in the order in which each round runs them.
var contestants = []string{roleNetHTTP, roleFastHTTP, "hub"}

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

	fmt.Fprintf(stderr, "%d subscriptions are being made…\n", p.callbacks)
	h, err := startHub(ctx, binary, filepath.Join(dir, "deliveries"), target)
	if err != nil {
		return err
	}
	defer h.stop()
	if err := h.prepare(ctx, p); err != nil {
		return err
	}
	rounds := make([]map[string]usage, 0, p.rounds)
	for i := range p.rounds {
		fmt.Fprintf(stderr, "round %d of %d…\n", i+1, p.rounds)
		round, err := runRound(ctx, p, h, target)
		if err != nil {
			return err
		}
		rounds = append(rounds, round)
	}
	h.stop()
	printTable(stdout, p, rounds)
	if p.idle == 0 {
		return nil
	}
	return weighIdle(ctx, p, binary, filepath.Join(dir, "idle"), target, stdout, stderr)
}

func runRound(ctx context.Context, p plan, h *hub, target string) (map[string]usage, error) {
	round := map[string]usage{}
	for _, name := range contestants {
		var u usage
		var err error
		if name == "hub" {
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
func printTable(w io.Writer, p plan, rounds []map[string]usage) {
	fmt.Fprintf(w, "\n%s/%s, %d processors, %s; %d callbacks on one host, %d bytes, %d rounds of %d deliveries; medians\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), p.callbacks, p.bodyBytes, p.rounds, p.callbacks*p.publications)
	fmt.Fprintf(w, "hub: durable, in order, signed with sha256; the loops: %d connections, nothing but the POST\n\n", p.connections)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "contestant\tdeliveries/s\t÷ net/http\t÷ fasthttp\tCPU each\t÷ net/http\t÷ fasthttp\t")
	for _, name := range contestants {
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
}

func median[T any](of []T, figure func(T) float64) float64 {
	figures := make([]float64, len(of))
	for i, x := range of {
		figures[i] = figure(x)
	}
	slices.SortFunc(figures, cmp.Compare[float64])
	return figures[len(figures)/2]
}
