package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"carillon/internal/engine"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
)

// backupCommand makes a backup of a store, whether or not a hub works on it.
type backupCommand struct {
	storeFlags

	Output string `env:"-" required:"" placeholder:"FILE" help:"Write to this file, which appears when it is whole and can be read by its owner only; - is standard output. The backup holds the secrets of all subscriptions: keep it like one."`
}

// Help says what the flags do not.
func (*backupCommand) Help() string {
	return "It has everything that the hub acknowledged before it began, and is a single moment in time. A hub that runs " +
		"goes on meanwhile: the command asks it, and must be run as the user of the hub. hub restore makes a store of it. " +
		"With Redis, back up Redis itself, or use hub export."
}

func (f *backupCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) (err error) {
	if f.redis() {
		return f.failed(engine.ErrRedisBackup)
	}
	if f.Output == "-" && ask.IsTerminal(stdout) {
		return errors.New("a backup holds secrets and is not for the screen: give --output FILE, or a pipe")
	}
	if err := f.refuseNothing(); err != nil {
		return err
	}
	c, err := f.openClient(ctx, ask.Settings, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := c.Stream(ctx, http.MethodPost, "/backup", nil)
	if err != nil {
		return fmt.Errorf("the backup failed: %w", err)
	}
	defer stream.Close()
	show := newReporter("backing up", 0, stderr, logger)
	var done pebblestore.BackupInfo
	copied := func(w io.Writer) (err error) {
		// Read as a restore will: what is not whole is no file.
		done, err = pebblestore.VerifyBackup(ctx, show.reading(io.TeeReader(stream, w)))
		if err == nil {
			ask.Drop(stream) // its end: who sends it is to see that it arrived
		}
		return err
	}
	if f.Output == "-" {
		err = writeStream(ctx, stdout, copied)
	} else {
		err = writeFile(f.Output, copied)
	}
	show.end()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: the backup is not whole, and no restore takes it")
	case errors.Is(err, pebblestore.ErrBackupCutOff):
		return fmt.Errorf("the backup failed: the hub broke it off (it ends, or its disk is nearly full: its log tells): %w", err)
	case err != nil:
		return fmt.Errorf("the backup failed: %w", err)
	case f.Output == "-":
		logger.Info("backed up", "bytes", done.Bytes, "files", done.Files, "hub_runs", c.Online)
	default:
		fmt.Fprintf(stdout, "hub backed up %d bytes to %s. It holds secrets.\n", done.Bytes, f.Output)
	}
	return nil
}
