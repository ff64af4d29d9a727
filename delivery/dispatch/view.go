package dispatch

import (
	"context"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

// view is the table as package report looks at it.
type view struct{ table *table }

var _ report.Table = (*view)(nil)

func (v *view) Standing(id subscription.ID) (s report.Standing, ok bool) {
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	e, err := v.table.entryOf(id)
	if err != nil {
		return report.Standing{}, false
	}
	return v.standingOf(e), true
}

func (v *view) Each(ctx context.Context, key string, look func(report.Entry), between func() (bool, error)) error {
	seen := &seenEntry{d: v}
	return v.eachOf(ctx, v.topicsOf(key), func(e *entry) {
		seen.e = e
		look(seen)
	}, between)
}

func (v *view) Removed(key string) int {
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	if t := v.table.topics[key]; t != nil {
		return t.removed
	}
	return -1
}

func (v *view) EachTopic(ctx context.Context, look func(report.TopicCount)) error {
	for some := range slices.Chunk(v.topicsOf(""), surveyStretch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.table.mu.Lock()
		for _, t := range some {
			if len(t.entries) > 0 {
				look(t.count())
			}
		}
		v.table.mu.Unlock()
	}
	return nil
}

// Unsaved returns the gaps of a shard that are not saved yet. They never change.
func (v *view) Unsaved(s subscription.Shard) []delivery.Gap {
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	sh := v.table.shards[s]
	if sh == nil {
		return nil
	}
	if len(sh.saving) == 0 {
		return slices.Clip(sh.current(sh.gaps))
	}
	return sh.current(slices.Concat(sh.saving, sh.gaps))
}

// Behind returns the lowest place of those that are behind, by the key of their topic.
func (v *view) Behind() map[string]delivery.Seq {
	var topics []*followed
	v.table.eachTopic(func(t *followed) {
		if t.idle < len(t.entries) {
			topics = append(topics, t)
		}
	})
	lowest := map[string]delivery.Seq{}
	for _, t := range topics {
		v.table.backward(func() int { return len(t.entries) }, func(first, end int) {
			for _, e := range t.entries[first:end] {
				if e.settled >= t.head {
					continue
				}
				if before, some := lowest[t.key]; !some || e.settled < before {
					lowest[t.key] = e.settled
				}
			}
		})
	}
	return lowest
}

// topicsOf returns the topic with a key if it has a subscription here, or all topics for an empty key.
func (v *view) topicsOf(key string) []*followed {
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	if key == "" {
		return slices.Clone(v.table.topicList)
	}
	if t := v.table.topics[key]; t != nil {
		return []*followed{t}
	}
	return nil
}

// eachOf calls f under mu for the entries of topics that are in shards which are read, as backward
// does. Every entry that is there throughout is visited; some come twice where others end. After each
// stretch it calls between, without mu, which reports whether to go on.
func (v *view) eachOf(ctx context.Context, topics []*followed, f func(e *entry), between func() (bool, error)) error {
	end := -1 // of what is still to come of topics[0]; -1: all
	for len(topics) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.table.mu.Lock()
		for budget := surveyStretch; budget > 0 && len(topics) > 0; budget-- {
			entries := topics[0].entries
			if end < 0 || end > len(entries) {
				end = len(entries)
			}
			first := max(0, end-budget)
			for _, e := range entries[first:end] {
				if v.seen(e) {
					f(e)
				}
			}
			budget -= end - first
			if end = first; end == 0 {
				topics, end = topics[1:], -1
			}
		}
		v.table.mu.Unlock()
		if more, err := between(); err != nil || !more {
			return err
		}
	}
	return nil
}

// seen reports whether an entry is in a shard that is read. mu is held.
func (v *view) seen(e *entry) bool {
	sh := v.table.shardOf(e)
	return sh != nil && !sh.loading
}

// seenEntry is an entry as package report looks at it. mu is held.
type seenEntry struct {
	d    *view
	e    *entry
	look report.Look
}

func (s *seenEntry) Standing() report.Standing { return s.d.standingOf(s.e) }

func (s *seenEntry) Look() *report.Look {
	e, l := s.e, &s.look
	l.ID, l.Start, l.Settled, l.Gapped, l.Failing = e.id, e.start, e.settled, e.gapped, e.failures() > 0
	l.Next, l.Last = 0, 0
	if r := e.replay(); r != nil {
		l.Next, l.Last = r.next, r.last
	}
	return l
}

// standingOf is a Standing of an entry. mu is held.
func (v *view) standingOf(e *entry) report.Standing {
	secret, _ := v.table.secrets.of(e)
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

// count returns a topic's counts. mu is held.
func (t *followed) count() report.TopicCount {
	return report.TopicCount{
		Topic: t.key, Subscriptions: len(t.entries), Behind: len(t.entries) - t.idle, Failing: t.failing,
	}
}
