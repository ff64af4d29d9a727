package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/store/pebblestore"
)

// mirrorFlags say where the copies are, and what may be fetched.
type mirrorFlags struct {
	Mirror   string           `placeholder:"DIR" help:"Directory for copies of the resources, each at HOST/PATH below it; baseline, incremental and audit need it. One for each Source. Copies can be read by who can read DIR." group:"Mirror"`
	Base     []string         `placeholder:"URL" help:"Mirror the resources below this URL only; several by repeating the flag or separated by commas. Default: the host of the Source. A Source whose resources are at another host needs it, since their addresses are a stranger's words." group:"Mirror"`
	Delete   bool             `help:"Remove the copy of a resource that the Source has deleted. Otherwise it is kept and recorded, and removed when this is given later." group:"Mirror"`
	MostGone mirror.Share     `name:"max-delete" default:"50%" placeholder:"N|SHARE" help:"How many copies --delete may remove at once because the Source does not list them any more: a number, or a share of all in percent (10 are always good). More are recorded, told as an error, and removed when a later run allows them. Deletions that the Source tells one by one do not count." group:"Mirror" range:"1 or more, or 1% to 100%"`
	Fsync    bool             `help:"Have each copy on the disk before it counts as there. Otherwise a power failure may leave copies that are not whole, which an audit finds." group:"Mirror"`
	Parallel int              `default:"16" help:"How many resources are fetched at a time." group:"Mirror" range:"1 to 1024"`
	PerHost  int              `default:"8" help:"How many of them from one host." group:"Mirror" range:"1 or more"`
	MaxFile  program.ByteSize `default:"10GiB" placeholder:"SIZE" help:"Largest resource: a number of bytes, or with KB, MB, GB, TB, KiB, MiB, GiB or TiB." group:"Mirror" range:"1 or more"`
	MinFree  program.ByteSize `default:"256MiB" placeholder:"SIZE" help:"What must stay free on the disks of --mirror and --data: nothing is fetched or kept that would leave less." group:"Mirror" range:"1 or more"`
	dump     mirror.DumpMode  // of the commands that have the flag
	packages string           // where packages are, if not in Mirror
	Within   time.Duration    `name:"fetch-timeout" default:"1h" help:"How long fetching one resource may take." group:"Mirror" range:"more than 0"`
}

// check refuses what does not go together.
func (f *mirrorFlags) check() error {
	cfg := mirror.Config{Dir: f.Mirror, Bases: f.Base, Parallel: f.Parallel, PerHost: f.PerHost}
	if len(f.Base) == 0 {
		cfg.Bases = []string{"http://localhost/"} // that of the Source, which is good
	}
	var all []error
	if err := cfg.Validate(); err != nil {
		all = append(all, flagError(err))
	}
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	refuse(f.Parallel < 1, "--parallel must be between 1 and 1024, not %d", f.Parallel)
	refuse(f.PerHost < 1, "--per-host must be 1 or more, not %d", f.PerHost)
	refuse(f.MaxFile < 1, "--max-file must be 1 or more, not %s", f.MaxFile)
	refuse(f.MinFree < 1, "--min-free must be 1 or more, not %s", f.MinFree)
	refuse(f.Within <= 0, "--fetch-timeout must be over 0, not %s", f.Within)
	return errors.Join(all...)
}

