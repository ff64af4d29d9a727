package delivery

import "context"

// maxWaitLooks bounds the reads by which a sweep finds the oldest notification that somebody
// waits for: of further topics with such a one it is not known how old that is.
const maxWaitLooks = 1000

// waits notes from when the first notification of a log is that somebody has not got, as far
// as cursors are saved. It is for the operator: what cannot be read is passed over.
func (t *trimmer) waits(ctx context.Context, s *sweep, state TopicState) {
	settled, subscribed := s.lowest[state.Topic]
	if !subscribed || settled >= state.Head || !s.found.waiting.IsZero() && !state.Oldest.Before(s.found.waiting) {
		return // nobody waits, or for nothing older
	}
	accepted := state.Oldest
	if settled >= state.First {
		if s.looks++; s.looks > maxWaitLooks {
			return
		}
		first, err := t.records.Summary(ctx, state.Topic, settled+1)
		if err != nil {
			return
		}
		accepted = first.Accepted
	}
	if s.found.waiting.IsZero() || accepted.Before(s.found.waiting) {
		s.found.waiting = accepted
	}
}
