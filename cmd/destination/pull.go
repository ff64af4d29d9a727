package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/store/pebblestore"
)

// pullFlags are those of the commands that read a Source's lists once.
type pullFlags struct {
	sourceFlags `embed:""`
	mirrorFlags `embed:""`
}

// Validate is called when the flags are parsed.
func (f *pullFlags) Validate() error {
	return errors.Join(f.sourceFlags.check(), f.mirrorFlags.check())
}

// Look implements program.Looker, and sends no requests.
func (f *pullFlags) Look(_ context.Context, logger *slog.Logger) error {
	_, err := f.client(logger)
	return errors.Join(err, checkData(f.Data, logger), f.checkConfig())
}

// pull is a command that reads the Source's lists once, and keeps or compares copies.
type pull struct {
	*pullFlags
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
	ctx context.Context, f *pullFlags, readOnly bool, in surroundings,
) (*pull, error) {
	p := &pull{pullFlags: f, surroundings: in, begun: time.Now()}
	var err error
	if p.client, err = f.client(in.logger); err != nil {
		return p, err
	}
	if _, err := os.Stat(storeDir(f.Data)); readOnly && err != nil {
		return p, fmt.Errorf("--data %s: there is no state of a mirror; take a baseline first: %w", f.Data, err)
	}
	if p.store, err = openStore(f.Data, uint64(f.MinFree), in.logger); err != nil {
		return p, err
	}
	if p.set, err = discover(ctx, p.client, f.Source, f.Topic); err != nil {
		return p, fmt.Errorf("--source: %w", err)
	}
	b := pebblestore.Belonging{Names: append(addresses(&p.set), f.Topic)}
	if !readOnly {
		b.Begin = "at once"
	}
	if _, err = claim(ctx, p.store, f.Data, b, nil); err == nil && !readOnly {
		err = p.store.Following().Settle(ctx)
	}
	if err != nil {
		return p, err
	}
	p.mirror, err = f.open(f.Source, p.client, p.store, readOnly, in.logger)
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

// bring runs do, which brings the copies to another state, and shows its progress. Then it retries
// what failed. held says what do did not delete, where it did all else.
func (p *pull) bring(
	ctx context.Context, what string, retries int, do func() error,
) (held, err error) {
	end := showProgress(what, p.mirror, p.surroundings)
	defer end()
	err = do()
	if errors.Is(err, mirror.ErrNotWhole) || errors.Is(err, mirror.ErrTooMany) {
		held, err = fmt.Errorf("%s: %w", what, err), nil
	}
	if err == nil {
		err = p.mirror.Settle(ctx, retries)
	}
	return held, err
}

// advance notes up to where the copies are.
func (p *pull) advance(ctx context.Context, to follow.Position) error {
	if err := p.store.Following().Advance(ctx, to); err != nil {
		return err
	}
	return p.mirror.Begin(ctx)
}

// chosen reports whether what is outside of --base is so by the operator's choice.
func (p *pull) chosen() bool { return len(p.Base) > 0 }

// maxListed is how many resources that failed are named at the end.
const maxListed = 20

// summary reports the outcome of a run, and whether all is well: as text, or as one object.
func (p *pull) summary(ctx context.Context, what string, asJSON bool) error {
	counts, bad, err := p.mirror.Counts(ctx, maxListed)
	if err != nil {
		return err
	}
	for i := range bad {
		p.logger.Error("a resource is not mirrored", "loc", bad[i].Loc,
			"reason", bad[i].Reason, "tries", bad[i].Tries, "next", bad[i].Next)
	}
	if p.chosen() && counts[mirror.Refused] > 0 && len(counts) == 1 {
		p.logger.Warn("nothing that the Source has is below --base", "outside", counts[mirror.Refused])
	}
	done := outcome{Progress: p.mirror.Progress(), Counts: counts, took: time.Since(p.begun)}
	print := done.text
	if asJSON {
		print = done.json
	}
	if err := print(p.stdout, what); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	var all []error
	if p.dump == mirror.DumpOnly && done.Unusable > 0 {
		all = append(all, fmt.Errorf("%d packages could not be used; the log names them. "+
			"--dump auto fetches what they have one by one", done.Unusable))
	}
	if failed := counts[mirror.Failed]; failed > 0 {
		all = append(all, fmt.Errorf("%d resources could not be fetched, or are not what the Source "+
			"tells; they are tried again by the next run", failed))
	}
	if refused := counts[mirror.Refused]; refused > 0 && !p.chosen() {
		all = append(all, fmt.Errorf("%d resources are outside of what is mirrored: "+
			"name where they are by --base", refused))
	}
	if invalid := done.invalid(); invalid > 0 {
		all = append(all, fmt.Errorf("%d resources have a loc that is not a URI that can be asked for; "+
			"only their Source can mend that. destination audit names them", invalid))
	}
	return errors.Join(all...)
}

// stopped adds to the error of a command that was stopped in the middle how to go on.
func stopped(ctx context.Context, what string, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: it was stopped before its end (%w); "+
		"give the same command again, and it goes on with what is there", what, cause)
}

func checkRetries(n int) error {
	if n < 0 {
		return fmt.Errorf("--retries must be 0 or more, not %d", n)
	}
	return nil
}
