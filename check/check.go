package check

import (
	"context"
	"errors"
)

// Run looks at places and at everything that the standards connect with them, and calls found
// for each finding, from the goroutine that called Run. A place is the address of a site, of a
// document, of a package or of a topic, or, with Config.Files, the name of a file.
//
// The error says which places could not be looked at at all, or that ctx has ended; the Summary
// holds what was looked at also beside an error. Findings are no error.
func Run(ctx context.Context, cfg Config, places []string, found func(Finding)) (Summary, error) {
	if err := cfg.Validate(); err != nil {
		return Summary{}, err
	}
	w := newWalk(cfg.withDefaults(), found)
	limited, cancel := context.WithTimeoutCause(ctx, w.cfg.Limits.Time, errTime)
	defer cancel()
	failed := w.walkFrom(limited, places)
	w.conclude(limited, places)
	w.samples.compareAll(limited)
	w.judgeClosed(limited)
	if err := ctx.Err(); err != nil {
		failed = append(failed, err)
	}
	return w.sum, errors.Join(failed...)
}
