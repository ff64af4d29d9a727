package operator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"carillon/check"
)

// Bounds of checks.
const (
	// MaxChecks is how many run at a time in a process. It stops operators' pages that are left
	// open from sending more requests than one person means to.
	MaxChecks = 4
	// checkWithin bounds one check.
	checkWithin = 10 * time.Minute
)

// Checked is one event of a check: a finding, or the summary, which comes last.
type Checked struct {
	Finding *check.Finding
	Summary *check.Summary
}

// Check looks at what a Source serves, from these URLs on, and yields each finding, and at
// last the summary. It ends early when ctx does or the loop does. The error is ErrInvalid,
// ErrUnavailable where MaxChecks run, or ErrConflict where a URL cannot be looked at or no
// hub runs in this process.
func (d *hubService) Check(ctx context.Context, places []string) iter.Seq2[Checked, error] {
	return func(yield func(Checked, error) bool) {
		if err := d.mayCheck(places); err != nil {
			yield(Checked{}, err)
			return
		}
		select {
		case d.checks <- struct{}{}:
			defer func() { <-d.checks }()
		default:
			yield(Checked{}, fmt.Errorf("%w: %d checks are running already; wait until one has ended",
				ErrUnavailable, MaxChecks))
			return
		}
		ctx, cancel := context.WithTimeout(ctx, checkWithin)
		defer cancel()
		on := true
		summary, err := d.cfg.Check(ctx, places, func(f check.Finding) {
			if on = on && yield(Checked{Finding: &f}, nil); !on {
				cancel()
			}
		})
		if !on || errors.Is(err, context.Canceled) {
			return // the reader is gone
		}
		if err == nil || yield(Checked{}, fmt.Errorf("%w: %w", ErrConflict, err)) {
			yield(Checked{Summary: &summary}, nil)
		}
	}
}

func (d *hubService) mayCheck(places []string) error {
	switch {
	case len(places) == 0:
		return fmt.Errorf("%w: there is no URL to check", ErrInvalid)
	case d.cfg.Check == nil:
		return fmt.Errorf("%w: only a running hub can check a Source", ErrConflict)
	}
	return nil
}
