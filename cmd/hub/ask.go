package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"carillon/cmd/internal/copies"
	"carillon/cmd/internal/program"
	"carillon/internal/egress"
	"carillon/internal/engine"
	"carillon/internal/release"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/operator/ask"
	"carillon/operator/offline"
	"carillon/store/pebblestore"
)

// The commands of an operator (hub topics, hub show, …; package ask) are about the hub that
// has the store open, by its socket; about a store that no hub works on, in this process; about the
// hubs on a Redis, as one more that holds nothing; or, with --admin-url, about the hub at an operator's
// listener.

// asking is a command with the flags that say who is asked.
type asking[C any] struct {
	askFlags

	Command C `embed:""`
}

// Validate refuses what cannot be asked.
func (f *asking[C]) Validate() error {
	if err := validate(&f.Command); err != nil {
		return err
	}
	return f.askFlags.Validate()
}

// Help says what the flags do not.
func (f *asking[C]) Help() string { return help(&f.Command) }

// quiet: the command's messages are its own lines.
func (*asking[C]) quiet() {}

func (f *asking[C]) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	call := f.call(logger, stdin, stdout, stderr)
	if call.JSON = f.JSON; f.AdminURL != "" {
		call.Absent = func() error { return nil }
		call.Open = func(ctx context.Context, _ ask.Part) (*ask.Client, error) { return f.openListener(ctx, logger) }
	}
	return any(&f.Command).(ask.Command).Run(ctx, call)
}

// onStore is a command about what is in a store, which asks no listener.
type onStore[C any] struct {
	storeFlags

	Command C `embed:""`
}

// Validate refuses what cannot be asked.
func (f *onStore[C]) Validate() error {
	if err := f.storeFlags.Validate(); err != nil {
		return err
	}
	return validate(&f.Command)
}

// Help says what the flags do not.
func (f *onStore[C]) Help() string { return help(&f.Command) }

func (*onStore[C]) quiet() {}

func (f *onStore[C]) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	return any(&f.Command).(ask.Command).Run(ctx, f.call(logger, stdin, stdout, stderr))
}

// copying is a command that writes or reads a copy of a store.
type copying[C any] struct {
	storeFlags

	Command C `embed:""`
}

// Help says what the flags do not.
func (f *copying[C]) Help() string { return help(&f.Command) }

func (f *copying[C]) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := f.engine(logger)
	if err != nil {
		return err
	}
	call := copies.Call{Call: f.call(logger, stdin, stdout, stderr), Engine: c}
	return any(&f.Command).(copies.Command).Run(ctx, call)
}

func validate(command any) error {
	if c, ok := command.(interface{ Validate() error }); ok {
		return c.Validate()
	}
	return nil
}

func help(command any) string {
	if c, ok := command.(interface{ Help() string }); ok {
		return c.Help()
	}
	return ""
}

// sourceCommands are about who may publish where the hub runs with --publishers registered.
type sourceCommands struct {
	Add    onStore[ask.SourceAdd]    `cmd:"" help:"Register a Source and print its token, once."`
	List   onStore[ask.SourceList]   `cmd:"" help:"List the Sources. Their tokens are kept nowhere."`
	Rotate onStore[ask.SourceRotate] `cmd:"" help:"Give a Source another token, and print that. The one before is refused from then on."`
	Revoke onStore[ask.SourceRevoke] `cmd:"" help:"End a Source: its token is refused from then on."`
}

// askFlags are those of every command that asks.
type askFlags struct {
	storeFlags

	AdminURL       string `name:"admin-url" env:"-" placeholder:"URL" help:"Ask the hub whose operator's listener is at this URL, as http://127.0.0.1:8081, and not the hub or the store of --store."`
	AdminTokenFile string `placeholder:"FILE" help:"With --admin-url: file with the operator's token, where that hub wants one. $HUB_ADMIN_TOKEN may have the token itself."`
	AdminTLSCert   string `name:"admin-tls-cert" placeholder:"FILE" help:"With --admin-url https://…: the certificate that the hub has as --admin-tls-cert. It is good whatever the address is; another must be one that this machine trusts."`
	JSON           bool   `name:"json" env:"-" help:"Print the API's answer as it is."`
}

