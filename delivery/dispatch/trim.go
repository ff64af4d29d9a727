package dispatch

import (
	"context"

	"carillon/delivery"
	"carillon/internal/await"
	"carillon/subscription"
)

// trimLoop trims the logs now and then, until ctx ends. A Save that is under way
// then goes on while saves stands.
func (d *Dispatcher) trimLoop(ctx, saves context.Context) {
	for await.For(ctx, d.cfg.TrimInterval) == nil {
		d.forgetTopics()
		d.lookAtOldest(ctx)
		d.trimmer.Round(ctx, saves)
	}
}

// lookAtOldest has the metric tell how it stands now.
func (d *Dispatcher) lookAtOldest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	d.OldestWaiting(ctx)
}

// Trimmed takes note that everything of a topic before a number has gone from its log by the
// operator's will: what of it is in memory is given to nobody any more, but by the attempts
// that are under way. Who had not got it has a gap, once it is its turn.
func (d *Dispatcher) Trimmed(topicURL string, before delivery.Seq) {
	key := subscription.Key(topicURL)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, topics := range []map[string]*topic{d.topics, d.left[0], d.left[1]} {
		t := topics[key]
		if t == nil {
			continue
		}
		t.floor = max(t.floor, before)
		for len(t.notes) > 0 && t.notes[0].n.Seq < t.floor {
			first := t.notes[0]
			d.cache.unlist(first)
			t.drop(first)
		}
	}
}
