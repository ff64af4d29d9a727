package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/notifier"
	"carillon/notifier/directory"
	"carillon/notifier/dump"
	"carillon/payload"
)

// dumpFlags are those of the dumps.
type dumpFlags struct {
	Dump             []string         `placeholder:"NAME" help:"A set to dump: a Resource Dump with the content of all its resources, and a Change Dump of each Change List that is closed. It must have a Resource List (--resource-list, --watch, or an imported snapshot). Content comes from the directory of a watched set, otherwise from the addresses of the resources. Several by repeating the flag or separated by commas." group:"Dumps"`
	DumpEvery        time.Duration    `default:"24h" help:"How often a Resource Dump is made, 1m to 744h. notifier dump makes one at once." group:"Dumps" range:"1m to 744h"`
	DumpKeep         time.Duration    `default:"48h" help:"How long the packages of a Resource Dump stay after the next one took its place." group:"Dumps" range:"more than 0"`
	DumpPackageBytes program.ByteSize `default:"1GiB" placeholder:"SIZE" help:"Largest package, 1MiB or more. Content that is larger has a package to itself. A number of bytes, or with KB, MB, GB, TB, KiB, MiB, GiB or TiB." group:"Dumps" range:"1MiB or more"`
	DumpBytes        program.ByteSize `default:"64GiB" placeholder:"SIZE" help:"Most that all dumps may take of the disk, with what is being made. A Resource Dump that does not fit is not made; for a Change Dump the oldest packages are dropped. Archived dumps (--archive) do not count: they stay for --archive-for, whatever they take." group:"Dumps" range:"at least --dump-package-bytes"`
}

// check reports the faults of the flags by themselves.
func (f *dumpFlags) check(sets []string) error {
	var all []error
	if f.DumpEvery <= 0 {
		all = append(all, fmt.Errorf("--dump-every must be over 0, not %s", f.DumpEvery))
	}
	if f.DumpKeep <= 0 {
		all = append(all, fmt.Errorf("--dump-keep must be over 0, not %s", f.DumpKeep))
	}
	cfg := f.config("data")
	if f.DumpPackageBytes <= 0 {
		all = append(all, fmt.Errorf("--dump-package-bytes must be %d or more", dump.LeastPackageBytes))
	} else if f.DumpEvery > 0 && f.DumpKeep > 0 {
		if err := cfg.Validate(); err != nil {
			all = append(all, fmt.Errorf("--%w", err))
		}
	}
	for i, name := range f.Dump {
		switch {
		case !slices.Contains(sets, name) && !(len(sets) == 0 && name == notifier.DefaultSet):
			all = append(all, fmt.Errorf("--dump: %q is no set here", name))
		case slices.Contains(f.Dump[:i], name):
			all = append(all, fmt.Errorf("--dump: %q is there twice", name))
		}
	}
	return errors.Join(all...)
}

func (f *dumpFlags) config(data string) dump.Config {
	return dump.Config{
		Dir: filepath.Join(data, "dumps"), Every: f.DumpEvery, Keep: f.DumpKeep,
		PackageBytes: int64(f.DumpPackageBytes), Bytes: int64(f.DumpBytes),
	}
}

// dumps opens the dumps of the sets; nil: the notifier makes no dumps.
func (f *dumpFlags) dumps(
	ctx context.Context, n *notifier.Notifier, cfg notifier.Config, data string,
	watched map[string]*directory.Directory, logger *slog.Logger,
) (*dump.Dumps, error) {
	if len(f.Dump) == 0 {
		return nil, nil
	}
	settings := f.config(data)
	settings.Notifier, settings.Store, settings.UserAgent = n, cfg.Journal, cfg.UserAgent
	settings.Logger, settings.Registry = logger, cfg.Registry
	for _, name := range f.Dump {
		set := dump.Set{Name: name}
		if d := watched[name]; d != nil {
			set.Source = fromDirectory{d}
		}
		settings.Sets = append(settings.Sets, set)
	}
	d, err := dump.New(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("--%s", strings.TrimPrefix(err.Error(), "--"))
	}
	return d, nil
}

// fromDirectory is the content of a watched set.
type fromDirectory struct{ d *directory.Directory }

// Open implements dump.Source.
func (s fromDirectory) Open(_ context.Context, e *payload.Entry) (*dump.Content, error) {
	f, err := s.d.OpenResource(e)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &dump.LeftOutError{Reason: dump.Missing, Text: "the directory does not have it"}
	case errors.Is(err, directory.ErrHeld):
		return nil, fmt.Errorf("%w: %w", dump.ErrHeld, err)
	case err != nil:
		return nil, &dump.LeftOutError{Reason: dump.Unreadable, Text: err.Error(), Again: true}
	}
	return &dump.Content{
		ReadCloser: f, Size: f.Size, Type: f.Type, LastMod: f.LastMod, Own: true,
		Check: func() error {
			if err := f.Still(); err != nil {
				return &dump.LeftOutError{Reason: dump.Changing, Text: "it changed while it was read", Again: true}
			}
			return nil
		},
	}, nil
}
