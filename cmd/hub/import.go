package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"carillon/internal/engine"
	"carillon/operator/ask"
	"carillon/transfer"
)

// importCommand puts an export into a store.
type importCommand struct {
	storeFlags

	Input string `env:"-" placeholder:"FILE" help:"Read this file. It is read to its end before anything is written. Default: standard input."`
	Merge bool   `env:"-" help:"Take a store that is not empty. A record takes the place of the one with the same name, but no position moves back; what only the store has stays. Where both have the log of a topic it must be the same log. It also completes an import that was cut short."`
}

// Help says what the flags do not.
func (*importCommand) Help() string {
	return "The store is one that no hub is working on: start the hubs when the import has ended with status 0. " +
		"An import that was cut short is repeated with --merge."
}

func (f *importCommand) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	in, size, closeIn, err := f.open(ctx, stdin, stderr, logger)
	if err != nil {
		return err
	}
	defer closeIn()
	e, err := openStore(ctx, f.storeFlags, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := refuseHubs(ctx, e); err != nil {
		return err
	}
	show := newReporter("importing", size, stderr, logger)
	done, err := transfer.Import(ctx, in, transfer.Engine{Source: e.Source(), Target: e.Restore},
		transfer.ImportConfig{Merge: f.Merge, Progress: show.progress})
	show.end()
	if err != nil {
		return whatNext(ctx, done, err)
	}
	fmt.Fprintf(stdout, "hub imported %s, exported %s from %s by hub %s\n",
		done.Counts, done.Exported.UTC().Format(time.RFC3339), done.Engine, done.Hub)
	return nil
}

// open opens the stream. A file is checked to its end first. size is 0 where it
// is not known.
func (f *importCommand) open(
	ctx context.Context, stdin io.Reader, stderr io.Writer, logger *slog.Logger,
) (in io.Reader, size int64, closeIn func(), err error) {
	if f.Input == "" {
		if ask.IsTerminal(stdin) {
			return nil, 0, nil, errors.New("there is no export on standard input: give --input FILE, or a pipe")
		}
		return interruptible(ctx, stdin), 0, func() {}, nil
	}
	file, err := os.Open(f.Input)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("--input: %w", err)
	}
	closeIn = func() { _ = file.Close() } // it was only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return interruptible(ctx, file), 0, closeIn, err
	}
	err = checkInput(ctx, file, info.Size(), stderr, logger, func(show *reporter) error {
		_, err := transfer.Verify(ctx, file, transfer.ImportConfig{Progress: show.progress})
		return err
	})
	if err != nil {
		closeIn()
		return nil, 0, nil, err
	}
	return file, info.Size(), closeIn, nil
}

// checkInput has check read a file to its end before anything is written, and goes back
// to its beginning.
func checkInput(
	ctx context.Context, file *os.File, size int64, stderr io.Writer, logger *slog.Logger, check func(*reporter) error,
) error {
	show := newReporter("checking", size, stderr, logger)
	err := check(show)
	show.end()
	if ctx.Err() != nil {
		return errors.New("stopped: nothing was written")
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("--input %s: %w (nothing was written)", file.Name(), err)
	}
	return nil
}

// interruptible reads what may not come: the end of ctx ends the wait, and
// leaves a read behind that nobody waits for.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { _ = to.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(to, r)
		_ = to.CloseWithError(err)
	}()
	return from
}

// refuseHubs refuses a store that hubs are working on: they would not learn of
// what is put behind their backs.
func refuseHubs(ctx context.Context, e *engine.Engine) error {
	if e.Processes == nil {
		return nil
	}
	n, err := e.Processes(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("hubs are working on the store (%d): stop them first; one that died is forgotten after its --takeover", n)
	}
	return err
}

// whatNext says where an import that failed has left the store, and what to do.
func whatNext(ctx context.Context, done transfer.Summary, err error) error {
	const part = "the store holds a part of the export"
	switch {
	case errors.Is(err, transfer.ErrNotEmpty):
		return errors.New("the store is not empty: give an empty one, or --merge to put the export beside and over what is there")
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
