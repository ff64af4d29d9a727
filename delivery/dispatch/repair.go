package dispatch

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// entryOf returns an entry of a shard that is read. mu is held.
func (d *Dispatcher) entryOf(id subscription.ID) (*entry, error) {
	sh := d.shards[subscription.ShardOf(id)]
	switch {
	case sh == nil:
		return nil, delivery.ErrNotHeld
	case sh.loading:
		return nil, fmt.Errorf("%w: its shard is still being read", delivery.ErrUnavailable)
	}
	if e := sh.entries.get(id); e != nil {
		return e, nil
	}
	return nil, delivery.ErrNoSubscription
}

// repairable returns an entry that an operator may have delivered to. mu is held.
func (d *Dispatcher) repairable(id subscription.ID) (*entry, error) {
	e, err := d.entryOf(id)
	switch {
	case err != nil:
		return nil, err
	case d.shardOf(e).leaving:
		return nil, delivery.ErrNotHeld
	case d.shardOf(e).away:
		return nil, fmt.Errorf("%w: it is the one that keeps the position of the subscription", delivery.ErrPartAway)
	case !d.sure.Of(subscription.ShardOf(id), time.Now()):
		return nil, fmt.Errorf("%w by now, or may do so", delivery.ErrNotHeld)
	case e.expires <= d.now():
		return nil, fmt.Errorf("%w: its lease is over", delivery.ErrNothingToDo)
	}
	return e, nil
}

// RetryNow has the next attempt of a subscription made now, before others of its host,
// though it would back off for longer. Where that attempt fails, too, the next one is made when
// it would have been, and the failures in a row are as many as before, so that no attempt by hand
// makes a pause longer; only what the callback asks for (Retry-After) does. Where its
// host is allowed too few attempts at a time it is allowed one more, within
// Config.MaxPerHost. While the engine is away, and no attempt starts (Stats.Paused), it
// waits for that to end.
func (d *Dispatcher) RetryNow(_ context.Context, id subscription.ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.repairable(id)
	switch {
	case err != nil:
		return err
	case e.state == flying, d.abroad[id] > 0:
		return fmt.Errorf("%w: an attempt has begun and has not ended", delivery.ErrUnderWay)
	case !e.behind():
		return fmt.Errorf("%w: it has got everything", delivery.ErrNothingToDo)
	case e.state == waiting:
		d.hurry(e)
	case e.state == ready:
		d.widen(e.host, e.lane()) // it has its turn
	default:
		return fmt.Errorf("%w: the head of its topic's log is still to be read", delivery.ErrUnavailable)
	}
	d.kick()
	return nil
}

// hurry has a waiting entry be the next one of its host. mu is held.
func (d *Dispatcher) hurry(e *entry) {
	d.unwait(e)
	if e.failures() > 0 && e.rare.due > 0 {
		e.rare.due = -e.rare.due
	}
	d.setState(e, ready)
	e.host.queue[fresh].unshift(e) // other retries have lost nothing by it
	d.widen(e.host, fresh)
}

// unwait takes an entry out of the heap. mu is held.
func (d *Dispatcher) unwait(e *entry) {
	for i := range d.due {
		if d.due[i].e == e {
			heap.Remove(&d.due, i)
			return
		}
	}
}

// widen allows a host one more attempt at a time if that is what keeps those of a lane
// from starting. mu is held.
func (d *Dispatcher) widen(h *host, l lane) {
	for limit := int32(d.cfg.MaxPerHost); !h.room(l) && h.limit < limit; {
		h.limit++
	}
	d.enter(h, l)
}

// unshift puts an entry before all others.
func (q *queue) unshift(e *entry) {
	e.next = q.head
	if q.head = e; q.tail == nil {
		q.tail = e
	}
}
