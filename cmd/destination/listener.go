package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"carillon/cmd/internal/program"
	"carillon/destination"
)

// listenerFlags say where the hub reaches a callback.
type listenerFlags struct {
	TLS    program.TLS `embed:"" set:"listener=callback listener" group:"Listener"`
	Listen string      `default:"127.0.0.1:8092" placeholder:"HOST:PORT" help:"Listener for the callback; port 0 picks one." group:"Listener"`
	URL    string      `placeholder:"URL" help:"Base of the callback's URL, as the hub reaches it. Default: the listener's address, https:// with --tls-cert." group:"Listener"`
}

// callback returns the flags of a command that has them.
func (f *listenerFlags) callback() *listenerFlags { return f }

func (f *listenerFlags) endpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{Flag: "listen", Address: f.Listen, TLS: f.TLS, Logger: logger}
}

// checkConfig looks at the listener, the configuration of the Destination that it is for, and its data.
func (f *listenerFlags) checkConfig(cfg destination.Config) error {
	all := []error{f.endpoint(cfg.Logger).Check(f.URL)}
	if f.URL == "" {
		all = append(all, program.NeedsURL(f.Listen))
		cfg.URL = "http://localhost/" // the listener's, which is good
	}
	if err := cfg.Validate(); err != nil {
		all = append(all, flagError(err))
	}
	return errors.Join(append(all, checkData(cfg.Data, cfg.Logger))...)
}

// listen opens the listener. URL is its address where no other was given.
func (f *listenerFlags) listen(ctx context.Context, logger *slog.Logger) (*program.Listener, error) {
	ln, err := program.Listen(ctx, f.endpoint(logger))
	if err != nil {
		return nil, err
	}
	if f.URL == "" {
		if f.URL, err = ln.BaseURL("/"); err != nil {
			_ = ln.Close() // nothing was served on it
			return nil, err
		}
	}
	ln.ToldAs(f.URL, logger)
	return ln, nil
}

// ready prints the ready line, as an object among objects where they are. Without a listener it has
// no addresses.
func (f *listenerFlags) ready(stdout io.Writer, ln *program.Listener, asJSON bool) {
	var addresses []program.Address
	var listen string
	if ln != nil {
		listen = ln.Addr().String()
		addresses = []program.Address{{Name: "listen", Value: listen}, {Name: "url", Value: f.URL}}
	}
	if !asJSON {
		program.Ready(stdout, name, addresses...)
		return
	}
	line, _ := json.Marshal(struct { // strings always marshal
		Ready  string `json:"ready"`
		Listen string `json:"listen,omitempty"`
		URL    string `json:"url,omitempty"`
	}{name, listen, f.URL})
	fmt.Fprintf(stdout, "%s\n", line)
}

// serveCallback serves a callback until do returns, which ends with ctx, or when the listener
// fails: the hub verifies the unsubscription too. A reload renews the listener's certificate.
func serveCallback(
	ctx context.Context, ln *program.Listener, callback http.Handler, reloads *program.Reloader,
	do func(context.Context) error,
) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		err := program.Serve(serving, ln, callback, reloads.Logger)
		cancel()
		served <- err
	}()
	reloads.Prepare = func(command any) (c program.Change, err error) {
		err = c.Renew(ln, command.(interface{ callback() *listenerFlags }).callback().TLS, "")
		return c, err
	}
	go func() { _ = reloads.Run(running) }() // errors are in the log
	err := do(running)
	stop()
	return errors.Join(err, <-served)
}
