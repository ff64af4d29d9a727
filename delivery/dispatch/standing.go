package dispatch

import (
	"context"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

// Standing returns how it stands with a subscription; ok is false for one that is not
// in the shards that this process owns and has read.
func (d *Dispatcher) Standing(id subscription.ID) (s report.Standing, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.entryOf(id)
	if err != nil {
		return report.Standing{}, false
	}
	return d.standingOf(e), true
}

// Each calls visit with every subscription of the shards that this process owns and has
// read, of one topic only unless that is empty, until visit returns false. They come in
// no order. One that is there throughout comes; where others end meanwhile, some come
// twice. Nobody waits for visit.
func (d *Dispatcher) Each(ctx context.Context, topic string, visit func(report.Standing) bool) error {
	var seen []report.Standing
	return d.eachOf(ctx, d.topicsOf(topic), func(e *entry) {
		seen = append(seen, d.standingOf(e))
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

// Held returns the shards that this process owns and has read, and those that it is
// reading.
func (d *Dispatcher) Held() (held, loading []delivery.Tenure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sh := range d.shards {
		switch {
		case sh == nil:
		case sh.loading:
			loading = append(loading, sh.tenure)
		default:
			held = append(held, sh.tenure)
		}
	}
	return held, loading
}

// standingOf is a Standing of an entry. mu is held.
func (d *Dispatcher) standingOf(e *entry) report.Standing {
	secret, _ := d.secretOf(e)
	position := e.position()
	if e.hurried() {
		position.NextAttempt = time.Time{}
	}
	return report.Standing{
		Subscription: e.subscription(""), Signed: secret != "",
		State: e.doing(), Position: position, Head: e.topic.head, Gapped: e.gapped,
	}
}

// doing is what the entry does, as an operator looks at it.
func (e *entry) doing() report.State {
	switch {
	case e.state == flying:
		return report.StateInFlight
	case !e.behind():
		return report.StateIdle
	case e.failures() > 0:
		return report.StateFailing
	}
	return report.StateReady
}

// seen tells whether an entry is in a shard that is read. mu is held.
func (d *Dispatcher) seen(e *entry) bool {
	sh := d.shardOf(e)
	return sh != nil && !sh.loading
}

// topicsOf returns the topic with a URL that somebody here subscribes to, or all of
// them where that is empty.
func (d *Dispatcher) topicsOf(url string) []*topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	if url == "" {
		return slices.Clone(d.topicList)
	}
	if t := d.topics[subscription.Key(url)]; t != nil {
		return []*topic{t}
	}
	return nil
}

// eachOf calls f under mu for the entries of topics that are in shards which are read, as
// backward does: none is missed that is there throughout, some come twice where others
// end. After each stretch it calls between, without mu, which tells whether to go on.
func (d *Dispatcher) eachOf(ctx context.Context, topics []*topic, f func(e *entry), between func() (bool, error)) error {
	end := -1 // of what is still to come of topics[0]; -1: all
	for len(topics) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.mu.Lock()
		for budget := surveyStretch; budget > 0 && len(topics) > 0; budget-- {
			entries := topics[0].entries
			if end < 0 || end > len(entries) {
				end = len(entries)
			}
			first := max(0, end-budget)
			for _, e := range entries[first:end] {
				if d.seen(e) {
					f(e)
				}
			}
			budget -= end - first
			if end = first; end == 0 {
				topics, end = topics[1:], -1
			}
		}
		d.mu.Unlock()
		if more, err := between(); err != nil || !more {
			return err
		}
	}
	return nil
}
