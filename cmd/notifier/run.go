package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/program"
	"carillon/internal/machine"
	"carillon/internal/release"
	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/store/pebblestore"
)

const (
	name    = "notifier"
	summary = "Takes the events of a Source and publishes them to a hub as ResourceSync change notifications."
)

// commands are the command line (and the environment, and the configuration file).
type commands struct {
	program.Common

	Serve    flags                         `cmd:"" default:"withargs" hidden:"" help:"Take events and publish them. It is what happens where no command is given."`
	Import   importCommand                 `cmd:"" help:"Take a snapshot of the resources of a set."`
	Dump     dumpCommand                   `cmd:"" help:"Make a Resource Dump of a set now."`
	Settings program.ConfigCommands[flags] `cmd:"" name:"config" help:"Look at the configuration without starting."`
	About    program.VersionCommand        `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

// flags are those of the notifier itself.
type flags struct {
	Listen string             `default:"127.0.0.1:8090" placeholder:"HOST:PORT" help:"Public listener: topic URIs and documents. Port 0 picks one." group:"Listeners"`
	URL    string             `name:"url" placeholder:"URL" help:"Base of every public URI, as the world reaches it; its path is a prefix. Default: the address of the public listener." group:"Listeners"`
	Host   []program.HostName `placeholder:"NAME" help:"Another host that the public listener answers to, besides that of --url, addresses and localhost; repeatable. A request for any other host gets 421." group:"Listeners"`
	Intake string             `default:"127.0.0.1:8091" placeholder:"HOST:PORT" help:"Listener for events, health and metrics. Not for the world: every client that reaches it can publish." group:"Listeners"`

	TLS       program.TLS `embed:"" set:"listener=public listener" group:"Listeners"`
	IntakeTLS program.TLS `embed:"" prefix:"intake-" set:"listener=intake listener" group:"Listeners"`

	Hub          string        `default:"http://127.0.0.1:8080/websub/" placeholder:"URL" help:"Hub URI." group:"Hub"`
	HubTokenFile string        `placeholder:"FILE" help:"File with the token by which the hub knows this Source, as hub source add printed it. It is read again when the hub refuses it. $NOTIFIER_HUB_TOKEN may have the token itself." reload:"" group:"Hub"`
	Data         string        `default:"notifier-data" placeholder:"DIR" help:"Directory of the journal, made if it does not exist. Its loss is a gap for every Destination." group:"Journal"`
	Set          []string      `placeholder:"NAME" help:"A set of resources, with a channel of its own; several by repeating the flag or separated by commas. A set that is left out keeps its data. Default: one set named default; with --watch, those of the directories alone." group:"Notifications"`
	MaxEntries   int           `default:"50000" help:"Most entries of one notification, 1 to 50000. Lower it where the uplink cannot send 50 MB within 60 s, which is how long a POST may take." group:"Notifications" range:"1 to 50000"`
	MaxWait      time.Duration `default:"1s" help:"How long an event may wait for others to share its notification." group:"Notifications" range:"more than 0"`
	Keep         time.Duration `default:"744h" help:"How long Change Lists stay after they were closed, and the events of them in the journal." group:"Journal" range:"more than 0"`

	ChangelistEntries int           `default:"50000" help:"Most entries of one Change List, 1 to 50000; then it is closed, and the next begins." group:"Change Lists" range:"1 to 50000"`
	ChangelistFor     time.Duration `default:"24h" help:"How long after its first entry a Change List is closed; at most 744h. One without entries stays open." group:"Change Lists" range:"more than 0"`
	HideChannel       []string      `placeholder:"NAME" help:"A set whose Capability List does not name its change notifications, for readers that refuse one which does; they are published all the same. Several by repeating the flag or separated by commas." group:"Change Lists"`
	LastmodAlways     bool          `help:"Give every entry of Change Lists and notifications a lastmod, deletions too: where the event has none, the time of the change. For readers of ResourceSync from before 2017." group:"Change Lists"`

	resourceFlags

	archiveFlags

	dumpFlags

	watchFlags

	describeFlags

	Stdin  bool `help:"Read events as NDJSON from standard input, and end when all are published. Bad lines are reported on stderr; the exit status is 1 then." group:"Standard input"`
	Strict bool `help:"With --stdin: stop reading at the first bad line." group:"Standard input"`
}

// run is the program: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runWith(ctx, args, os.Stdin, stdout, stderr)
}

func runWith(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdin, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, program.ErrDone), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, notifier.ErrBadLines):
		return 1 // each line was reported
	}
	return program.Fail(stderr, name, err)
}

// command does what the arguments say.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var c commands
	read, err := program.Read(name, summary, &c, args, stdout)
	if err != nil {
		return err
	}
	switch command := read.Command.(type) {
	case *program.CheckCommand[flags]:
		return command.Check(ctx, name, &commands{}, stdout, stderr, tokenVariable)
	case *program.ReferenceCommand:
		return command.Write(name, &commands{}, stdout)
	case *program.VersionCommand:
		return command.Print(stdout, name, nil)
	}
	stderr = program.OnScreen(stderr)
	level := program.NewLogLevel(c.LogLevel)
	logger := program.Logger(stderr, level)
	program.WarnOfVariables(logger, name, &commands{}, tokenVariable)
	switch command := read.Command.(type) {
	case *importCommand:
		return command.run(ctx, logger, stdin, stdout, stderr)
	case *dumpCommand:
		return command.run(ctx, logger, stdout, stderr)
	}
	return c.Serve.run(ctx, logger, stdin, stdout, stderr, program.Reloading{
		InForce: read, Level: level, Logger: logger,
		Read: func() (*program.Settings, error) { return program.Read(name, summary, &commands{}, args, io.Discard) },
	})
}

// Validate refuses what the notifier's own checks would take for a default, and
// combinations that do nothing. It is called when the flags are parsed.
func (f *flags) Validate() error {
	var all program.Refusals
	all.Refuse(f.MaxEntries < 1, "--max-entries must be 1 to %d, not %d", notifier.DefaultMaxEntries, f.MaxEntries)
	all.Refuse(f.MaxWait <= 0, "--max-wait must be over 0, not %s", f.MaxWait)
	all.Refuse(f.Keep <= 0, "--keep must be over 0, not %s", f.Keep)
	all.Refuse(
		f.ChangelistEntries < 1, "--changelist-entries must be 1 to %d, not %d",
		notifier.DefaultChangeListEntries, f.ChangelistEntries,
	)
	all.Refuse(f.ChangelistFor <= 0, "--changelist-for must be over 0, not %s", f.ChangelistFor)
	all.Refuse(f.Strict && !f.Stdin, "--strict is for --stdin only")
	all.Refuse(f.Data == "", "--data must name a directory")
	all = append(
		all, f.watchFlags.check(f.Data, f.Stdin), f.resourceFlags.check(), f.archiveFlags.check(),
		f.dumpFlags.check(f.sets()), f.describeFlags.check(),
	)
	return errors.Join(all...)
}

// publicEndpoint and intakeEndpoint are the listeners.
func (f *flags) publicEndpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{Flag: "listen", Address: f.Listen, TLS: f.TLS, Logger: logger}
}

func (f *flags) intakeEndpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{
		Flag: "intake", Address: f.Intake, TLS: f.IntakeTLS, Most: machine.OpenFiles() / 4,
		Operators: true, Logger: logger,
	}
}

// Look implements program.Looker.
func (f *flags) Look(_ context.Context, logger *slog.Logger) error {
	all := []error{f.publicEndpoint(logger).Check(f.URL), f.intakeEndpoint(logger).Check("")}
	cfg := f.config(logger)
	if f.URL == "" {
		all = append(all, program.NeedsURL(f.Listen))
		cfg.URL = "http://localhost/" // the listener's, which is good
	}
	if err := cfg.Validate(); err != nil {
		all = append(all, fmt.Errorf("--%w", err))
	} else {
		all = append(all, f.checkPlaces(cfg))
	}
	token, err := f.hubToken()
	if token != nil {
		f.warnToken(logger)
	}
	all = append(all, err)
	if f.Data != "" {
		if err := machine.CheckDirectory(f.Data); err != nil {
			all = append(all, fmt.Errorf("--data: %w", err))
		}
	}
	f.warnFiles(logger)
	return errors.Join(all...)
}

// warnFiles logs a warning for each file that others can read.
func (f *flags) warnFiles(logger *slog.Logger) {
	for _, warning := range append(
		machine.ExposedDirectory("--data", f.Data), machine.ExposedSecret("--hub-token-file", f.HubTokenFile)...,
	) {
		logger.Warn(warning)
	}
}

// run opens everything, says that it is ready, and serves until ctx ends or,
// with --stdin, until everything is published.
func (f *flags) run(
	ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer, again program.Reloading,
) (err error) {
	reloads := program.NewReloader(again)
	public, err := program.Listen(ctx, f.publicEndpoint(logger))
	if err != nil {
		return err
	}
	defer public.Close()
	intake, err := program.Listen(ctx, f.intakeEndpoint(logger))
	if err != nil {
		return err
	}
	defer intake.Close()
	if f.URL == "" {
		if f.URL, err = public.BaseURL("/"); err != nil {
			return err
		}
	}
	public.ToldAs(f.URL, logger)
	public.AnswerTo(f.URL, f.Host, logger)
	cfg := f.config(logger)
	token, err := f.hubToken()
	if err != nil {
		return err
	}
	if token != nil {
		cfg.Tokens = token
		f.warnToken(logger)
	}
	cfg.Registry.MustRegister(program.Listeners{"public": public, "intake": intake})
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: f.Data, Logger: logger})
	if errors.Is(err, pebblestore.ErrInUse) {
		return fmt.Errorf("--data %s: data directory in use by another process", f.Data)
	}
	if err != nil {
		return fmt.Errorf("--data %s: %w", f.Data, err)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	f.warnFiles(logger)
	cfg.Journal = journal
	n, err := notifier.New(ctx, cfg)
	if err != nil {
		return whyRefused(err)
	}
	watched, err := f.watchedDirectories(ctx, n, cfg, journal, logger)
	if err != nil {
		return err
	}
	dumps, err := f.dumps(ctx, n, cfg, f.Data, watched.bySet, logger)
	if err != nil {
		return err
	}
	watched.public = n.Public()
	reloads.Prepare = func(command any) (program.Change, error) {
		return prepare(command.(*flags), public, intake, token)
	}
	program.Ready(
		stdout, name,
		program.Address{Name: "listen", Value: public.Addr().String()},
		program.Address{Name: "intake", Value: intake.Addr().String()},
		program.Address{Name: "url", Value: cfg.URL},
	)
	return f.serve(ctx, n, parts{public, intake, reloads, watched, dumps}, stdin, stderr, logger)
}

// prepare looks at what a reload takes.
func prepare(f *flags, public, intake *program.Listener, token *hubToken) (program.Change, error) {
	var c program.Change
	for _, l := range []struct {
		listener *program.Listener
		files    program.TLS
		prefix   string
	}{{public, f.TLS, ""}, {intake, f.IntakeTLS, "intake-"}} {
		if err := c.Renew(l.listener, l.files, l.prefix); err != nil {
			return c, err
		}
	}
	fresh, err := f.hubToken()
	switch {
	case err != nil:
		return c, err
	case (fresh == nil) != (token == nil):
		c.Restart = append(c.Restart, "hub-token-file")
	case fresh != nil:
		c.Take = append(c.Take, func() { token.take(fresh) })
	}
	return c, nil
}

func (f *flags) config(logger *slog.Logger) notifier.Config {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	cfg := notifier.Config{
		URL: f.URL, Hub: f.Hub, Sets: f.sets(), Within: f.watched(),
		MaxEntries: f.MaxEntries, MaxWait: f.MaxWait, Keep: f.Keep,
		ChangeListEntries: f.ChangelistEntries, ChangeListFor: f.ChangelistFor,
		HideChannels: f.HideChannel, LastmodAlways: f.LastmodAlways,
		Files:     min(maxFiles, max(1, machine.OpenFiles()/filesShare)),
		UserAgent: "Carillon/" + release.Version + " (+" + f.URL + ")",
		Logger:    logger, Registry: registry,
	}
	f.resourceFlags.into(&cfg, f.Data)
	f.archiveFlags.into(&cfg, f.Data)
	f.describeFlags.into(&cfg)
	return cfg
}

// Bounds of the files of watched directories that are being sent: in all, and the part of
// those that the process may open, besides the half that connections take.
const (
	maxFiles   = 256
	filesShare = 8
)

// parts are what serves besides the notifier.
type parts struct {
	public, intake net.Listener
	reloads        *program.Reloader
	watched        *watchedSets
	dumps          *dump.Dumps // nil: no dumps
}

// serve runs the parts until ctx ends, one of them fails, or all events from stdin are
// published. Each part finishes its current work, within a bound. Unpublished events stay in
// the journal for the next start.
func (f *flags) serve(
	ctx context.Context, n *notifier.Notifier, p parts,
	stdin io.Reader, stderr io.Writer, logger *slog.Logger,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return program.Serve(ctx, p.public, p.watched, logger) })
	g.Go(func() error { return program.Serve(ctx, p.intake, n.Intake(), logger) })
	g.Go(func() error { return n.Run(ctx) })
	g.Go(func() error { return p.watched.run(ctx) })
	g.Go(func() error { return p.reloads.Run(ctx) })
	if p.dumps != nil {
		g.Go(func() error { return p.dumps.Run(ctx) })
	}
	if f.Stdin {
		g.Go(func() error {
			defer stop()
			return f.read(ctx, n, stdin, stderr)
		})
	}
	return g.Wait()
}

// read takes the events of stdin and waits until the hub has all of them.
func (f *flags) read(ctx context.Context, n *notifier.Notifier, stdin io.Reader, stderr io.Writer) error {
	// A read that blocks cannot be broken off: it is left behind at the end.
	ended := make(chan error, 1)
	go func() {
		_, err := n.ReadLines(ctx, stdin, notifier.LineReader{
			Strict:  f.Strict,
			Refused: func(err error) { fmt.Fprintf(stderr, "notifier: stdin: %v\n", err) },
		})
		ended <- err
	}()
	var read error
	select {
	case read = <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := n.Drain(ctx); err != nil {
		return err
	}
	return read
}
