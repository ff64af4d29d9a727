// Command fuzz runs every fuzz target of a module for a while and prints a table of
// them. It finds them by itself, builds each package once, and runs as many targets
// beside each other as it takes to be done within the time given.
//
//	fuzz -root .. -time 30s -within 3m30s
//
// Each begins with the corpus in the repository, or goes on from what earlier runs found
// (-keep), as `go test -fuzz` does. An input that fails is written to the package's
// testdata/fuzz, to be committed with what mends it; the exit status is then 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"
)

// slack is what a target may take beyond its time: to read what earlier runs found, and
// to make a failing input small.
const slack = 90 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "directory of the module")
	each := flags.Duration("time", 30*time.Second, "how long each target runs")
	within := flags.Duration("within", 120*time.Second, "how long all of them may take together")
	keep := flags.Bool("keep", false, "go on from what earlier runs found, and keep what this one finds")
	only := flags.String("only", "", "regular expression of the targets, by package and name")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	targets, clean, err := find(ctx, *root, *only, *keep)
	defer clean()
	if err != nil {
		fmt.Fprintf(stderr, "fuzz: %v\n", err)
		return 1
	}
	side := sideBySide(len(targets), *each, *within)
	fmt.Fprintf(stdout, "%d targets, %s each, %d side by side\n", len(targets), *each, side)
	results := runAll(ctx, targets, *each, side, stderr)
	show(stdout, targets, results)
	failed := 0
	for i, r := range results {
		if r.err != nil {
			failed++
			fmt.Fprintf(stderr, "FAILED %s: %v\n%s\n", targets[i], r.err, r.output)
		}
	}
	if failed > 0 {
		fmt.Fprintf(stderr, "fuzz: %d of %d targets failed\n", failed, len(targets))
		return 1
	}
	return 0
}

// sideBySide is how many of the targets run at a time.
func sideBySide(targets int, each, within time.Duration) int {
	rounds := max(1, int(within/each))
	return max(1, min(targets, max(runtime.NumCPU(), (targets+rounds-1)/rounds)))
}

// runAll runs the targets, so many at a time, and reports each that has ended.
func runAll(ctx context.Context, targets []target, each time.Duration, side int, stderr io.Writer) []result {
	results := make([]result, len(targets))
	next := make(chan int)
	var workers sync.WaitGroup
	for range side {
		workers.Go(func() {
			for i := range next {
				results[i] = targets[i].run(ctx, each)
				if results[i].err != nil {
					fmt.Fprintf(stderr, "FAILED %s\n", targets[i])
				}
			}
		})
	}
	for i := range targets {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

func show(w io.Writer, targets []target, results []result) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "target\tcorpus\tbytes\texecs\tnew interesting\tresult\t")
	var files, execs int
	for i, t := range targets {
		verdict := "ok"
		switch r := results[i]; {
		case r.err != nil:
			verdict = "FAILED"
		case r.execs == 0: // the machine is busy; they run in go test as well
			verdict = "only seeds: " + r.seeds
		}
		fmt.Fprintf(
			table, "%s\t%d\t%d\t%d\t%d\t%s\t\n", t, t.files, t.bytes, results[i].execs,
			results[i].interesting, verdict,
		)
		files, execs = files+t.files, execs+results[i].execs
	}
	fmt.Fprintf(table, "%d targets\t%d\t\t%d\t\t\t\n", len(targets), files, execs)
	if err := table.Flush(); err != nil {
		fmt.Fprintln(w, err)
	}
}
