package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"carillon/cmd/internal/program"
	"carillon/notifier"
	"carillon/notifier/dump"
)

// dumpCommand has a running notifier make a Resource Dump.
type dumpCommand struct {
	Set string `arg:"" name:"set" help:"The set of resources. The notifier must have it as --dump."`
	runningNotifier
}

// Help says what the flags do not.
func (*dumpCommand) Help() string {
	return "The dump begins after the request, so it has all that the set has by then. " +
		"A dump that is being made already is finished first. " +
		"The command waits until the new dump is served, and shows the progress. " +
		"The exit status is 1 if no dump was made; the one before stays then. " +
		"If the command is stopped earlier, the notifier makes the dump all the same."
}

// Validate is called when the flags are parsed.
func (f *dumpCommand) Validate() error {
	if f.Set == "" {
		return errors.New("the name of the set is missing, as in notifier dump NAME")
	}
	return notifier.Config{URL: "http://localhost/", Hub: "http://localhost/", Sets: []string{f.Set}}.Validate()
}

func (f *dumpCommand) run(ctx context.Context, logger *slog.Logger, stdout, stderr io.Writer) error {
	base, err := f.intakeURL("")
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/sets/"+f.Set+"/dump", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("no notifier answers at --intake %s: %w; it must run, with --dump %s", f.Intake, err, f.Set)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf(
			"the notifier at --intake %s makes no dumps of a set %s: start it with --dump %s", f.Intake, f.Set, f.Set,
		)
	default:
		return refusedBy(resp)
	}
	show := program.NewTeller(stderr, logger)
	answer, err := dump.ReadAnswer(resp.Body, func(now dump.Progress) { tellDumped(show, now) })
	show.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped; the notifier goes on with the dump")
	case err != nil:
		return fmt.Errorf("the notifier's answer broke off: %w; it may go on with the dump", err)
	case answer.Error != "":
		return fmt.Errorf("no dump was made: %s", answer.Error)
	}
	if answer.LeftOut > 0 {
		fmt.Fprintf(stderr, "notifier: %d resources are left out; the log of the notifier, and "+
			"carillon_notifier_dump_left_out_total, say why\n", answer.LeftOut)
	}
	fmt.Fprintf(stdout, "notifier dumped %s: %d resources, %d left out, %d packages of %d bytes, at %s\n",
		f.Set, answer.Entries, answer.LeftOut, answer.Packages, answer.Packed, answer.At.Format(time.RFC3339))
	return nil
}

// tellDumped reports the progress of a dump.
func tellDumped(show *program.Teller, now dump.Progress) {
	if !show.Due() {
		return
	}
	doing := "dumping"
	if now.Earlier {
		doing = "finishing an earlier dump first"
	}
	show.Tell(fmt.Sprintf("%s: %d of %d resources, %d left out, %d MB, %d packages finished",
		doing, now.Entries, now.Total, now.LeftOut, now.Bytes/1e6, now.Packages),
		"dumping", "earlier_dump", now.Earlier, "entries", now.Entries, "of", now.Total,
		"left_out", now.LeftOut, "bytes", now.Bytes, "packages", now.Packages)
}
