package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination"
)

// flags are those of the destination that prints.
type flags struct {
	listenerFlags `embed:""`
	Topic         string        `required:"" placeholder:"URL" help:"Topic to subscribe to. Its hub is found from its Link headers, or from the links in the document." group:"Subscription"`
	Data          string        `default:"destination-data" placeholder:"DIR" help:"Directory for the state, one for each topic. After a crash the subscription in it goes on." group:"Subscription"`
	JSON          bool          `name:"json" help:"Print NDJSON." group:"Output"`
	Lease         time.Duration `default:"0s" placeholder:"DURATION" help:"Lease to ask for, in whole seconds; 0s leaves it to the hub." group:"Subscription" range:"0s, or whole seconds"`
}

var _ command = (*flags)(nil)

// config is what the flags say of a destination.
func (f *flags) config(stdout io.Writer, logger *slog.Logger) destination.Config {
	return destination.Config{
		Topic: f.Topic, URL: f.URL, Data: f.Data, Lease: f.Lease,
		Sink: destination.NewPrinter(stdout, f.JSON), Logger: logger, UserAgent: userAgent,
	}
}

// Look implements program.Looker.
func (f *flags) Look(_ context.Context, logger *slog.Logger) error {
	return f.checkConfig(f.config(io.Discard, logger))
}

// run subscribes and prints until ctx ends.
func (f *flags) run(ctx context.Context, in surroundings) (err error) {
	reloads := program.NewReloader(in.again)
	ln, err := f.listen(ctx, in.logger)
	if err != nil {
		return err
	}
	d, err := destination.New(f.config(in.stdout, in.logger))
	if err != nil {
		ln.Close()
		return flagError(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	f.ready(in.stdout, ln, f.JSON) // before anything is answered
	return serveCallback(ctx, ln, d, reloads, d.Run)
}