// open opens the mirror of a Source that was found at an address; with readOnly to look at it only.
func (f *mirrorFlags) open(
	at string, client *lists.Client, store *pebblestore.Destination, readOnly bool, logger *slog.Logger,
) (*mirror.Mirror, error) {
	cfg := mirror.Config{
		Dir: f.Mirror, Bases: f.Base, Chosen: len(f.Base) > 0,
		Catalog: store.Mirrored(), Ledger: store.Ledger(),
		Homes: store.Mirrored(), Positions: store.Following(), ReadOnly: readOnly,
		Dump: f.dump, Packages: f.packages, Trusts: client.Trusts,
		Delete: f.Delete, MaxDelete: f.MostGone, Sync: f.Fsync, Logger: logger, UserAgent: userAgent,
		Parallel: f.Parallel, PerHost: f.PerHost,
		MaxBytes: int64(f.MaxFile), MinFree: uint64(f.MinFree), Timeout: f.Within,
	}
	if len(cfg.Bases) == 0 {
		u, err := url.Parse(at)
		if err != nil {
			return nil, fmt.Errorf("--source: %w", err)
		}
		cfg.Bases = []string{(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()}
	}
	m, err := mirror.New(cfg)
	if err != nil {
		return nil, flagError(err)
	}
	return m, nil
}

// sourceFlags say whose lists are read.
type sourceFlags struct {
	Source    string   `required:"" placeholder:"URL" help:"Where to look for what the Source offers: its site, Source Description, Capability List, topic, or any resource that links to the Capability List. A Resource List, Change List or sitemap that leads to none is taken by itself." group:"Source"`
	Topic     string   `placeholder:"URL" help:"Topic of the set that is meant, where the Source has several." group:"Source"`
	TrustHost []string `placeholder:"HOST" help:"Host to which the Source's documents may lead besides their own, with or without a port; several by repeating the flag or separated by commas." group:"Source"`
	Data      string   `default:"destination-data" placeholder:"DIR" help:"Directory for the state: what the copies are, and up to when changes were taken. One for each Source; follow goes on where the other commands have ended." group:"Mirror"`
}

func (f *sourceFlags) check() error {
	if f.Source == "" {
		return errors.New("--source must say whose resources")
	}
	if f.Topic != "" && !isWebURL(f.Topic) {
		return fmt.Errorf("--topic: %q is not an absolute http or https URL", f.Topic)
	}
	if !isWebURL(f.Source) {
		return fmt.Errorf("--source: %q is not an absolute http or https URL", f.Source)
	}
	if f.Data == "" {
		return errors.New("--data must name a directory")
	}
	return nil
}

// pull is a command that reads the Source's lists once, and keeps or compares copies.
type pull struct {
	*sourceFlags
	*mirrorFlags
	surroundings
	client *lists.Client
	set    lists.Set
	store  *pebblestore.Destination
	mirror *mirror.Mirror
	begun  time.Time
}

// openPull finds the Source and opens the mirror; with readOnly the mirror must be there. The caller
// closes it, also after an error.
func openPull(
	ctx context.Context, s *sourceFlags, f *mirrorFlags, readOnly bool, in surroundings,
) (*pull, error) {
	p := &pull{sourceFlags: s, mirrorFlags: f, surroundings: in, begun: time.Now()}
	var err error
	if p.client, err = lists.New(lists.Config{UserAgent: userAgent, Logger: in.logger, Hosts: s.TrustHost}); err != nil {
		return p, fmt.Errorf("--trust-host: %w", err)
	}
	if _, err := os.Stat(storeDir(s.Data)); readOnly && err != nil {
		return p, fmt.Errorf("--data %s: there is no state of a mirror; take a baseline first: %w", s.Data, err)
	}
	if p.store, err = openStore(s.Data, uint64(f.MinFree), in.logger); err != nil {
		return p, err
	}
	if p.set, err = discover(ctx, p.client, s.Source, s.Topic); err != nil {
		return p, fmt.Errorf("--source: %w", err)
	}
	b := pebblestore.Belonging{Names: append(addresses(&p.set), s.Topic)}
	if !readOnly {
		b.Begin = "at once"
	}
	if _, err = claim(ctx, p.store, s.Data, b, nil); err == nil && !readOnly {
		err = p.store.Following().Settle(ctx)
	}
	if err != nil {
		return p, err
	}
	p.mirror, err = f.open(s.Source, p.client, p.store, readOnly, in.logger)
	return p, err
}

func (p *pull) close() error {
	var all []error
	if p.mirror != nil {
		all = append(all, p.mirror.Close())
	}
	if p.store != nil {
		all = append(all, p.store.Close())
	}
	return errors.Join(all...)
}

// chosen tells whether what is outside of --base is so by the operator's choice.
func (p *pull) chosen() bool { return len(p.Base) > 0 }

// maxTold is how many resources that failed are named at the end.
const maxTold = 20

// summary tells what became of a run, and whether all is well: as text, or as one object.
func (p *pull) summary(ctx context.Context, what string, asJSON bool) error {
	standing, bad, err := p.mirror.Standing(ctx, maxTold)
	if err != nil {
		return err
	}
	for i := range bad {
		p.logger.Error("a resource is not mirrored", "loc", bad[i].Loc,
			"reason", bad[i].Reason, "tries", bad[i].Tries, "next", bad[i].Next)
	}
	if p.chosen() && standing[mirror.Refused] > 0 && len(standing) == 1 {
		p.logger.Warn("nothing that the Source has is below --base", "outside", standing[mirror.Refused])
	}
	done := outcome{Progress: p.mirror.Progress(), Standing: standing, took: time.Since(p.begun)}
	tell := done.text
	if asJSON {
		tell = done.json
	}
	if err := tell(p.stdout, what); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	var all []error
	if p.dump == mirror.DumpOnly && done.Unusable > 0 {
		all = append(all, fmt.Errorf("%d packages could not be used; the log names them. "+
			"--dump auto fetches what they have one by one", done.Unusable))
	}
	if failed := standing[mirror.Failed]; failed > 0 {
		all = append(all, fmt.Errorf("%d resources could not be fetched, or are not what the Source "+
			"tells; they are tried again by the next run", failed))
	}
	if refused := standing[mirror.Refused]; refused > 0 && !p.chosen() {
		all = append(all, fmt.Errorf("%d resources are outside of what is mirrored: "+
			"name where they are by --base", refused))
	}
	if invalid := done.invalid(); invalid > 0 {
		all = append(all, fmt.Errorf("%d resources have a loc that is not a URI that can be asked for; "+
			"only their Source can mend that. destination audit names them", invalid))
	}
	return errors.Join(all...)
}

// outcome is what became of a run.
type outcome struct {
	mirror.Progress
	mirror.Standing
	took time.Duration
}

// invalid is how many resources cannot be asked for: those that are recorded, and those of this run
// whose loc is too long to be recorded.
func (o *outcome) invalid() int { return max(o.Standing[mirror.Invalid], int(o.Progress.Invalid)) }

func (o *outcome) text(w io.Writer, what string) error {
	_, err := fmt.Fprintf(w, "%s: %d fetched (%s%s), %d unchanged, %d deleted, in %s; the mirror has "+
		"%d whole, %d missing at their servers, %d failed, %d kept though deleted, %d outside, %d invalid\n",
		what, o.Fetched, megabytes(o.Bytes), o.origins(), o.Unchanged, o.Progress.Deleted,
		o.took.Round(time.Millisecond), o.Standing[mirror.Whole], o.Standing[mirror.Missing],
		o.Standing[mirror.Failed], o.Standing[mirror.Gone], o.Standing[mirror.Refused], o.invalid())
	return err
}

// origins says how many came from packages, where any package was used.
func (o *outcome) origins() string {
	if o.Packages+o.Unusable == 0 {
		return ""
	}
	return fmt.Sprintf("; %d from %d packages, %d by GET", o.Unpacked, o.Packages, o.Fetched-o.Unpacked)
}

func megabytes(n int64) string {
	const mega = 1e6
	return fmt.Sprintf("%.1f MB", float64(n)/mega)
}

func (o *outcome) json(w io.Writer, what string) error {
	return printJSON(w, struct {
		Command   string  `json:"command"`
		Fetched   int64   `json:"fetched"`
		Bytes     int64   `json:"bytes"`
		Unpacked  int64   `json:"from_packages"`
		Asked     int64   `json:"by_get"`
		Spoiled   int64   `json:"spoiled_in_packages"`
		Packages  int64   `json:"packages"`
		Unusable  int64   `json:"unusable_packages"`
		Unchanged int64   `json:"unchanged"`
		Deleted   int64   `json:"deleted"`
		Seconds   float64 `json:"seconds"`
		Whole     int     `json:"whole"`
		Missing   int     `json:"missing"`
		Failed    int     `json:"failed"`
		Kept      int     `json:"kept"`
		Outside   int     `json:"outside"`
		Invalid   int     `json:"invalid"`
	}{
		what, o.Fetched, o.Bytes, o.Unpacked, o.Fetched - o.Unpacked,
		o.Spoiled, o.Packages, o.Unusable, o.Unchanged, o.Progress.Deleted, o.took.Seconds(),
		o.Standing[mirror.Whole], o.Standing[mirror.Missing], o.Standing[mirror.Failed],
		o.Standing[mirror.Gone], o.Standing[mirror.Refused], o.invalid(),
	})
}
