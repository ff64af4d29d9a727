package dispatch

import "carillon/delivery"

// followed is a topic with a subscription here.
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
	fell    delivery.Seq // the head at the latest reported loss
	// before is the head before the latest rise that can have hidden a loss, until a reader has read past
	// it; 0 if no rise can have.
	before delivery.Seq
	// A walk wakes the entries: those before index walk are still to come.
	walking, again bool
	walk           int
	next           *followed // in schedule.walks

	notes   []*note      // those in memory, by their numbers
	resting int64        // until then nothing is read: what keeps the log was away
	rests   int          // pauses of that kind in a row
	floor   delivery.Seq // an operator has trimmed what is below: none of notes is
	refused []refusal    // known refusals of awaited notifications, by their numbers
	parked  int          // how many of entries wait for room, ended ones included
}

// A log can lose its end: a server comes back without the last of its acknowledged records, and goes
// on from a number above all that it ever gave. Lost notifications that were not delivered are a gap
// (GapTrimmed) of every subscription that was behind them. New notifications may hide the loss from
// readers that look only at the head; the gap is recorded all the same. table.mu guards everything in
// this file.
//
//	log before      1 2 3 4 5
//	lost            1 2 3 · ·
//	afterwards      1 2 3 · · ······ 900 (After: 3)
//
// topic.head then stays at 5 until the process learns of 900. A subscription at 3 finds the end of the
// log, or 900; and 5, which was there, is not the number before 900.
//
// Only the latest earlier head is remembered. So some losses leave no record: the log rose by more
// than one number a second time before a reader here had passed the first rise. A second loss does
// that, or late news of appends. Losses that no process knew of leave no record either, as no memory
// holds them. Deliveries are the same in any case.

// rise records that the topic's log has come up to head. mu is held.
func (t *followed) rise(head delivery.Seq) {
	if t.head > 0 && head > t.head+1 {
		// Other notifications were appended in between, or there was a loss: the reader of the next one learns
		// which by its After.
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
