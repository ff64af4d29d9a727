package main

import (
	"cmp"
	"context"
	"io"
	"log/slog"

	"carillon/cmd/internal/copies"
	"carillon/cmd/internal/program"
	"carillon/operator/ask"
)

// commands are the command line of the hub. Scripts rely on the names of its flags.
type commands struct {
	program.Common

	Serve   serveCommand            `cmd:"" default:"withargs" hidden:"" help:"Serve as a hub. It is what happens where no command is given."`
	Export  copying[copies.Export]  `cmd:"" help:"Write everything that a hub keeps as JSON lines."`
	Import  copying[copies.Import]  `cmd:"" help:"Put what an export holds into a store."`
	Backup  copying[copies.Backup]  `cmd:"" help:"Make a backup of a store, while its hub runs or not."`
	Restore copying[copies.Restore] `cmd:"" help:"Make a store of a backup."`
	Source  sourceCommands          `cmd:"" help:"Say who may publish to a hub that runs with --publishers registered."`

	Topics        asking[ask.Topics]        `cmd:"" help:"List topics." group:"See and repair"`
	Topic         asking[ask.Topic]         `cmd:"" help:"Show a topic and the outcome of its notifications." group:"See and repair"`
	Subscriptions asking[ask.Subscriptions] `cmd:"" help:"List subscriptions." group:"See and repair"`
	Show          asking[ask.Show]          `cmd:"" help:"Show a subscription, or a notification: was it delivered to all?" group:"See and repair"`
	Retry         asking[ask.Retry]         `cmd:"" help:"Make the next attempt of a subscription now." group:"See and repair"`
	Replay        asking[ask.Replay]        `cmd:"" help:"Deliver a stretch of the log to one subscription once more." group:"See and repair"`
	Remove        asking[ask.Remove]        `cmd:"" help:"End a subscription." group:"See and repair"`
	Trim          asking[ask.Trim]          `cmd:"" help:"Remove the oldest notifications of a topic." group:"See and repair"`
	LevelOf       asking[ask.LogLevel]      `cmd:"" name:"log-level" help:"Print or change the level of a running hub's log lines." group:"See and repair"`

	Ready readyCommand `cmd:"" help:"Ask a running hub whether it is ready: the exit status is 0 if it is."`

	Settings program.ConfigCommands[serveCommand] `cmd:"" name:"config" help:"Look at the configuration without starting."`
	About    program.VersionCommand               `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

// level is that of the log lines. A command of an operator reports its result in a line of its own.
func (c *commands) level(chosen any) program.Level {
	switch chosen.(type) {
	case interface{ quiet() }:
		return cmp.Or(c.LogLevel, "warn")
	}
	return c.LogLevel
}

// command is one of the things that the program does.
type command interface {
	run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error
}
