package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"carillon/internal/engine"
	"carillon/transfer"
)

// Import puts an export into a store.
type Import struct {
	Input string `env:"-" placeholder:"FILE" help:"Read this file. It is read to its end before anything is written. Default: standard input."`
	Merge bool   `env:"-" help:"Take a store that is not empty. A record takes the place of the one with the same name, but no position moves back; what only the store has stays. Where both have the log of a topic it must be the same log. It also completes an import that was cut short."`
}

// Help says what the flags do not.
func (*Import) Help() string {
	return "The store is one that no hub is working on: start the hubs when the import has ended with status 0. " +
		"An import that was cut short is repeated with --merge."
}

// Run implements Command.
func (f *Import) Run(ctx context.Context, call Call) (err error) {
	in, size, err := call.open(ctx, input{file: f.Input, what: "export", check: func(in io.Reader, show *reporter) error {
		_, err := transfer.Verify(ctx, in, transfer.ImportConfig{Progress: show.progress})
		return err
	}})
	if err != nil {
		return err
	}
	defer in.Close()
	e, err := engine.OpenNow(ctx, call.Engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	n, err := hubs(ctx, e)
	if err != nil {
		return err
	}
	if n > 0 { // they would not learn of what is put behind their backs
		return fmt.Errorf(
			"hubs are working on the store (%d): stop them first; one that died is forgotten after its --takeover", n,
		)
	}
	show := call.reporter("importing", size)
	done, err := transfer.Import(ctx, in, transfer.Engine{Source: e.Source(), Target: e.Restore},
		transfer.ImportConfig{Merge: f.Merge, Progress: show.progress})
	show.End()
	if err != nil {
		return whatNext(ctx, done, err)
	}
	fmt.Fprintf(call.Stdout, "hub imported %s, exported %s from %s by hub %s\n",
		done.Counts, done.Exported.UTC().Format(time.RFC3339), done.Engine, done.Hub)
	return nil
}

// whatNext says where an import that failed has left the store, and what to do.
func whatNext(ctx context.Context, done transfer.Summary, err error) error {
	const part = "the store holds a part of the export"
	switch {
	case errors.Is(err, transfer.ErrNotEmpty):
		return errors.New(
			"the store is not empty: give an empty one, or --merge to put the export beside and over what is there",
		)
	case done.Total() == 0 && ctx.Err() != nil:
		return errors.New("stopped: nothing was imported")
	case done.Total() == 0:
		return fmt.Errorf("nothing was imported: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %s; run the import again with --merge before any hub", part)
	case errors.Is(err, transfer.ErrDamaged), errors.Is(err, transfer.ErrCutOff):
		return fmt.Errorf("%w; %s that cannot be trusted: empty the store, and import a whole export", err, part)
	case errors.Is(err, transfer.ErrOtherLog):
		return fmt.Errorf("%w; %s, up to that topic", err, part)
	}
	return fmt.Errorf("the import failed: %w; %s: run it again with --merge before any hub", err, part)
}
