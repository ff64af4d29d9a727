// Command destination subscribes to the change notifications of a topic and
// prints each change: what a newcomer runs to see that a Source and a hub work,
// and what an operator runs to see what a Destination sees.
//
// It prints one line when it listens, then one line for each change. With
// --json every line is an object: the first has the member "ready", changes have
// "change", content of other kinds has "content". Logs, gaps in the chain
// of notifications among them, go to stderr.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination"
)

const (
	name    = "destination"
	summary = "Subscribe to the change notifications of a topic and print each change. Unsubscribes when it is stopped."
)

type flags struct {
	program.Common
	TLS    program.TLS   `embed:"" set:"listener=callback listener"`
	Topic  string        `required:"" placeholder:"URL" help:"Topic to subscribe to. Its hub is found from its Link headers, or from the links in the document."`
	Listen string        `default:"127.0.0.1:8092" placeholder:"HOST:PORT" help:"Listener for the callback; port 0 picks one."`
	URL    string        `placeholder:"URL" help:"Base of the callback's URL, as the hub reaches it. Default: the listener's address, https:// with --tls-cert."`
	Data   string        `default:"destination-data" placeholder:"DIR" help:"Directory for the state, one for each topic. After a crash the subscription in it goes on."`
	JSON   bool          `name:"json" help:"Print NDJSON."`
	Lease  time.Duration `default:"0s" placeholder:"DURATION" help:"Lease to ask for, in whole seconds; 0s leaves it to the hub."`
}

func main() { os.Exit(program.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	if err := program.Parse(name, summary, &f, args, stdout); errors.Is(err, program.ErrDone) {
		return 0
	} else if err != nil {
		return program.Fail(stderr, name, err)
	}
	if err := serve(ctx, f, stdout, stderr); err != nil {
		return program.Fail(stderr, name, err)
	}
	return 0
}

func serve(ctx context.Context, f flags, stdout, stderr io.Writer) (err error) {
	logger := program.Logger(stderr, program.NewLogLevel(f.LogLevel))
	program.WarnOfVariables(logger, name, &flags{})
	ln, err := program.Listen(ctx, program.Endpoint{Flag: "listen", Address: f.Listen, TLS: f.TLS, Logger: logger})
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
	d, err := destination.New(destination.Config{
		Topic: f.Topic, URL: f.URL, Data: f.Data, Lease: f.Lease,
		Sink:      destination.NewPrinter(stdout, f.JSON),
		Logger:    logger,
		UserAgent: "Carillon-Destination/" + program.Version,
	})
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
func ready(stdout io.Writer, f flags, listen string) {
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
