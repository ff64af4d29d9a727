package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"carillon/internal/engine"
	"carillon/internal/machine"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
)

// streams is the name that standard output or input has as a file of a backup.
const streams = "-"

// Backup makes a backup of a store, whether or not a hub works on it.
type Backup struct {
	Output string `env:"-" required:"" placeholder:"FILE" help:"Write to this file, which appears when it is whole and can be read by its owner only; - is standard output. The backup holds the secrets of all subscriptions: keep it like one."`
}

// Help says what the flags do not.
func (*Backup) Help() string {
	return "It has everything that the hub acknowledged before it began, and is a single moment in time. A hub that runs " +
		"goes on meanwhile: the command asks it, and must be run as the user of the hub. hub restore makes a store of it. " +
		"With Redis, back up Redis itself, or use hub export."
}

// Run implements Command.
func (f *Backup) Run(ctx context.Context, call Call) (err error) {
	if call.Engine.Redis() {
		return call.Engine.Failed(engine.ErrRedisBackup)
	}
	file, err := named("--output", f.Output)
	if err != nil {
		return err
	}
	if file == "" {
		if err := call.screened("a backup"); err != nil {
			return err
		}
	}
	if err := call.Absent(); err != nil {
		return err
	}
	c, err := call.Open(ctx, ask.Settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := c.Stream(ctx, http.MethodPost, "/backup", nil)
	if err != nil {
		return fmt.Errorf("the backup failed: %w", err)
	}
	defer stream.Close()
	show := call.reporter("backing up", 0)
	var done pebblestore.BackupInfo
	err = call.write(ctx, file, func(w io.Writer) (err error) {
		// Read it as a restore does: a partial backup is an error, and no file is left.
		done, err = pebblestore.VerifyBackup(ctx, show.reading(io.TeeReader(stream, w)))
		if err == nil {
			ask.Drop(stream) // its end: who sends it is to see that it arrived
		}
		return err
	})
	show.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: the backup is not whole, and no restore takes it")
	case errors.Is(err, pebblestore.ErrBackupCutOff):
		return fmt.Errorf(
			"the backup failed: the hub broke it off (it ends, or its disk is nearly full: see its log): %w", err,
		)
	case err != nil:
		return fmt.Errorf("the backup failed: %w", err)
	case file == "":
		call.Engine.Logger.Info("backed up", "bytes", done.Bytes, "files", done.Files, "hub_runs", c.Online)
	default:
		fmt.Fprintf(call.Stdout, "hub backed up %d bytes to %s. It holds secrets.\n", done.Bytes, file)
	}
	return nil
}

// named returns the file that a flag names, "" for a standard stream.
func named(flag, file string) (string, error) {
	switch file {
	case "":
		return "", fmt.Errorf("%s is empty: give a file, or %s for a standard stream", flag, streams)
	case streams:
		return "", nil
	}
	return file, nil
}

// Restore makes a store of a backup.
type Restore struct {
	Input string `env:"-" required:"" placeholder:"FILE" help:"The backup, which is read to its end before anything is written; - is standard input, which is not."`
}

// Help says what the flags do not.
func (*Restore) Help() string {
	return "The directory is empty, or missing. The store has nothing that the hub acknowledged after the " +
		"backup: subscriptions made since are gone, and those ended since are back. Later publications are " +
		"lost to subscribers that had not got them. Later deliveries come again, under the same " +
		"X-Hub-Notification-Id. Numbers of notifications go on above all that may have been given."
}

// Run implements Command.
func (f *Restore) Run(ctx context.Context, call Call) error {
	if call.Engine.Redis() {
		return call.Engine.Failed(
			errors.New(
				"a backup is restored into pebble:DIRECTORY; to bring it into Redis, restore it, then export and import it",
			),
		)
	}
	where, err := call.Engine.Directory()
	if err != nil {
		return err
	}
	if err := machine.RefuseRoot(where); err != nil {
		return call.Engine.Failed(err)
	}
	file, err := named("--input", f.Input)
	if err != nil {
		return err
	}
	from := input{
		file: file, what: "backup", irregular: errors.New("it is no regular file; - reads a pipe"),
		check: func(in io.Reader, show *reporter) error {
			_, err := pebblestore.VerifyBackup(ctx, show.reading(in))
			return err
		},
	}
	in, size, err := call.open(ctx, from)
	if err != nil {
		return err
	}
	defer in.Close()
	show := call.reporter("restoring", size)
	cfg := pebblestore.Config{Dir: where, Logger: call.Engine.Logger}
	done, err := pebblestore.RestoreBackup(ctx, cfg, show.reading(in))
	show.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: nothing was restored")
	case errors.Is(err, pebblestore.ErrInUse):
		return call.Engine.Failed(fmt.Errorf("%w: stop the hub, and choose an empty directory", err))
	case err != nil:
		return fmt.Errorf("nothing was restored: %w", err)
	}
	fmt.Fprintf(call.Stdout, "hub restored %d subscriptions, %d requests, %d pings, %d topics, %d notifications, %d Sources, as of %s by hub %s\n",
		done.Subscriptions, done.Requests, done.Pings, done.Topics, done.Notifications, done.Sources, done.Made.UTC().Format(time.RFC3339), done.Program)
	if done.Damaged > 0 {
		call.Engine.Logger.Warn(
			"records cannot be read: they were damaged when the backup was made, and the hub leaves them out",
			"places", done.Damaged,
		)
	}
	return nil
}
