package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// The roles of the processes that a run starts, each apart so that its CPU
// time is its own.
const (
	roleSink     = "sink"
	roleNetHTTP  = "net/http"
	roleFastHTTP = "fasthttp"
	roleTLSSink  = "sink, TLS"
	roleTLSLoop  = "net/http, TLS"
)

// child is one such process.
type child struct {
	role        string
	hosts       int    // sink
	target      string // of a loop: host:port, over TLS the port; of a reader: a file
	requests    int
	callbacks   int
	connections int
	bodyBytes   int

	// Over TLS:
	authority             string // the directory that newAuthority filled
	roundTrip, closeAfter time.Duration
}

func (c *child) flags(flags *flag.FlagSet) {
	const own = "for the processes that bench starts itself"
	flags.StringVar(&c.role, "role", "", own)
	flags.IntVar(&c.hosts, "hosts", 1, own)
	flags.StringVar(&c.target, "target", "", own)
	flags.IntVar(&c.requests, "requests", 0, own)
	flags.IntVar(&c.callbacks, "callbacks", 1, own)
	flags.IntVar(&c.connections, "connections", 1, own)
	flags.IntVar(&c.bodyBytes, "body", 0, own)
	flags.StringVar(&c.authority, "authority", "", own)
	flags.DurationVar(&c.roundTrip, "round-trip", 0, own)
	flags.DurationVar(&c.closeAfter, "close-after", 0, own)
}

func (c child) run(ctx context.Context, stdout io.Writer) error {
	switch c.role {
	case roleSink:
		return runSink(ctx, c.hosts, stdout)
	case roleNetHTTP:
		return c.loop(ctx, stdout, c.netHTTPPost())
	case roleFastHTTP:
		return c.loop(ctx, stdout, c.fastHTTPPost())
	case roleTLSSink:
		return c.runTLSSink(ctx, stdout)
	case roleTLSLoop:
		return c.tlsLoop(ctx, os.Stdin, stdout)
	}
	return c.readRole(stdout)
}

// readRole is one of those that read lists.
func (c child) readRole(stdout io.Writer) error {
	switch c.role {
	case roleReader:
		return c.read(stdout, readEntries)
	case roleInspected:
		return c.read(stdout, inspectEntries)
	case roleUnmarshal:
		return c.read(stdout, unmarshalEntries)
	}
	return fmt.Errorf("there is no role %q", c.role)
}

// ownCommand is this program once more, in a role.
func ownCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.CommandContext(ctx, self, args...), err
}

// runLoop runs one bare loop in a process of its own.
func (e *env) runLoop(ctx context.Context, role string, requests int) (usage, error) {
	cmd, err := ownCommand(ctx, "-role", role, "-target", e.town.hosts[0], "-requests", fmt.Sprint(requests),
		"-callbacks", fmt.Sprint(e.plan.callbacks), "-connections", fmt.Sprint(e.plan.connections), "-body", fmt.Sprint(e.plan.bodyBytes))
	if err != nil {
		return usage{}, err
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return usage{}, err
	}
	var u usage
	return u, json.Unmarshal(out, &u)
}

// usage is what one contestant needed for the deliveries of a round.
type usage struct {
	Deliveries int
	Wall, CPU  time.Duration
	// Commands is what the hub's Redis carried out for it, beyond what it does at rest.
	Commands float64
}

func (u usage) perSecond() float64    { return float64(u.Deliveries) / u.Wall.Seconds() }
func (u usage) commandsEach() float64 { return u.Commands / float64(u.Deliveries) }
func (u usage) cpuEach() float64      { return float64(u.CPU) / float64(u.Deliveries) }
