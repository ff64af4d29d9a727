package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

const (
	// maxGaps is how many gaps of a subscription are looked at, the latest.
	maxGaps = 1000
	// gapReaders is how many subscriptions' gaps are read at a time.
	gapReaders = 16
)

// Tally counts what became of some notifications of a topic, for the subscriptions of
// the shards that this process owns and has read: one walk for all of them. The tallies
// are in the order of seqs. It reads the gaps of each subscription that has any which
// were not replayed.
func (d *Dispatcher) Tally(ctx context.Context, topic string, seqs []delivery.Seq) ([]report.Tally, error) {
	c := counting{seqs: slices.Compact(slices.Sorted(slices.Values(seqs)))}
	c.tallies = make([]report.Tally, len(c.seqs))
	var gapped []look
	err := d.eachOnce(ctx, topic, func() {
		clear(c.tallies)
		gapped = gapped[:0]
	}, func(e *entry) {
		if l := lookAt(e); c.count(&l) {
			gapped = append(gapped, l)
		}
	})
	if err != nil {
		return nil, err
	}
	c.sum()
	err = d.readGaps(ctx, gapped, func(l *look, gaps []delivery.Gap) { c.countGapped(l, gaps) })
	if err != nil {
		return nil, err
	}
	all := make([]report.Tally, len(seqs))
	for i, seq := range seqs {
		at, _ := slices.BinarySearch(c.seqs, seq)
		all[i] = c.tallies[at]
		all[i].Seq = seq
	}
	return all, nil
}

// look is what is seen of an entry to tell what became of notifications.
type look struct {
	id             subscription.ID
	start, settled delivery.Seq
	next, last     delivery.Seq // of its replay, 0: none
	gapped         bool
	failing        bool
}

// lookAt looks at an entry. mu is held.
func lookAt(e *entry) look {
	l := look{id: e.id, start: e.start, settled: e.settled, gapped: e.gapped, failing: e.failures() > 0}
	if r := e.replay(); r != nil {
		l.next, l.last = r.next, r.last
	}
	return l
}

// fate tells what became of a notification after the start, given the gaps.
func (l *look) fate(seq delivery.Seq, gaps []delivery.Gap) report.Fate {
	if seq <= l.settled {
		i := slices.IndexFunc(gaps, func(g delivery.Gap) bool { return g.Replayed.IsZero() && g.First <= seq && seq <= g.Last })
		switch {
		case i < 0:
			return report.FateDelivered
		case l.next <= seq && seq <= l.last:
			// A replay comes to it.
		case seq < l.next && l.next <= gaps[i].Last:
			return report.FateDelivered // a replay is in the midst of the gap, and past this
		case gaps[i].Reason == delivery.GapTrimmed:
			return report.FateTrimmed
		default:
			return report.FateGivenUp
		}
	}
	if l.failing {
		return report.FateFailing
	}
	return report.FatePending
}

// counting is a walk that counts: while it goes on, tallies hold by how much more there
// is of each than of the one before.
type counting struct {
	seqs    []delivery.Seq // in order, each once
	tallies []report.Tally
}

// count counts a subscription, unless it may have a gap among what it has settled of seqs.
func (c *counting) count(l *look) (gapped bool) {
	first := sort.Search(len(c.seqs), func(i int) bool { return c.seqs[i] > l.start })
	ahead := first + sort.Search(len(c.seqs)-first, func(i int) bool { return c.seqs[first+i] > l.settled })
	if gapped = l.gapped && first < ahead; !gapped && first < len(c.seqs) {
		c.tallies[first].Delivered++
		if ahead < len(c.seqs) {
			c.tallies[ahead].Delivered--
		}
	}
	if ahead < len(c.seqs) {
		c.tallies[ahead].Pending++
		if l.failing {
			c.tallies[ahead].Failing++
		}
	}
	return gapped
}

// sum ends the walk.
func (c *counting) sum() {
	for i := range c.tallies {
		t := &c.tallies[i]
		if i > 0 {
			before := &c.tallies[i-1]
			t.Delivered += before.Delivered
			t.Pending += before.Pending
			t.Failing += before.Failing
		}
		t.Subscribers = t.Delivered + t.Pending
	}
}

// countGapped counts what a subscription with gaps has settled.
func (c *counting) countGapped(l *look, gaps []delivery.Gap) {
	for i, seq := range c.seqs {
		if seq <= l.start || seq > l.settled {
			continue
		}
		t := &c.tallies[i]
		t.Subscribers++
		switch l.fate(seq, gaps) {
		case report.FateDelivered:
			t.Delivered++
		case report.FateGivenUp:
			t.GivenUp++
		case report.FateTrimmed:
			t.Trimmed++
		case report.FateFailing:
			t.Failing++
			t.Pending++
		case report.FatePending:
			t.Pending++
		}
	}
}

