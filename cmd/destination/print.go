package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination"
	"carillon/internal/machine"
	"carillon/internal/release"
)

// flags are those of the destination that prints.
type flags struct {
	TLS    program.TLS   `embed:"" set:"listener=callback listener" group:"Listener"`
	Topic  string        `required:"" placeholder:"URL" help:"Topic to subscribe to. Its hub is found from its Link headers, or from the links in the document." group:"Subscription"`
	Listen string        `default:"127.0.0.1:8092" placeholder:"HOST:PORT" help:"Listener for the callback; port 0 picks one." group:"Listener"`
	URL    string        `placeholder:"URL" help:"Base of the callback's URL, as the hub reaches it. Default: the listener's address, https:// with --tls-cert." group:"Listener"`
	Data   string        `default:"destination-data" placeholder:"DIR" help:"Directory for the state, one for each topic. After a crash the subscription in it goes on." group:"Subscription"`
	JSON   bool          `name:"json" help:"Print NDJSON." group:"Output"`
	Lease  time.Duration `default:"0s" placeholder:"DURATION" help:"Lease to ask for, in whole seconds; 0s leaves it to the hub." group:"Subscription" range:"0s, or whole seconds"`
}

// endpoint is the listener.
func (f *flags) endpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{Flag: "listen", Address: f.Listen, TLS: f.TLS, Logger: logger}
}

// config is what the flags say of a destination.
func (f *flags) config(stdout io.Writer, logger *slog.Logger) destination.Config {
	return destination.Config{
		Topic: f.Topic, URL: f.URL, Data: f.Data, Lease: f.Lease,
		Sink:      destination.NewPrinter(stdout, f.JSON),
		Logger:    logger,
		UserAgent: "Carillon-Destination/" + release.Version,
	}
}

// Look implements program.Looker.
func (f *flags) Look(_ context.Context, logger *slog.Logger) error {
	all := []error{f.endpoint(logger).Check(f.URL)}
	cfg := f.config(io.Discard, logger)
	if f.URL == "" {
		all = append(all, program.NeedsURL(f.Listen))
		cfg.URL = "http://localhost/" // the listener's, which is good
	}
	if err := cfg.Validate(); err != nil {
		all = append(all, flagError(err))
	}
	return errors.Join(append(all, lookAtData(f.Data, logger))...)
}

// warnExposed tells of a data directory that others can read.
func warnExposed(data string, logger *slog.Logger) {
	for _, warning := range machine.ExposedDirectory("--data", data) {
		logger.Warn(warning)
	}
}

// run subscribes and prints until ctx ends.
func (f *flags) run(ctx context.Context, in surroundings) (err error) {
	logger, stdout := in.logger, in.stdout
	reloads := program.NewReloader(in.again)
	ln, err := program.Listen(ctx, f.endpoint(logger))
	if err != nil {
		return err
	}
	if f.URL == "" {
		if f.URL, err = ln.BaseURL("/"); err != nil {
			_ = ln.Close() // nothing was served on it
			return err
		}
	}
	ln.ToldAs(f.URL, logger)
	d, err := destination.New(f.config(stdout, logger))
	if err != nil {
		ln.Close()
		return flagError(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()

	// The first line is this one: nothing is answered before it is out.
	ready(stdout, f, ln.Addr().String())
	// The hub verifies the unsubscription too: the callback is served until
	// Run has returned.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- program.Serve(serving, ln, d, logger) }()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- d.Run(running) }()
	reloads.Prepare = func(command any) (c program.Change, err error) {
		err = c.Renew(ln, command.(*flags).TLS, "")
		return c, err
	}
	go func() { _ = reloads.Run(running) }() // what goes wrong is in the log
	select {
	case err = <-ran:
		stop()
		return errors.Join(err, <-served)
	case err = <-served:
		stop()
		cancel()
		return errors.Join(err, <-ran)
	}
}

// ready prints the ready line, as an object among objects where they are.
func ready(stdout io.Writer, f *flags, listen string) {
	if !f.JSON {
		program.Ready(stdout, name, program.Address{Name: "listen", Value: listen}, program.Address{Name: "url", Value: f.URL})
		return
	}
	line, _ := json.Marshal(struct { // strings always marshal
		Ready  string `json:"ready"`
		Listen string `json:"listen"`
		URL    string `json:"url"`
	}{name, listen, f.URL})
	fmt.Fprintf(stdout, "%s\n", line)
}

// flagError names a setting as the command line does.
func flagError(err error) error {
	if setting, _, ok := strings.Cut(err.Error(), ": "); ok && !strings.Contains(setting, " ") {
		return fmt.Errorf("--%w", err)
	}
	return err
}
