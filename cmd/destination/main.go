// Command destination is the Destination's side of a change notification channel.
//
// Without a command it subscribes to a topic and prints each change: what a
// newcomer runs to see that a Source and a hub work, and what an operator runs to
// see what a Destination sees. It prints one line when it listens, then one line for
// each change. With --json every line is an object: the first has the member
// "ready", changes have "change", content of other kinds has "content".
//
// destination follow is what people run: it keeps its place, sees what is missing,
// catches up on it, and hands every change on in order.
//
// Logs, gaps in the chain of notifications among them, go to stderr.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"carillon/cmd/internal/program"
)

const (
	name    = "destination"
	summary = "Subscribe to the change notifications of a topic and print each change. Unsubscribes when it is stopped. The commands do more: destination follow misses nothing."
)

// commands are the command line (and the environment, and the configuration file).
type commands struct {
	program.Common

	Serve  flags         `cmd:"" default:"withargs" hidden:"" help:"Subscribe and print. It is what happens where no command is given."`
	Follow followCommand `cmd:"" help:"Hand on every change of a Source, in order: by push, and from the hub's memory and the Source's Change Lists what push has missed."`

	Baseline    baselineCommand    `cmd:"" help:"Have a mirror be what the Source's Resource List says."`
	Incremental incrementalCommand `cmd:"" help:"Take what has changed since then from the Source's Change Lists."`
	Audit       auditCommand       `cmd:"" help:"Compare a mirror with what the Source lists."`
	Check       checkCommand       `cmd:"" help:"Say what is wrong with a Source: its documents, packages, links, topics, and with --sample its resources."`

	Settings configCommands         `cmd:"" name:"config" help:"Look at the configuration without starting."`
	About    program.VersionCommand `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

//go:generate go run . config reference --into ../../docs/configuration.md

func main() { os.Exit(program.Main(run)) }

// command is one of the things that the program does.
type command interface {
	run(ctx context.Context, in surroundings) error
}

// surroundings are what a command works in.
type surroundings struct {
	logger         *slog.Logger
	stdout, stderr io.Writer
	again          program.Reloading // for what takes a change of its settings while it runs
}

// errTold ends the program with status 1 where its output has said why.
var errTold = errors.New("told already")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runChosen(ctx, args, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, program.ErrDone):
		return 0
	case errors.Is(err, errTold):
		return 1
	case len(args) > 0 && args[0] == "check": // 1 says that something is wrong with a Source
		program.Fail(stderr, name, err)
		return statusNotLooked
	}
	return program.Fail(stderr, name, err)
}

// runChosen does what the arguments say.
func runChosen(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	stderr = program.OnScreen(stderr)
	var c commands
	read, err := program.Read(name, summary, &c, args, stdout)
	if err != nil {
		return err
	}
	switch chosen := read.Command.(type) {
	case checks:
		return chosen.Check(ctx, name, &commands{}, stdout, stderr)
	case *program.ReferenceCommand:
		return chosen.Write(name, &commands{}, stdout)
	case *program.VersionCommand:
		return chosen.Print(stdout, name, nil)
	}
	level := program.NewLogLevel(c.LogLevel)
	logger := program.Logger(stderr, level)
	program.WarnOfVariables(logger, name, &commands{})
	return read.Command.(command).run(ctx, surroundings{logger, stdout, stderr, program.Reloading{
		InForce: read, Level: level, Logger: logger,
		Read: func() (*program.Settings, error) { return program.Read(name, summary, &commands{}, args, io.Discard) },
	}})
}
