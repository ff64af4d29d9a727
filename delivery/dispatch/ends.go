package dispatch

import "carillon/delivery"

// A log can lose its end: a server comes back without the last of what it had
// acknowledged, and goes on from a number above all that it ever gave. What is
// lost and not delivered yet is a gap (GapTrimmed) of every subscription that was
// behind it, also where new notifications have hidden the loss from those who
// only look at the head. What is in this file is guarded by Dispatcher.mu.
//
//	log before      1 2 3 4 5
//	lost            1 2 3 · ·
//	afterwards      1 2 3 · · ······ 900 (After: 3)
//
// topic.head stays at 5 then, until 900 is told of. Whoever stands at 3 finds
// the end of the log, or 900 and that 5, which was there, is not what comes
// before it.
//
// Only one head of before is remembered, the latest. So of a loss nothing is
// recorded where the log came up by more than one number once more before anybody
// here had read past it: by a second loss, or as the news of what was appended came
// late. Nor is it where no process has known of the lost ones: they are in nobody's
// memory. Deliveries are the same in any case.

// rise takes note that a topic's log has come up to head. mu is held.
func (d *Dispatcher) rise(t *topic, head delivery.Seq) {
	if t.head > 0 && head > t.head+1 {
		// Others were appended in between, or none and there was a loss: whoever
		// reads the next one knows by its After.
		t.before = t.head
	}
	t.head = head
}

// lost returns up to where the log has lost what it had, given a notification and
// what stands before it; 0 if it has lost nothing there. Its fields never change.
func (f *flight) lost(after, seq delivery.Seq) (last delivery.Seq) {
	for _, head := range []delivery.Seq{f.head, f.before} {
		if after < head && head < seq {
			return head
		}
	}
	return 0
}

// testify clears up what a read has shown of a topic's log. mu is held.
func (d *Dispatcher) testify(t *topic, r *result) {
	if r.lost > 0 {
		d.fell(t, r.after, r.lost)
	}
	if t.before == r.after {
		t.before = 0
	}
}

// fell tells the operator that a log has lost its end, once for each time. mu is held.
func (d *Dispatcher) fell(t *topic, left, head delivery.Seq) {
	if head <= t.fell {
		return
	}
	t.fell = head
	d.metrics.losses.Inc()
	d.log.Error("the end of a log is lost: the engine no longer has what it had acknowledged; "+
		"what was not delivered before is recorded as gaps", "topic", t.key, "head", head, "left", left)
}

// leaveTopic remembers a topic that nobody here subscribes to any more as a shard was
// dropped: it often comes back with a shard, above all where the engine was
// restarted, and what is known of its log tells whether that has lost something.
// mu is held.
func (d *Dispatcher) leaveTopic(t *topic) {
	if d.left[0] == nil {
		d.left[0] = map[string]*topic{}
	}
	d.left[0][t.key] = t
}

// returnTopic takes back what is remembered of a topic, nil if nothing is. Its head
// is to be read anew. mu is held.
func (d *Dispatcher) returnTopic(key string) *topic {
	for _, left := range d.left {
		if t := left[key]; t != nil {
			delete(left, key)
			t.known, t.resting, t.rests = false, 0, 0
			return t
		}
	}
	return nil
}

// forgetTopics forgets topics that did not come back for a TrimInterval or two.
func (d *Dispatcher) forgetTopics() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left[1], d.left[0] = d.left[0], nil
}
