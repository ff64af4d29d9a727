// Command hub is a WebSub hub that relays ResourceSync change notifications. It
// starts on a bare machine and keeps everything in one directory:
//
//	hub --listen 127.0.0.1:8080 --store pebble:hub-data
//
// Each flag has an environment variable (HUB_LISTEN, …) and a line in the file
// that --config names. When it is ready it prints one line with its addresses on
// stdout; logs go to stderr. SIGTERM and SIGINT end it in order.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"carillon/cmd/internal/program"
)

const summary = "A WebSub hub that relays ResourceSync change notifications: in order for each subscriber, with nothing lost."

func main() { os.Exit(program.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOn(ctx, args, stdout, stderr, nil)
}

// runOn is run with something between a hub and its engine: what tests put there.
func runOn(ctx context.Context, args []string, stdout, stderr io.Writer, disturb func(*engine)) int {
	c := commands{Serve: serveCommand{disturb: disturb}}
	chosen, err := program.ParseCommand("hub", summary, &c, args, stdout)
	if errors.Is(err, program.ErrDone) {
		return 0
	}
	if err == nil {
		level := program.NewLogLevel(c.level(chosen))
		c.Serve.level = level
		err = chosen.(command).run(ctx, program.Logger(stderr, level), os.Stdin, stdout, stderr)
	}
	if err != nil {
		return program.Fail(stderr, "hub", err)
	}
	return 0
}

// run serves until ctx ends.
func (f *serveCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, _ io.Writer) error {
	f.warn(logger)
	program.WarnOfVariables(logger, "hub", &commands{}, passwordVariable, adminTokenVariable)
	h, err := open(ctx, *f, logger)
	if err != nil {
		return err
	}
	defer h.close()
	return h.run(ctx, func() {
		program.Ready(stdout, "hub",
			program.Address{Name: "listen", Value: h.public.Addr().String()},
			program.Address{Name: "admin", Value: h.operator.Addr().String()},
			program.Address{Name: "url", Value: h.url})
	})
}
