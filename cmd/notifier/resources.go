package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"carillon/notifier"
)

// resourceFlags are those of the Resource Lists.
type resourceFlags struct {
	ResourceList      []string      `placeholder:"NAME" help:"A set whose events start from the beginning, so that they add up to its resources: Resource Lists are made of them. A set that has had events already is refused; import a snapshot of it instead (notifier import). Sets of --watch, and sets with an imported snapshot, have Resource Lists without this. Several by repeating the flag or separated by commas." group:"Resource Lists"`
	ResourceListEvery time.Duration `default:"24h" help:"How often a Resource List is made, 1m to 744h: sooner after as many events as it has resources, and at most half of --keep. The one before stays readable for a day." group:"Resource Lists" range:"1m to 744h"`
}

// check reports the faults of the flags by themselves.
func (f *resourceFlags) check() error {
	if f.ResourceListEvery <= 0 {
		return fmt.Errorf("--resource-list-every must be over 0, not %s", f.ResourceListEvery)
	}
	return nil
}

// into puts them into the settings of a notifier.
func (f *resourceFlags) into(cfg *notifier.Config, data string) {
	cfg.ResourceLists, cfg.ResourceListEvery = f.ResourceList, f.ResourceListEvery
	cfg.ResourceListDir = filepath.Join(data, "resourcelists")
}

// whyRefused gives an error of New in the words of the flags.
func whyRefused(err error) error {
	if errors.Is(err, notifier.ErrNotWhole) {
		return fmt.Errorf("--resource-list: %w", err)
	}
	return err
}
