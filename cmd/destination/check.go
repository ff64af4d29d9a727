package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"carillon/check"
	"carillon/cmd/internal/program"
	"carillon/destination/lists"
	"carillon/internal/legible"
)

// checkCommand reports the faults of a Source.
type checkCommand struct {
	Places      []string         `arg:"" name:"place" help:"Where to begin: the address of a site, a Source Description, a Capability List, a topic, any other document or a ZIP package, or the name of a file with a document or a package."`
	Sample      int              `default:"0" env:"-" help:"Fetch so many resources of the Resource Lists, chosen at random, and compare them with what the lists say; and look at the links of so many changes." group:"What is looked at" range:"0 or more"`
	TrustHost   []string         `placeholder:"HOST" help:"Host to which the Source's documents may lead besides their own, with or without a port; several by repeating the flag or separated by commas. Documents at other hosts are not read." group:"What is looked at"`
	MaxRequests int              `default:"1000" env:"-" help:"How many requests are made at most." group:"Limits" range:"1 or more"`
	MaxRead     program.ByteSize `default:"1GiB" env:"-" placeholder:"SIZE" help:"How much is read at most, from the network and from files." group:"Limits" range:"1 or more"`
	MaxUnpacked program.ByteSize `default:"4GiB" env:"-" placeholder:"SIZE" help:"How much is unpacked at most, of all packages and gzip files together." group:"Limits" range:"1 or more"`
	MaxTime     time.Duration    `default:"10m" env:"-" help:"How long it may take." group:"Limits" range:"more than 0"`
	Timeout     time.Duration    `name:"answer-timeout" default:"1m" env:"-" help:"How long one answer may take. Packages and resources have all of --max-time." group:"Limits" range:"more than 0"`
	Redirects   int              `name:"max-redirects" default:"5" env:"-" help:"How many redirects are followed from one address." group:"Limits" range:"1 or more"`
	MaxDepth    int              `default:"10" env:"-" help:"How many links are followed from a place." group:"Limits" range:"1 or more"`
	JSON        bool             `name:"json" env:"-" help:"Print each finding, and at the end what they come to, as an object of JSON on a line." group:"Output"`
}

// Help says what the flags do not.
func (*checkCommand) Help() string {
	return "It looks at each PLACE and at everything that the standards connect with it. Each finding is one line: error, warning or note, the clause of the standard, the place, the fault, and the remedy. " +
		"It sends GET and HEAD only. A note names the parts that a limit left out. " +
		"The exit status is 0 where there is no error, 1 where there are some, and 2 where a PLACE could not be looked at."
}

// Validate is called when the flags are parsed.
func (c *checkCommand) Validate() error {
	var all program.Refusals
	all.Refuse(c.Sample < 0, "--sample must be 0 or more, not %d", c.Sample)
	all.Refuse(c.MaxRequests < 1, "--max-requests must be 1 or more, not %d", c.MaxRequests)
	all.Refuse(c.MaxRead < 1, "--max-read must be 1 or more, not %s", c.MaxRead)
	all.Refuse(c.MaxUnpacked < 1, "--max-unpacked must be 1 or more, not %s", c.MaxUnpacked)
	all.Refuse(c.MaxTime <= 0, "--max-time must be over 0, not %s", c.MaxTime)
	all.Refuse(c.Timeout <= 0, "--answer-timeout must be over 0, not %s", c.Timeout)
	all.Refuse(c.Redirects < 1, "--max-redirects must be 1 or more, not %d", c.Redirects)
	all.Refuse(c.MaxDepth < 1, "--max-depth must be 1 or more, not %d", c.MaxDepth)
	return errors.Join(all...)
}

// Look implements program.Looker.
func (c *checkCommand) Look(context.Context, *slog.Logger) error {
	_, err := trusting(c.TrustHost, nil)
	return err
}

// config is what the flags say of a check.
func (c *checkCommand) config() (check.Config, error) {
	client, err := trusting(c.TrustHost, nil)
	if err != nil {
		return check.Config{}, err
	}
	return check.Config{
		Transport: client.Transport(),
		Allow:     allowFrom(client, c.Places),
		AllowHub:  func(*url.URL) error { return nil }, // as where a Destination subscribes
		Files:     true,
		Sample:    c.Sample,
		UserAgent: userAgent,
		Limits: check.Limits{
			Requests: c.MaxRequests, Bytes: int64(c.MaxRead), Time: c.MaxTime, Answer: c.Timeout,
			Redirects: c.Redirects, Depth: c.MaxDepth, Unpacked: int64(c.MaxUnpacked),
		},
	}, nil
}

// allowFrom allows the servers of the places, and those that --trust-host names.
func allowFrom(client *lists.Client, places []string) func(*url.URL) error {
	atServers := check.AtServers(places)
	return func(to *url.URL) error {
		if atServers(to) == nil || client.Trusts(&url.URL{}, to) == nil {
			return nil
		}
		return fmt.Errorf("it is at another host; allow it with --trust-host %s", to.Host)
	}
}

func (c *checkCommand) run(ctx context.Context, in surroundings) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	var printed error
	sum, err := check.Run(ctx, cfg, c.Places, func(f check.Finding) {
		if printed != nil {
			return
		}
		if c.JSON {
			printed = printJSON(in.stdout, f)
		} else {
			_, printed = fmt.Fprintln(in.stdout, legible.Line(f.String()))
		}
	})
	if printed == nil {
		printed = c.summary(in, sum)
	}
	switch {
	case printed != nil:
		return fmt.Errorf("printing: %w", printed)
	case err != nil:
		return fmt.Errorf("check: not everything could be looked at: %w", err)
	case sum.Errors > 0:
		return errReported
	}
	return nil
}

// summary prints what was looked at, and what the findings come to.
func (c *checkCommand) summary(in surroundings, sum check.Summary) error {
	if c.JSON {
		return printJSON(in.stdout, struct {
			Summary check.Summary `json:"summary"`
		}{sum})
	}
	incomplete := ""
	if !sum.Complete {
		incomplete = "; not everything was looked at"
	}
	_, err := fmt.Fprintf(in.stdout, "check: %s, %s, %s, %s (%s): %s, %s, %s%s\n",
		count(sum.Documents, "document"), count(sum.Packages, "package"), count(sum.Resources, "resource"), count(sum.Requests, "request"), megabytes(sum.Bytes),
		count(sum.Errors, "error"), count(sum.Warnings, "warning"), count(sum.Notes, "note"), incomplete)
	return err
}

// count is a number of things.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
