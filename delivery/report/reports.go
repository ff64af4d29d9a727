package report

import (
	"cmp"
	"context"
	"slices"

	"carillon/delivery"
	"carillon/subscription"
)

// Table is the subscriptions in the shards that a process owns and has read. Its mutex is held while a
// function that it calls runs, and never while between runs: no caller waits for that.
type Table interface {
	// Standing returns how it stands with a subscription, if that is there.
	Standing(id subscription.ID) (s Standing, ok bool)
	// Each calls look for the subscriptions to the topic with a key, all of them where that is
	// empty, in no order. It misses none that is there throughout, and calls some twice where
	// others end. After each stretch it calls between, which reports whether to go on.
	Each(ctx context.Context, key string, look func(e Entry), between func() (more bool, err error)) error
	// Removed changes whenever a subscription to a topic ends; -1 for an unknown topic.
	Removed(key string) int
	// Unsaved returns the gaps of a shard that are not saved yet, in the order in which
	// they were noted.
	Unsaved(s subscription.Shard) []delivery.Gap
	// EachTopic calls look for every topic with subscriptions.
	EachTopic(ctx context.Context, look func(c TopicCount)) error
	// Behind returns the lowest cursor of those that have something to get, by their topic's key.
	Behind() map[string]delivery.Seq
}

// Entry is a subscription in a Table. It is good until the function that got it returns.
type Entry interface {
	Look() *Look
	Standing() Standing
}

// Reports answers operators. All methods may be called from any goroutine.
type Reports struct {
	table     Table
	records   delivery.Log
	cursors   delivery.Cursors
	history   *History
	published *Published
	waiting   waiting // has its own mutex
}

// New returns the Reports of a table, of what was attempted and of what was published.
func New(table Table, records delivery.Log, cursors delivery.Cursors, history *History, published *Published) *Reports {
	return &Reports{table: table, records: records, cursors: cursors, history: history, published: published}
}

// Standing returns how it stands with a subscription; ok is false for one that is not
// in the shards that this process owns and has read.
func (r *Reports) Standing(id subscription.ID) (s Standing, ok bool) { return r.table.Standing(id) }

// Each calls visit with every subscription of the shards that this process owns and has read, until
// visit returns false. With a key it visits those of that topic only. They come in no order. One that
// is there throughout comes; where others end meanwhile, some come twice. Deliveries do not wait for
// visit.
func (r *Reports) Each(ctx context.Context, key string, visit func(Standing) bool) error {
	var seen []Standing
	return r.table.Each(ctx, key, func(e Entry) {
		seen = append(seen, e.Standing())
	}, func() (bool, error) {
		for i := range seen {
			if !visit(seen[i]) {
				return false, nil
			}
		}
		clear(seen)
		seen = seen[:0]
		return true, nil
	})
}

// Attempts returns the latest attempts for a subscription (History.Of).
func (r *Reports) Attempts(id subscription.ID) []Attempt { return r.history.Of(id) }

// TopicCounts returns the counts of every topic with a subscription here, or with a continuity break,
// in the order of their keys.
func (r *Reports) TopicCounts(ctx context.Context) ([]TopicCount, error) {
	var all []TopicCount
	breaks := r.published.all()
	err := r.table.EachTopic(ctx, func(c TopicCount) {
		c.Breaks = breaks[c.Topic]
		all = append(all, c)
		delete(breaks, c.Topic)
	})
	if err != nil {
		return nil, err
	}
	for key, n := range breaks {
		all = append(all, TopicCount{Topic: key, Breaks: n})
	}
	slices.SortFunc(all, func(a, b TopicCount) int { return cmp.Compare(a.Topic, b.Topic) })
	return all, nil
}

// Count fills in what was attempted and published.
func (r *Reports) Count(t *Totals) {
	r.history.count(t)
	t.Published = r.published.accepted.Load()
}

// Tally counts the outcome of some notifications of a topic, for the subscriptions of
// the shards that this process owns and has read: one walk for all of them. The tallies
// are in the order of seqs. It reads the gaps of each subscription that has any which
// were not replayed.
func (r *Reports) Tally(ctx context.Context, key string, seqs []delivery.Seq) ([]Tally, error) {
	c := counting{seqs: slices.Compact(slices.Sorted(slices.Values(seqs)))}
	c.tallies = make([]Tally, len(c.seqs))
	var gapped []Look
	err := r.eachOnce(ctx, key, func() {
		clear(c.tallies)
		gapped = gapped[:0]
	}, func(e Entry) {
		if l := e.Look(); c.count(l) {
			gapped = append(gapped, *l)
		}
	})
	if err != nil {
		return nil, err
	}
	c.sum()
	err = r.readGaps(ctx, gapped, func(l *Look, gaps []delivery.Gap) { c.countGapped(l, gaps) })
	if err != nil {
		return nil, err
	}
	all := make([]Tally, len(seqs))
	for i, seq := range seqs {
		at, _ := slices.BinarySearch(c.seqs, seq)
		all[i] = c.tallies[at]
		all[i].Seq = seq
	}
	return all, nil
}

// Undelivered calls visit with every subscription of the shards that this process owns and
// has read that began before a notification and has not got it, and with the outcome of
// it, until visit returns false. They come in no order, each once.
func (r *Reports) Undelivered(
	ctx context.Context, key string, seq delivery.Seq, visit func(Standing, Fate) bool,
) error {
	var looks []Look
	var stands []Standing
	visited := map[subscription.ID]bool{}
	return r.table.Each(ctx, key, func(e Entry) {
		if l := e.Look(); l.Start < seq && (l.Settled < seq || l.Gapped) && !visited[l.ID] {
			looks, stands = append(looks, *l), append(stands, e.Standing())
		}
	}, func() (bool, error) {
		fates := make([]Fate, len(looks))
		byID := make(map[subscription.ID]int, len(looks))
		var gapped []Look
		for i := range looks {
			byID[looks[i].ID] = i
			if fates[i] = looks[i].fate(seq, nil); seq <= looks[i].Settled {
				gapped = append(gapped, looks[i])
			}
		}
		err := r.readGaps(ctx, gapped, func(l *Look, gaps []delivery.Gap) { fates[byID[l.ID]] = l.fate(seq, gaps) })
		if err != nil {
			return false, err
		}
		for i := range looks {
			if fates[i] == FateDelivered || visited[looks[i].ID] {
				continue
			}
			visited[looks[i].ID] = true
			if !visit(stands[i], fates[i]) {
				return false, nil
			}
		}
		looks, stands = looks[:0], stands[:0]
		return true, nil
	})
}

// eachOnce calls f, once for each subscription to a topic that is there throughout. It
// calls begin first, and where entries have moved meanwhile begins anew, once.
func (r *Reports) eachOnce(ctx context.Context, key string, begin func(), f func(e Entry)) error {
	before := r.table.Removed(key)
	if key == "" || before < 0 {
		return ctx.Err()
	}
	onward := func() (bool, error) { return true, nil }
	begin()
	err := r.table.Each(ctx, key, f, onward)
	if err != nil || r.table.Removed(key) == before {
		return err
	}
	begin()
	seen := map[subscription.ID]bool{}
	return r.table.Each(ctx, key, func(e Entry) {
		if id := e.Look().ID; !seen[id] {
			seen[id] = true
			f(e)
		}
	}, onward)
}
