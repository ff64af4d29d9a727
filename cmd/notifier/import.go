package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"carillon/cmd/internal/program"
	"carillon/notifier"
	"carillon/store/pebblestore"
)

// importCommand takes a snapshot of the resources of a set.
type importCommand struct {
	Set        string `arg:"" name:"set" help:"The set of resources. It is made if the journal does not have it; a notifier that runs must have it as --set."`
	Input      string `env:"-" placeholder:"FILE" help:"Read this file. Default: standard input."`
	AllowEmpty bool   `env:"-" help:"Take a snapshot without any resource, too, into a set that has some: all of them are deleted. Else it is refused, as what makes the snapshot has failed more likely."`
	Data       string `default:"notifier-data" placeholder:"DIR" help:"Directory of the journal. Where a notifier has it open, the snapshot is handed to that one."`
	runningNotifier
}

// Help says what the flags do not.
func (*importCommand) Help() string {
	return "The snapshot is NDJSON: on each line a JSON object with loc and, where they are known, lastmod, hash, length, type, encoding and ln, as in events. " +
		"It is taken whole or not at all. Where the set has had no event, or its resources were not known, the snapshot is what the set has, and nothing is published. " +
		"Where they were known the differences become events: created, updated, deleted. Events that come while it is read count as later than the snapshot."
}

// Validate is called when the flags are parsed.
func (f *importCommand) Validate() error {
	if f.Set == "" {
		return errors.New("the name of the set is missing, as in notifier import NAME")
	}
	if f.Data == "" {
		return errors.New("--data must name a directory")
	}
	return notifier.Config{URL: "http://localhost/", Hub: "http://localhost/", Sets: []string{f.Set}}.Validate()
}

func (f *importCommand) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	in, closeIn, err := f.open(ctx, stdin)
	if err != nil {
		return err
	}
	defer closeIn()
	show := program.NewTeller(stderr, logger)
	done, place, err := f.take(ctx, in, func(done notifier.Imported) { tellImported(show, done) }, logger)
	show.End()
	switch {
	case err == nil:
		fmt.Fprintf(
			stdout, "notifier imported %d resources into %s: %s\n", done.Resources, f.Set, f.became(done, place),
		)
		return nil
	case done.Events && place == inDirectory:
		return fmt.Errorf("%w; the snapshot was read to its end: the notifier goes on with it at its next start", err)
	case errors.As(err, new(*notifier.InputError)):
		return fmt.Errorf("%s: %w; nothing was imported", f.source(), err)
	case ctx.Err() != nil && !done.Events:
		return errors.New("stopped: nothing was imported")
	}
	return err
}

// source is where the snapshot comes from, for messages.
func (f *importCommand) source() string {
	if f.Input != "" {
		return "--input " + f.Input
	}
	return "stdin"
}

// place is where a snapshot was put.
type place int

const (
	inDirectory place = iota
	toNotifier
)

// became gives the outcome of a snapshot.
func (f *importCommand) became(done notifier.Imported, where place) string {
	if !done.Events {
		return "they are what the set has"
	}
	text := fmt.Sprintf("%d created, %d updated, %d deleted", done.Created, done.Updated, done.Deleted)
	switch {
	case done.Pending:
		return "the notifier has ended meanwhile, and goes on with the differences at its next start"
	case where == inDirectory && done.Total() > 0:
		return text + "; they are published when the notifier runs with --set " + f.Set
	}
	return text
}

func (f *importCommand) open(ctx context.Context, stdin io.Reader) (in io.Reader, closeIn func(), err error) {
	closeIn = func() {}
	if f.Input != "" {
		file, err := os.Open(f.Input)
		if err != nil {
			return nil, nil, fmt.Errorf("--input: %w", err)
		}
		stdin, closeIn = file, func() { _ = file.Close() } // it was only read
	} else if terminal, ok := stdin.(*os.File); ok && term.IsTerminal(int(terminal.Fd())) {
		return nil, nil, errors.New("there is no snapshot on standard input: give --input FILE, or a pipe")
	}
	return untilEnded(ctx, stdin), closeIn, nil
}

// untilEnded returns a reader over r whose reads end with ctx. The read of r that was waiting
// then stays behind; its data is dropped.
func untilEnded(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { _ = to.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(to, r)
		_ = to.CloseWithError(err)
	}()
	return from
}

// take puts the snapshot into the journal, or hands it to who has that.
func (f *importCommand) take(
	ctx context.Context, in io.Reader, tell func(notifier.Imported), logger *slog.Logger,
) (done notifier.Imported, where place, err error) {
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: f.Data, Logger: logger})
	if errors.Is(err, pebblestore.ErrInUse) {
		done, err = f.handOver(ctx, in, tell)
		return done, toNotifier, err
	}
	if err != nil {
		return done, inDirectory, fmt.Errorf("--data %s: %w", f.Data, err)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	importer := notifier.Importer{Store: journal, Progress: tell, AllowEmpty: f.AllowEmpty}
	// Work that an earlier one has not carried out comes first.
	earlier, err := journal.ResumeImports(ctx)
	for _, i := range earlier {
		err = errors.Join(err, importer.Apply(ctx, i, &notifier.Imported{}))
	}
	if err != nil {
		return done, inDirectory, err
	}
	if _, err := journal.Open(ctx, f.Set, time.Now()); err != nil {
		return done, inDirectory, err
	}
	sealed, done, err := importer.Read(ctx, f.Set, in)
	if err == nil && sealed != nil {
		err = importer.Apply(ctx, sealed, &done)
	}
	return done, inDirectory, err
}

// tellImported reports the progress of an import.
func tellImported(show *program.Teller, done notifier.Imported) {
	if !show.Due() {
		return
	}
	rate := show.PerSecond(done.Resources)
	line := fmt.Sprintf("importing: %d resources, %d/s", done.Resources, rate)
	if done.Events {
		line = fmt.Sprintf(
			"importing: %d resources were read, %d differences made events", done.Resources, done.Total(),
		)
	}
	show.Tell(line, "importing", "resources", done.Resources, "events", done.Total(), "resources_per_second", rate)
}
