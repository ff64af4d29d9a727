package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/program"
	"carillon/internal/durable"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
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
		done, err = transfer.Export(ctx, e.source(), w, transfer.ExportConfig{
			Hub: program.Version, Engine: f.kind(), Progress: show.progress,
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

// refuseNothing keeps a wrong directory from being made, and exported as a hub
// that keeps nothing.
func (f *storeFlags) refuseNothing() error {
	if redisstore.IsURL(f.Store) {
		return nil
	}
	where, err := f.directory()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(where)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return f.failed(errors.New("there is no store"))
	}
	return f.failed(err)
}

// kind is the engine's, without what may be a password in --store.
func (f *exportCommand) kind() string {
	if redisstore.IsURL(f.Store) {
		return "redis"
	}
	return "pebble"
}

func (f *exportCommand) warn(ctx context.Context, e *engine, logger *slog.Logger) error {
	if e.Processes == nil {
		return nil
	}
	n, err := e.Processes(ctx)
	if err == nil && n > 0 {
		logger.Warn("hubs are working on the store: the export is not a single moment in time, and lacks what they accept from now on", "hubs", n)
	}
	return err
}

// openStore opens the store for a command that ends, which does not wait for a
// store that is away.
func openStore(ctx context.Context, f storeFlags, logger *slog.Logger) (*engine, error) {
	if where, err := f.directory(); err == nil {
		if err := refuseRoot(where); err != nil {
			return nil, f.failed(err)
		}
	}
	e, err := openEngine(f, logger, prometheus.NewRegistry())
	if errors.Is(err, pebblestore.ErrInUse) {
		return nil, fmt.Errorf("%w: stop the hub first", err)
	}
	if err != nil {
		return nil, err
	}
	if err := e.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the store is not ready: %w", err), e.Close())
	}
	return e, nil
}

func (e *engine) source() transfer.Source {
	return transfer.Source{
		Subscriptions: e.Subscriptions, Cursors: e.Cursors, Log: e.Log, Pings: e.Pings, Sources: e.Sources,
	}
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
