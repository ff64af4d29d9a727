package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"carillon/cmd/internal/program"
	"carillon/destination/republish"
	"carillon/store/pebblestore"
)

// publishFlags say where the changes of a mirror are published.
type publishFlags struct {
	Publish string `placeholder:"URL" help:"Be an aggregator: hand each change of the mirror to a notifier. The URL is where that takes the events of a set: http://HOST:PORT/sets/NAME/events, with its --intake as HOST:PORT. Needs --mirror and --as." group:"Publishing"`
	As      string `placeholder:"URL" help:"With --publish: the address at which the directory of --mirror is served. A copy's address is this and its path below the directory. It ends in a slash, and stays the same for as long as --publish does." group:"Publishing"`
	Cert    string `name:"publish-tls-cert" placeholder:"FILE" help:"With --publish: the certificate that the notifier has as --intake-tls-cert. Default: any that this machine trusts." group:"Publishing"`
}

func (f *publishFlags) target() republish.Target {
	return republish.Target{Intake: f.Publish, Base: f.As}
}

// check refuses what does not go together.
func (f *publishFlags) check(mirror string) error {
	switch {
	case f.Publish == "" && f.As != "":
		return errors.New("--as is for --publish: give that too")
	case f.Publish == "" && f.Cert != "":
		return errors.New("--publish-tls-cert is for --publish: give that too")
	case f.Publish == "":
		return nil
	case mirror == "":
		return errors.New("--publish needs --mirror: what is published are the copies in a directory")
	}
	return publishError(f.target().Validate())
}

// publishError names the settings as the command line does, each in a line.
func publishError(err error) error {
	if all, several := err.(interface{ Unwrap() []error }); several {
		var named []error
		for _, one := range all.Unwrap() {
			named = append(named, publishError(one))
		}
		return errors.Join(named...)
	}
	if err == nil {
		return nil
	}
	return flagError(err)
}

// checkConfig looks at the file.
func (f *publishFlags) checkConfig() error {
	_, err := f.trusting()
	return err
}

// trusting is what an intake with TLS is checked by; nil: as the machine does.
func (f *publishFlags) trusting() (*tls.Config, error) {
	if f.Cert == "" {
		return nil, nil
	}
	trusting, err := program.Trusting(f.Cert)
	if err != nil {
		return nil, fmt.Errorf("--publish-tls-cert: %w", err)
	}
	return trusting, nil
}

// open opens the outbox, from where on changes are recorded in it; nil without --publish.
func (f *publishFlags) open(
	ctx context.Context, store *pebblestore.Destination, logger *slog.Logger,
) (*republish.Publisher, error) {
	if f.Publish == "" {
		return nil, nil
	}
	trusting, err := f.trusting()
	if err != nil {
		return nil, err
	}
	anew, err := store.Outbox().Open(ctx, f.target())
	if errors.Is(err, republish.ErrMoved) {
		return nil, fmt.Errorf("--as %s: %w. Destinations keep addresses, so give that again; "+
			"to publish at other addresses name another set by --publish", f.As, err)
	}
	if err != nil {
		return nil, err
	}
	if anew {
		logger.Info("all copies are published, since nothing was handed to this intake before",
			"intake", f.Publish, "as", f.As)
	}
	return republish.New(republish.Config{
		Outbox: store.Outbox(), Target: f.target(), TLS: trusting, UserAgent: userAgent, Logger: logger,
	})
}
