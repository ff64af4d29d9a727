package report

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/subscription"

	"golang.org/x/sync/errgroup"
)

const (
	// MaxGaps is how many gaps of a subscription are looked at, the latest.
	MaxGaps = 1000
	// engineTimeout is the deadline of a call to an engine.
	engineTimeout = 30 * time.Second
	// gapReaders is how many subscriptions' gaps are read at a time.
	gapReaders = 16
)

// Gaps reads the gaps of a subscription, the latest.
func Gaps(ctx context.Context, cursors delivery.Cursors, id subscription.ID) ([]delivery.Gap, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	gaps, err := cursors.Gaps(ctx, id, MaxGaps)
	if err != nil {
		return nil, fmt.Errorf("reading the gaps of subscription %s: %w", id, err)
	}
	return gaps, nil
}

// readGaps calls do with each of looks and its gaps, also those that are not saved yet; one
// call at a time.
func (r *Reports) readGaps(ctx context.Context, looks []Look, do func(l *Look, gaps []delivery.Gap)) error {
	if len(looks) == 0 {
		return nil
	}
	unsaved := r.unsavedGaps(looks) // before the saved ones, so that all are found
	type answer struct {
		look *Look
		gaps []delivery.Gap
	}
	answers := make(chan answer, gapReaders)
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(gapReaders)
	ended := make(chan error, 1)
	go func() {
		for i := range looks {
			l := &looks[i]
			readers.Go(func() error {
				gaps, err := Gaps(ctx, r.cursors, l.ID)
				if err == nil {
					answers <- answer{l, gaps}
				}
				return err
			})
			if ctx.Err() != nil {
				break
			}
		}
		ended <- readers.Wait()
		close(answers)
	}()
	for a := range answers {
		do(a.look, overlaid(a.gaps, unsaved[a.look.ID]))
	}
	return <-ended
}

// unsavedGaps returns the gaps of some subscriptions that are not saved yet, in the order
// in which they were noted.
func (r *Reports) unsavedGaps(looks []Look) map[subscription.ID][]delivery.Gap {
	wanted := make(map[subscription.ID][]delivery.Gap, len(looks))
	for i := range looks {
		wanted[looks[i].ID] = nil
	}
	for s := range subscription.Shard(subscription.Shards) {
		for _, g := range r.table.Unsaved(s) {
			if gaps, found := wanted[g.Subscription]; found {
				wanted[g.Subscription] = append(gaps, g)
			}
		}
	}
	return wanted
}

// overlaid returns gaps as they will be when the later ones are saved too: one takes the
// place of one with the same First.
func overlaid(gaps, later []delivery.Gap) []delivery.Gap {
	for _, g := range later {
		if i := slices.IndexFunc(gaps, func(old delivery.Gap) bool { return old.First == g.First }); i >= 0 {
			gaps[i] = g
		} else {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
