package copies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"carillon/internal/engine"
	"carillon/internal/release"
	"carillon/transfer"
)

// Export writes everything that a hub keeps as JSON lines.
type Export struct {
	Output string `env:"-" placeholder:"FILE" help:"Write to this file, which appears when it is whole and can be read by its owner only. Default: standard output. The export holds the secrets of all subscriptions: keep it like one."`
}

// Help says what the flags do not.
func (*Export) Help() string {
	return "The subscriptions with their positions and secrets, the requests and pings that wait, the topics' logs, and the registered Sources (no tokens). " +
		"A hub on pebble must be stopped first. Hubs on a Redis may go on: then the export is not a single moment in time, " +
		"and what they do meanwhile may be in it or not. To move without a loss, stop them."
}

// Run implements Command.
func (f *Export) Run(ctx context.Context, call Call) (err error) {
	if f.Output == "" {
		if err := call.screened("an export"); err != nil {
			return err
		}
	}
	if err := call.Absent(); err != nil {
		return err
	}
	logger := call.Engine.Logger
	e, err := engine.OpenNow(ctx, call.Engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	n, err := hubs(ctx, e)
	if err != nil {
		return err
	}
	if n > 0 {
		logger.Warn(
			"hubs are working on the store: the export is not a single moment in time, and lacks what they accept from now on",
			"hubs", n,
		)
	}
	show := call.reporter("exporting", 0)
	var done transfer.Progress
	err = call.write(ctx, f.Output, func(w io.Writer) (err error) {
		done, err = transfer.Export(ctx, e.Source(), w, transfer.ExportConfig{
			Hub: release.Version, Engine: e.Name(), Progress: show.progress,
		})
		return err
	})
	show.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: the export is not whole, and no import takes it")
	case err != nil:
		return fmt.Errorf("the export failed: %w", err)
	case f.Output != "":
		fmt.Fprintf(
			call.Stdout, "hub exported %s, %d bytes, to %s. It holds secrets.\n", done.Counts, done.Bytes, f.Output,
		)
	}
	logger.Info("exported", "records", done.Counts.String(), "bytes", done.Bytes)
	return nil
}

// hubs returns how many hubs work on a store that is open here.
func hubs(ctx context.Context, e *engine.Engine) (int, error) {
	if e.Processes == nil {
		return 0, nil
	}
	return e.Processes(ctx)
}