// Undelivered calls visit with every subscription of the shards that this process owns and
// has read that began before a notification and has not got it, and with what became of
// it, until visit returns false. They come in no order, each once.
func (d *Dispatcher) Undelivered(ctx context.Context, topic string, seq delivery.Seq, visit func(report.Standing, report.Fate) bool) error {
	var looks []look
	var stands []report.Standing
	visited := map[subscription.ID]bool{}
	return d.eachOf(ctx, d.topicsOf(topic), func(e *entry) {
		if e.start < seq && (e.settled < seq || e.gapped) && !visited[e.id] {
			looks, stands = append(looks, lookAt(e)), append(stands, d.standingOf(e))
		}
	}, func() (bool, error) {
		fates := make([]report.Fate, len(looks))
		byID := make(map[subscription.ID]int, len(looks))
		var gapped []look
		for i := range looks {
			byID[looks[i].id] = i
			if fates[i] = looks[i].fate(seq, nil); seq <= looks[i].settled {
				gapped = append(gapped, looks[i])
			}
		}
		err := d.readGaps(ctx, gapped, func(l *look, gaps []delivery.Gap) { fates[byID[l.id]] = l.fate(seq, gaps) })
		if err != nil {
			return false, err
		}
		for i := range looks {
			if fates[i] == report.FateDelivered || visited[looks[i].id] {
				continue
			}
			visited[looks[i].id] = true
			if !visit(stands[i], fates[i]) {
				return false, nil
			}
		}
		looks, stands = looks[:0], stands[:0]
		return true, nil
	})
}

// eachOnce calls f under mu, once for each entry of a topic that is there throughout. It
// calls begin first, and where entries have moved meanwhile begins anew, once.
func (d *Dispatcher) eachOnce(ctx context.Context, topic string, begin func(), f func(e *entry)) error {
	topics := d.topicsOf(topic)
	if topic == "" || len(topics) == 0 {
		return ctx.Err()
	}
	onward := func() (bool, error) { return true, nil }
	removed := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return topics[0].removed
	}
	before := removed()
	begin()
	if err := d.eachOf(ctx, topics, f, onward); err != nil || removed() == before {
		return err
	}
	begin()
	seen := map[subscription.ID]bool{}
	return d.eachOf(ctx, topics, func(e *entry) {
		if !seen[e.id] {
			seen[e.id] = true
			f(e)
		}
	}, onward)
}

// readGaps calls do with each of looks and its gaps, also those that are not saved yet; one
// call at a time.
func (d *Dispatcher) readGaps(ctx context.Context, looks []look, do func(l *look, gaps []delivery.Gap)) error {
	if len(looks) == 0 {
		return nil
	}
	unsaved := d.unsavedGaps(looks) // before those that are saved, so that none is missed
	type answer struct {
		look *look
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
				gaps, err := d.gapsOf(ctx, l.id)
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
		do(a.look, overlaid(a.gaps, unsaved[a.look.id]))
	}
	return <-ended
}

// gapsOf reads the gaps of a subscription.
func (d *Dispatcher) gapsOf(ctx context.Context, id subscription.ID) ([]delivery.Gap, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	gaps, err := d.cursors.Gaps(ctx, id, maxGaps)
	if err != nil {
		return nil, fmt.Errorf("reading the gaps of subscription %s: %w", id, err)
	}
	return gaps, nil
}

// unsavedGaps returns the gaps of some subscriptions that are not saved yet, in the order
// in which they were noted.
func (d *Dispatcher) unsavedGaps(looks []look) map[subscription.ID][]delivery.Gap {
	wanted := make(map[subscription.ID][]delivery.Gap, len(looks))
	for i := range looks {
		wanted[looks[i].id] = nil
	}
	for s := range d.shards {
		for _, g := range d.unsavedOf(subscription.Shard(s)) {
			if gaps, found := wanted[g.Subscription]; found {
				wanted[g.Subscription] = append(gaps, g)
			}
		}
	}
	return wanted
}

// unsavedOf returns the gaps of a shard that are not saved yet. Nobody changes them.
func (d *Dispatcher) unsavedOf(s subscription.Shard) []delivery.Gap {
	d.mu.Lock()
	defer d.mu.Unlock()
	sh := d.shards[s]
	if sh == nil {
		return nil
	}
	if len(sh.saving) == 0 {
		return slices.Clip(sh.current(sh.gaps))
	}
	return sh.current(slices.Concat(sh.saving, sh.gaps))
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
