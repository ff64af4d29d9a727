package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"carillon/internal/machine"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
)

// restoreCommand makes a store of a backup.
type restoreCommand struct {
	storeFlags

	Input string `env:"-" required:"" placeholder:"FILE" help:"The backup, which is read to its end before anything is written; - is standard input, which is not."`
}

// Help says what the flags do not.
func (*restoreCommand) Help() string {
	return "The directory is empty, or not there. What the hub acknowledged after the backup was made is not in it: subscriptions made since are " +
		"gone, those ended since are back, publications since are lost to who had not got them, and what was delivered since comes again, under the same X-Hub-Notification-Id. " +
		"Numbers of notifications go on above all that may have been given."
}

func (f *restoreCommand) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	if f.redis() {
		return f.failed(errors.New("a backup is restored into pebble:DIRECTORY; to bring it into Redis, restore it, then export and import it"))
	}
	where, err := f.directory()
	if err != nil {
		return err
	}
	if err := machine.RefuseRoot(where); err != nil {
		return f.failed(err)
	}
	in, size, err := f.open(ctx, stdin, stderr, logger)
	if err != nil {
		return err
	}
	defer in.Close()
	show := newReporter("restoring", size, stderr, logger)
	done, err := pebblestore.RestoreBackup(ctx, pebblestore.Config{Dir: where, Logger: logger}, show.reading(in))
	show.end()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: nothing was restored")
	case errors.Is(err, pebblestore.ErrInUse):
		return f.failed(fmt.Errorf("%w: stop the hub, and choose an empty directory", err))
	case err != nil:
		return fmt.Errorf("nothing was restored: %w", err)
	}
	fmt.Fprintf(stdout, "hub restored %d subscriptions, %d requests, %d pings, %d topics, %d notifications, %d Sources, as of %s by hub %s\n",
		done.Subscriptions, done.Requests, done.Pings, done.Topics, done.Notifications, done.Sources, done.Made.UTC().Format(time.RFC3339), done.Program)
	if done.Damaged > 0 {
		logger.Warn("records cannot be read: they were damaged when the backup was made, and the hub leaves them out", "places", done.Damaged)
	}
	return nil
}

// open opens the backup. A file is checked to its end first.
func (f *restoreCommand) open(
	ctx context.Context, stdin io.Reader, stderr io.Writer, logger *slog.Logger,
) (in io.ReadCloser, size int64, err error) {
	if f.Input == "-" {
		if ask.IsTerminal(stdin) {
			return nil, 0, errors.New("there is no backup on standard input: give --input FILE, or a pipe")
		}
		return io.NopCloser(interruptible(ctx, stdin)), 0, nil
	}
	file, err := os.Open(f.Input)
	if err != nil {
		return nil, 0, fmt.Errorf("--input: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("--input %s: it is no regular file; - reads a pipe", f.Input)
	}
	if err == nil {
		err = checkInput(ctx, file, info.Size(), stderr, logger, func(show *reporter) error {
			_, err := pebblestore.VerifyBackup(ctx, show.reading(file))
			return err
		})
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
