package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"carillon/internal/engine"
	"carillon/internal/faults"
	"carillon/internal/house"
)

// beFaulty in the environment of a hub under test has its engine fail: it is the seed of the plan.
// Each fault is written to a pipe before it takes effect, so that a kill of the process loses no
// report.
const beFaulty = "CARILLON_TEST_FAULTS"

// faultPipe is the file descriptor of that pipe.
const faultPipe = 3

// calmDown ends the faults of a hub under test that runs on.
const calmDown = syscall.SIGUSR1

// hubUnderTest is run, with faults where the environment asks for them.
func hubUnderTest(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	seed, err := strconv.ParseUint(os.Getenv(beFaulty), 10, 64)
	if err != nil {
		return run(ctx, args, stdout, stderr)
	}
	told := os.NewFile(faultPipe, "faults")
	plan := faults.NewPlan(faults.Config{
		Seed: seed, Rates: soakRates(), HangMax: 300 * time.Millisecond,
		Injected: func(call string, kind faults.Kind) { fmt.Fprintf(told, "%s %s\n", call, kind) },
	})
	calm := make(chan os.Signal, 1)
	ossignal.Notify(calm, calmDown)
	go func() {
		<-calm
		plan.Calm()
	}()
	return runOn(ctx, args, stdout, stderr, openWith(house.Hooks{Engine: func(e *engine.Engine) { failBy(e, plan) }}))
}

// failBy puts a plan between a hub and its engine.
func failBy(e *engine.Engine, plan *faults.Plan) {
	e.Subscriptions = faults.NewStore(e.Subscriptions, plan)
	e.Log = faults.NewLog(e.Log, plan)
	e.Pings = faults.NewPings(e.Pings, plan)
	e.Cursors = faults.NewCursors(e.Cursors, plan)
	e.Marks = faults.NewMarks(e.Marks, plan)
	e.Sources = faults.NewSources(e.Sources, plan)
}

// soakRates are high where a call changes something, and low where a fault makes
// a subscription or a shard rest for seconds.
func soakRates() map[string]faults.Rates {
	changing := faults.Rates{Before: 0.1, After: 0.1, Delay: 0.03, Hang: 0.02}
	reading := faults.Rates{Before: 0.025, After: 0.025, Delay: 0.01, Hang: 0.005}
	return map[string]faults.Rates{
		"store.Submit": changing, "store.KeepStart": changing, "store.Activate": changing, "store.Drop": changing, "store.Unsubscribe": changing,
		"store.Remove": changing, "store.Requests": reading, "store.Request": reading, "store.Get": reading, "store.Expired": reading,
		"log.Append": changing, "log.Trim": changing, "log.Shrink": changing,
		"log.Read": reading, "log.Heads": changing, "log.Topics": reading,
		"cursors.Save": changing, "cursors.Members": reading,
		"pings.Ping": changing, "pings.Fetched": changing, "pings.Waiting": reading,
		"marks.Mark": changing, "marks.Lowest": changing,
		"sources.Get": reading, "sources.List": reading,
	}
}

// startHub starts a hub whose engine fails by the seed, or never where it is 0, and
// waits until it is ready.
func (s *soak) startHub(seed uint64, args ...string) *process {
	t := s.t
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], slices.Concat(s.args, args)...), ready: map[string]string{}, log: &logText{}}
	p.cmd.Env = hubEnvironment()
	p.cmd.Stderr = p.log
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if seed != 0 {
		told, tell, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer tell.Close()
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("%s=%d", beFaulty, seed))
		p.cmd.ExtraFiles = []*os.File{tell}
		s.telling.Go(func() { s.readFaults(told) })
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.awaitReady(t)
	return p
}

// readFaults counts the faults that a process reports, until its end.
func (s *soak) readFaults(told *os.File) {
	defer told.Close()
	for lines := bufio.NewScanner(told); lines.Scan(); {
		s.mu.Lock()
		s.engineFaults[lines.Text()]++
		s.mu.Unlock()
	}
}

// soakSeed is that of the environment, for a run that is to be repeated, or another
// one each time.
func soakSeed(t *testing.T) uint64 {
	t.Helper()
	const variable = "CARILLON_SOAK_SEED"
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Logf("%s=%d has the faults planned like this again", variable, seed)
	return seed
}
