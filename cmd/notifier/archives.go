package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"carillon/notifier"
)

// archiveFlags are those of the archives.
type archiveFlags struct {
	Archive      []string      `placeholder:"NAME" help:"A set to archive: each Change List as it is closed, and now and then a Resource List, stay at lasting addresses; of a set of --dump the dumps too. Several by repeating the flag or separated by commas." group:"Archives"`
	ArchiveEvery time.Duration `default:"720h" help:"How often a Resource List, or a Resource Dump, is archived, 1m to 87600h." group:"Archives" range:"1m to 87600h"`
	ArchiveFor   time.Duration `default:"87600h" help:"How long archived documents are kept; at least --keep and --archive-every." group:"Archives" range:"more than 0"`
}

// check reports the faults of the flags by themselves.
func (f *archiveFlags) check() error {
	var all []error
	if f.ArchiveEvery <= 0 {
		all = append(all, fmt.Errorf("--archive-every must be over 0, not %s", f.ArchiveEvery))
	}
	if f.ArchiveFor <= 0 {
		all = append(all, fmt.Errorf("--archive-for must be over 0, not %s", f.ArchiveFor))
	}
	return errors.Join(all...)
}

// into puts them into the settings of a notifier.
func (f *archiveFlags) into(cfg *notifier.Config, data string) {
	cfg.Archives, cfg.ArchiveEvery, cfg.ArchiveFor = f.Archive, f.ArchiveEvery, f.ArchiveFor
	cfg.ArchiveDir = filepath.Join(data, "archives")
}
