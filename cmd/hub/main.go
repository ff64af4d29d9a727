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
	"os"

	"carillon"

	"carillon/cmd/internal/program"
	"carillon/operator/api"
	"carillon/transfer"
)

const (
	name    = "hub"
	summary = "A WebSub hub that relays ResourceSync change notifications: in order for each subscriber, with nothing lost."
)

//go:generate go run . config reference --into ../../docs/configuration.md

func main() { os.Exit(program.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOn(ctx, args, stdout, stderr, openHub)
}

// runOn is run with another way to open a hub: tests put something between it and its engine.
func runOn(
	ctx context.Context, args []string, stdout, stderr io.Writer, open func(carillon.Config) (openedHub, error),
) int {
	stderr = program.OnScreen(stderr)
	err := runChosen(ctx, args, stdout, stderr, open)
	if err == nil || errors.Is(err, program.ErrDone) {
		return 0
	}
	return program.Fail(stderr, name, err)
}

// runChosen does what the arguments say.
func runChosen(
	ctx context.Context, args []string, stdout, stderr io.Writer, open func(carillon.Config) (openedHub, error),
) error {
	c := commands{Serve: serveCommand{open: open}}
	read, err := program.Read(name, summary, &c, args, stdout)
	if err != nil {
		return err
	}
	level := program.NewLogLevel(c.level(read.Command))
	logger := program.Logger(stderr, level)
	switch chosen := read.Command.(type) {
	case *program.CheckCommand[serveCommand]:
		return chosen.Check(ctx, name, &commands{}, stdout, stderr, passwordVariable, api.TokenVariable)
	case *program.ReferenceCommand:
		return chosen.Write(name, &commands{}, stdout)
	case *program.VersionCommand:
		return chosen.Print(stdout, name, map[string]int{"export": transfer.Version})
	case *serveCommand:
		chosen.again = program.Reloading{
			InForce: read, Level: level, Logger: logger,
			Read: func() (*program.Settings, error) {
				return program.Read(name, summary, &commands{}, args, io.Discard)
			},
		}
	}
	return read.Command.(command).run(ctx, logger, os.Stdin, stdout, stderr)
}
