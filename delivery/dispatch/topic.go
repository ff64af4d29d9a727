package dispatch

import "carillon/delivery"

// followed is a topic that somebody here subscribes to.
type followed struct {
	key     string
	at      int // index in table.topicList
	entries []*entry
	idle    int          // how many of them are idle: only those need to be woken
	failing int          // of how many the last attempt failed
	removed int          // rises with each entry that leaves; a topic that is made anew begins higher
	head    delivery.Seq // the highest number that is known to have been durable
	known   bool
	asking  bool         // in asks; guarded by asks.mu
	asked   delivery.Seq // head when it was last asked for
	fell    delivery.Seq // the head at the latest loss that was told of
	// before is the head of before the latest rise that can have hidden a loss,
	// until somebody has read what comes after it; 0: none.
	before delivery.Seq
	// A walk wakes the entries: those before index walk are still to come.
	walking, again bool
	walk           int
	next           *followed // in schedule.walks

	notes   []*note      // those in memory, by their numbers
	resting int64        // until then nothing is read: what keeps the log was away
	rests   int          // pauses of that kind in a row
	floor   delivery.Seq // an operator has trimmed what is below: none of notes is
	refused []refusal    // what is known of those that are waited for, by their numbers
	parked  int          // how many of entries wait for room, ended ones included
}

// A log can lose its end: a server comes back without the last of what it had
// acknowledged, and goes on from a number above all that it ever gave. What is
// lost and not delivered yet is a gap (GapTrimmed) of every subscription that was
// behind it, also where new notifications have hidden the loss from those who
// only look at the head. What is in this file is guarded by table.mu.
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

// rise takes note that the topic's log has come up to head. mu is held.
func (t *followed) rise(head delivery.Seq) {
	if t.head > 0 && head > t.head+1 {
		// Others were appended in between, or none and there was a loss: whoever
		// reads the next one knows by its After.
		t.before = t.head
	}
	t.head = head
}

// walks are the topics whose entries are to be woken.
type walks struct{ head, tail *followed }

// wake has the idle entries of a topic looked at: O(1), whatever their number. The
// others look at the head by themselves when their turn is over: so where deliveries
// do not keep up, what is published costs no walk.
func (w *walks) wake(t *followed) {
	if t.idle == 0 {
		return
	}
	if t.walking {
		t.again = true // those that were passed already come in a second walk
		return
	}
	t.walking, t.walk, t.next = true, len(t.entries), nil
	if w.tail == nil {
		w.head = t
	} else {
		w.tail.next = t
	}
	w.tail = t
}