// Validate refuses what cannot be asked.
func (f *askFlags) Validate() error {
	if f.AdminURL == "" {
		return f.storeFlags.Validate()
	}
	u, err := url.Parse(f.AdminURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("--admin-url %q is not the URL of an operator's listener, as http://127.0.0.1:8081 is", f.AdminURL)
	}
	return nil
}

// openListener asks at an operator's listener.
func (f *askFlags) openListener(ctx context.Context, logger *slog.Logger) (*ask.Client, error) {
	token, err := api.ReadToken(os.Getenv(api.TokenVariable), f.AdminTokenFile, logger)
	if err != nil {
		return nil, err
	}
	if token != "" && strings.HasPrefix(f.AdminURL, "http:") && !egress.LoopbackURL(f.AdminURL) {
		logger.Warn(
			"the operator's token goes without TLS: a reader of the traffic can do with the hub what you can", "ask", f.AdminURL,
		)
	}
	var trusting *tls.Config
	if f.AdminTLSCert != "" {
		if trusting, err = program.Trusting(f.AdminTLSCert); err != nil {
			return nil, fmt.Errorf("--admin-tls-cert %s: %w", f.AdminTLSCert, err)
		}
	}
	c, err := ask.AtListener(ctx, f.AdminURL, token, trusting)
	if refused, is := errors.AsType[ask.Refused](err); is && refused.Status == http.StatusUnauthorized {
		err = fmt.Errorf("%w: give --admin-token-file FILE, or HUB_ADMIN_TOKEN", err)
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is && f.AdminTLSCert == "" {
		err = fmt.Errorf("%w: give --admin-tls-cert FILE, the hub's certificate", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--admin-url %s: %w", f.AdminURL, err)
	}
	return c, nil
}

// call is what a command about the store works with.
func (f *storeFlags) call(logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) ask.Call {
	return ask.Call{
		Open: func(ctx context.Context, needs ask.Part) (*ask.Client, error) {
			return f.openClient(ctx, needs, logger)
		},
		Absent: f.engineConfig().RefuseNothing, Store: f.engineConfig().Shown(),
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
}

// openClient opens the store, or finds the hub that has it open.
func (f *storeFlags) openClient(ctx context.Context, needs ask.Part, logger *slog.Logger) (*ask.Client, error) {
	e, err := openStore(ctx, *f, logger)
	var c *ask.Client
	switch {
	case err == nil:
		c, err = askInProcess(ctx, e, needs, logger)
	case errors.Is(err, pebblestore.ErrInUse):
		var where string
		if where, err = f.engineConfig().Directory(); err == nil {
			c, err = ask.AtSocket(ctx, engine.Socket(where).Dial)
		}
	default:
		return nil, err
	}
	if err != nil {
		return nil, f.engineConfig().Failed(err)
	}
	return c, nil
}

// askInProcess answers in this process, by a store that it has opened, and closes that at last.
func askInProcess(ctx context.Context, e *engine.Engine, needs ask.Part, logger *slog.Logger) (*ask.Client, error) {
	desk, end, err := serviceOf(ctx, e, needs, logger)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	serve := api.API(api.Config{Service: desk, Version: release.Version, Backup: e.HoldBackup, Logger: logger})
	return ask.InProcess(ctx, serve, e.Peers != nil, end, logger)
}

// serviceOf is the desk of a command on a store that it has opened; end closes both. On a Redis it
// asks the hubs. On Pebble, where no hub can run beside it, it reads the subscriptions itself.
func serviceOf(
	ctx context.Context, e *engine.Engine, needs ask.Part, logger *slog.Logger,
) (desk *operator.Service, end func() error, err error) {
	cfg := operator.Config{
		Engine: e.Name(), Version: release.Version, Started: time.Now(), Log: e.Log, Cursors: e.Cursors,
		Subscriptions: e.Subscriptions, Sources: e.Sources, Warnings: e.Warnings, Logger: logger,
	}
	end = e.Close
	switch {
	case needs != ask.Everything:
	case e.Peers != nil:
		cfg.Peers = e.Peers
	default:
		seen, err := offline.Read(ctx, offline.Store{Log: e.Log, Cursors: e.Cursors, Shards: e.Shards}, logger)
		if err != nil {
			return nil, nil, err
		}
		cfg.Deliveries = seen
		end = func() error { return errors.Join(seen.Close(), e.Close()) }
	}
	desk, err = operator.New(cfg)
	return desk, end, err
}
