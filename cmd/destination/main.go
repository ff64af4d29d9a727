// Command destination is the Destination's side of a change notification channel.
//
// Without a command it subscribes to a topic and prints each change. A newcomer runs it to see that a
// Source and a hub work, and an operator to see the view of a Destination. It prints one line when it
// listens, then one line for each change. With --json every line is an object: the first has the
// member "ready", changes have "change", content of other kinds has "content".
//
// For daily use there is destination follow: it keeps its place, finds gaps, catches up on them, and
// hands every change on in order.
//
// Logs, gaps in the chain of notifications among them, go to stderr.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"carillon/cmd/internal/program"
)

const summary = "Subscribe to the change notifications of a topic and print each change. Unsubscribes when it is stopped. The commands do more: destination follow misses nothing."

// commands are the command line (and the environment, and the configuration file).
type commands struct {
	program.Common

	Serve  flags         `cmd:"" default:"withargs" hidden:"" help:"Subscribe and print. It is what happens where no command is given."`
	Follow followCommand `cmd:"" help:"Hand on every change of a Source, in order: by push, and from the hub's memory and the Source's Change Lists what push has missed."`

	Baseline    baselineCommand    `cmd:"" help:"Bring a mirror to the state of the Source's Resource List."`
	Incremental incrementalCommand `cmd:"" help:"Take what has changed since then from the Source's Change Lists."`
	Audit       auditCommand       `cmd:"" help:"Compare a mirror with what the Source lists."`
	Check       checkCommand       `cmd:"" help:"Report the faults of a Source: its documents, packages, links, topics, and with --sample its resources."`

	Settings configCommands         `cmd:"" name:"config" help:"Look at the configuration without starting."`
	About    program.VersionCommand `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

// configCommands are the commands about the configuration.
type configCommands struct {
	Check     checkCommands            `cmd:"" help:"Report errors in the configuration of a command, without starting. destination config check follow takes the flags of destination follow. Without a command it checks the destination that prints."`
	Reference program.ReferenceCommand `cmd:"" hidden:"" help:"Write what all settings mean, as Markdown."`
}

// checkCommands are as the commands that they look at.
type checkCommands struct {
	Serve       program.CheckCommand[flags]              `cmd:"" default:"withargs" hidden:"" help:"Report errors in the configuration, without starting."`
	Follow      program.CheckCommand[followCommand]      `cmd:"" help:"Report errors in the configuration of destination follow."`
	Baseline    program.CheckCommand[baselineCommand]    `cmd:"" help:"Report errors in that of destination baseline."`
	Incremental program.CheckCommand[incrementalCommand] `cmd:"" help:"Report errors in that of destination incremental."`
	Audit       program.CheckCommand[auditCommand]       `cmd:"" help:"Report errors in that of destination audit."`
	Source      program.CheckCommand[checkCommand]       `cmd:"" name:"check" help:"Report errors in that of destination check."`
}

// checks is any of them.
type checks interface {
	Check(ctx context.Context, name string, flags any, stdout, stderr io.Writer, also ...string) error
}

//go:generate go run . config reference --into ../../docs/configuration.md

func main() { os.Exit(program.Main(run)) }

// statusNotLooked is the exit status of a check that could not look at a place.
const statusNotLooked = 2

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runChosen(ctx, args, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, program.ErrDone):
		return 0
	case errors.Is(err, errReported):
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
