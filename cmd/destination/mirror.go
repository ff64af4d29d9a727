package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/internal/machine"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// mirrorFlags say where the copies are, and what may be fetched.
type mirrorFlags struct {
	Mirror   string           `placeholder:"DIR" help:"Directory for copies of the resources, each at HOST/PATH below it; baseline, incremental and audit need it. One for each Source. Every user who can read DIR can read the copies." group:"Mirror"`
	Base     []string         `placeholder:"URL" help:"Mirror the resources below this URL only; several by repeating the flag or separated by commas. Default: the host of the Source. A Source whose resources are at another host needs it, since their addresses are a stranger's words." group:"Mirror"`
	Delete   bool             `help:"Remove the copy of a resource that the Source has deleted. Otherwise it is kept and recorded, and removed when this is given later." group:"Mirror"`
	MostGone mirror.Share     `name:"max-delete" default:"50%" placeholder:"N|SHARE" help:"How many copies --delete may remove at once because the Source does not list them any more: a number, or a share of all in percent (10 are always good). More are recorded, reported as an error, and removed when a later run allows them. Deletions that the Source announces one by one do not count." group:"Mirror" range:"1 or more, or 1% to 100%"`
	Fsync    bool             `help:"Have each copy on the disk before it counts as there. Otherwise a power failure may leave copies that are not whole, which an audit finds." group:"Mirror"`
	Parallel int              `default:"16" help:"How many resources are fetched at a time." group:"Mirror" range:"1 to 1024"`
	PerHost  int              `default:"8" help:"How many of them from one host." group:"Mirror" range:"1 or more"`
	MaxFile  program.ByteSize `default:"10GiB" placeholder:"SIZE" help:"Largest resource: a number of bytes, or with KB, MB, GB, TB, KiB, MiB, GiB or TiB." group:"Mirror" range:"1 or more"`
	MinFree  program.ByteSize `default:"256MiB" placeholder:"SIZE" help:"Bytes that must stay free on the disks of --mirror and --data: nothing is fetched or kept that would leave less." group:"Mirror" range:"1 or more"`
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
	var all program.Refusals
	if err := cfg.Validate(); err != nil {
		all = append(all, flagError(err))
	}
	all.Refuse(f.Parallel < 1, "--parallel must be between 1 and 1024, not %d", f.Parallel)
	all.Refuse(f.PerHost < 1, "--per-host must be 1 or more, not %d", f.PerHost)
	all.Refuse(f.MaxFile < 1, "--max-file must be 1 or more, not %s", f.MaxFile)
	all.Refuse(f.MinFree < 1, "--min-free must be 1 or more, not %s", f.MinFree)
	all.Refuse(f.Within <= 0, "--fetch-timeout must be over 0, not %s", f.Within)
	return errors.Join(all...)
}

// checkConfig looks at the directory of the copies.
func (f *mirrorFlags) checkConfig() error {
	if f.Mirror == "" {
		return nil
	}
	if err := machine.CheckDirectory(f.Mirror); err != nil {
		return fmt.Errorf("--mirror: %w", err)
	}
	return nil
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

// now is the --at that brings a mirror back to the present.
const now = "now"

// mustBeFree refuses to move a mirror on that is kept at a moment.
func mustBeFree(m *mirror.Mirror) error {
	at := m.Moment()
	if at.IsZero() {
		return nil
	}
	return fmt.Errorf("%w, %s, and is not moved on: bring it to the present by destination baseline "+
		"--at %s, or use another --mirror and --data", mirror.ErrKept, payload.FormatDatetime(at), now)
}
