package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"carillon/internal/durable"
	"carillon/internal/engine"
	"carillon/internal/release"
	"carillon/operator/ask"
	"carillon/transfer"
)

// exportCommand writes everything that a hub keeps as JSON lines.
type exportCommand struct {
	storeFlags

	Output string `env:"-" placeholder:"FILE" help:"Write to this file, which appears when it is whole and can be read by its owner only. Default: standard output. The export holds the secrets of all subscriptions: keep it like one."`
}

// Help says what the flags do not.
func (*exportCommand) Help() string {
	return "The subscriptions with their positions and secrets, the requests and pings that wait, the topics' logs, and the registered Sources (no tokens). " +
		"A hub on pebble must be stopped first. Hubs on a Redis may go on: then the export is not a single moment in time, " +
		"and what they do meanwhile may be in it or not. To move without a loss, stop them."
}

func (f *exportCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) (err error) {
	if f.Output == "" && ask.IsTerminal(stdout) {
		return errors.New("an export holds secrets and is not for the screen: give --output FILE, or a pipe")
	}
	if err := f.refuseNothing(); err != nil {
		return err
	}
	e, err := openStore(ctx, f.storeFlags, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := f.warn(ctx, e, logger); err != nil {
		return err
	}
	show := newReporter("exporting", 0, stderr, logger)
	var done transfer.Progress
	write := func(w io.Writer) (err error) {
		done, err = transfer.Export(ctx, e.Source(), w, transfer.ExportConfig{
			Hub: release.Version, Engine: e.Name(), Progress: show.progress,
		})
		return err
	}
	if f.Output == "" {
		err = writeStream(ctx, stdout, write)
	} else {
		err = writeFile(f.Output, write)
	}
	show.end()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: the export is not whole, and no import takes it")
	case err != nil:
		return fmt.Errorf("the export failed: %w", err)
	case f.Output != "":
		fmt.Fprintf(stdout, "hub exported %s, %d bytes, to %s. It holds secrets.\n", done.Counts, done.Bytes, f.Output)
	}
	logger.Info("exported", "records", done.Counts.String(), "bytes", done.Bytes)
	return nil
}

func (f *exportCommand) warn(ctx context.Context, e *engine.Engine, logger *slog.Logger) error {
	if e.Processes == nil {
		return nil
	}
	n, err := e.Processes(ctx)
	if err == nil && n > 0 {
		logger.Warn("hubs are working on the store: the export is not a single moment in time, and lacks what they accept from now on", "hubs", n)
	}
	return err
}

// writeBuffer gathers lines for one write.
const writeBuffer = 256 << 10

// writeStream writes to where a reader may not read on: the end of ctx ends that
// wait.
func writeStream(ctx context.Context, w io.Writer, write func(io.Writer) error) error {
	from, to := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = from.CloseWithError(ctx.Err()) })()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, from)
		_ = from.CloseWithError(err) // what is still written finds out
		copied <- err
	}()
	buffered := bufio.NewWriterSize(to, writeBuffer)
	err := write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	_ = to.CloseWithError(err)
	if err != nil {
		return err
	}
	select {
	case err = <-copied:
		return err
	case <-ctx.Done():
		return ctx.Err() // the copy may hang; the process ends
	}
}

// writeFile makes a file that only its owner can read, and that is there only
// when it is whole and on disk.
func writeFile(name string, write func(io.Writer) error) (err error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--output %s: it is there, and no regular file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // mode 0600
	if err != nil {
		return fmt.Errorf("--output %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // a second time, where it was closed
			_ = os.Remove(f.Name()) // gone, where it was renamed
		}
	}()
	buffered := bufio.NewWriterSize(f, writeBuffer)
	if err = write(buffered); err != nil {
		return err
	}
	for _, step := range []func() error{
		buffered.Flush, f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), name) },
		func() error { return durable.SyncDirectory(filepath.Dir(name)) },
	} {
		if err = step(); err != nil {
			return fmt.Errorf("--output %s: %w", name, err)
		}
	}
	return nil
}
