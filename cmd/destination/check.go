package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"carillon/cmd/internal/program"
	"carillon/destination/lists"
	"carillon/internal/machine"
)

// configCommands are the commands about the configuration.
type configCommands struct {
	Check     checkCommands            `cmd:"" help:"Say what is wrong with the configuration of a command, without starting: destination config check follow takes what destination follow takes; without a command it is that of the destination that prints."`
	Reference program.ReferenceCommand `cmd:"" hidden:"" help:"Write what all settings mean, as Markdown."`
}

// checkCommands are as the commands that they look at.
type checkCommands struct {
	Serve       program.CheckCommand[flags]              `cmd:"" default:"withargs" hidden:"" help:"Say what is wrong with the configuration, without starting."`
	Follow      program.CheckCommand[followCommand]      `cmd:"" help:"Say what is wrong with the configuration of destination follow."`
	Baseline    program.CheckCommand[baselineCommand]    `cmd:"" help:"Say what is wrong with that of destination baseline."`
	Incremental program.CheckCommand[incrementalCommand] `cmd:"" help:"Say what is wrong with that of destination incremental."`
	Audit       program.CheckCommand[auditCommand]       `cmd:"" help:"Say what is wrong with that of destination audit."`
	Source      program.CheckCommand[checkCommand]       `cmd:"" name:"check" help:"Say what is wrong with that of destination check."`
}

// checks is any of them.
type checks interface {
	Check(ctx context.Context, name string, flags any, stdout, stderr io.Writer, also ...string) error
}

// lookAtData looks at a data directory as a start would, and changes nothing.
func lookAtData(data string, logger *slog.Logger) error {
	if data == "" {
		return nil // which Validate tells
	}
	warnExposed(data, logger)
	if err := machine.CheckDirectory(data); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// look looks at the directory of the copies.
func (f *mirrorFlags) look() error {
	if f.Mirror == "" {
		return nil
	}
	if err := machine.CheckDirectory(f.Mirror); err != nil {
		return fmt.Errorf("--mirror: %w", err)
	}
	return nil
}

// lookAtHosts refuses what lists.New refuses.
func lookAtHosts(hosts []string) error {
	if _, err := lists.New(lists.Config{Hosts: hosts}); err != nil {
		return fmt.Errorf("--trust-host: %w", err)
	}
	return nil
}

// lookAtPull looks at what a command that reads once needs, and asks nobody.
func lookAtPull(s *sourceFlags, f *mirrorFlags, logger *slog.Logger) error {
	return errors.Join(lookAtHosts(s.TrustHost), lookAtData(s.Data, logger), f.look())
}

// Look implements program.Looker.
func (c *baselineCommand) Look(_ context.Context, logger *slog.Logger) error {
	return lookAtPull(&c.sourceFlags, &c.mirrorFlags, logger)
}

// Look implements program.Looker.
func (c *incrementalCommand) Look(_ context.Context, logger *slog.Logger) error {
	return lookAtPull(&c.sourceFlags, &c.mirrorFlags, logger)
}

// Look implements program.Looker.
func (c *auditCommand) Look(_ context.Context, logger *slog.Logger) error {
	return lookAtPull(&c.sourceFlags, &c.mirrorFlags, logger)
}

// Look implements program.Looker.
func (c *checkCommand) Look(context.Context, *slog.Logger) error { return lookAtHosts(c.TrustHost) }
