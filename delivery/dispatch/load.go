package dispatch

import (
	"context"
	"errors"
	"fmt"

	"carillon/delivery"
	"carillon/subscription"
)

// Members of a shard are read beside those that were read being taken in.
const (
	memberChunk  = 256 // taken in under one hold of the mutex
	memberChunks = 8   // read ahead
)

// Gained takes over a shard: its members are read in one scan, and then their
// deliveries begin. It takes the place of what was gained before under another
// epoch. It is an error if the members could not be read, or ctx ended; the shard
// is not taken then.
func (d *Dispatcher) Gained(ctx context.Context, t delivery.Tenure) error {
	if int(t.Shard) >= len(d.shards) {
		return fmt.Errorf("shard %d: there are %d", t.Shard, len(d.shards))
	}
	sh := &shardTable{
		tenure:  t,
		entries: newEntrySet(),
		loading: true,
		pending: map[subscription.ID]*subscription.Subscription{},
	}
	d.mu.Lock()
	d.drop(t.Shard)
	d.shards[t.Shard] = sh
	d.mu.Unlock()

	err := d.load(ctx, sh)
	if err == nil && !d.begin(sh) {
		err = fmt.Errorf("lost meanwhile: %w", delivery.ErrFenced)
	}
	if err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stays(sh) {
		d.drop(t.Shard)
	}
	return fmt.Errorf("reading the members of shard %d: %w", t.Shard, err)
}

// load reads the members of a shard into its table.
func (d *Dispatcher) load(ctx context.Context, sh *shardTable) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := d.adoptAll(limited, sh)
	if err == nil {
		err = d.markGapped(limited, sh)
	}
	if err == nil {
		err = limited.Err() // an engine may just stop then
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil && !errors.Is(err, delivery.ErrUnavailable) {
		err = fmt.Errorf("%w: no end of it within %s: %w", delivery.ErrUnavailable, loadTimeout, err)
	}
	return err
}

// adoptAll takes in every member, for as long as ctx stands.
func (d *Dispatcher) adoptAll(ctx context.Context, sh *shardTable) error {
	ctx, cancel := context.WithCancel(ctx)
	chunks, spare, ended := make(chan []delivery.Member, memberChunks), make(chan []delivery.Member, memberChunks), make(chan error, 1)
	go func() {
		defer close(chunks)
		ended <- d.readMembers(ctx, sh.tenure.Shard, chunks, spare)
	}()
	var err error
	for chunk := range chunks {
		if err == nil {
			if err = d.adopt(sh, chunk); err != nil {
				cancel() // what is read already is passed over
			}
		}
		clear(chunk)
		select {
		case spare <- chunk[:0]:
		default:
		}
	}
	cancel()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// markGapped takes note which members of a shard have gaps.
func (d *Dispatcher) markGapped(ctx context.Context, sh *shardTable) error {
	var some []subscription.ID
	mark := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range some {
			if e := sh.entries.get(id); e != nil {
				e.gapped = true
			}
		}
		some = some[:0]
	}
	for id, err := range d.cursors.Gapped(ctx, sh.tenure.Shard) {
		if err != nil {
			return err
		}
		if some = append(some, id); len(some) == memberChunk {
			mark()
		}
	}
	mark()
	return nil
}

// readMembers hands the members of a shard over in chunks, until they or ctx end.
func (d *Dispatcher) readMembers(ctx context.Context, s subscription.Shard, chunks chan<- []delivery.Member, spare <-chan []delivery.Member) error {
	var chunk []delivery.Member
	for m, err := range d.cursors.Members(ctx, s) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if chunk = append(chunk, m); len(chunk) < memberChunk {
			continue
		}
		chunks <- chunk // somebody takes them to the end
		select {
		case chunk = <-spare:
		default:
			chunk = make([]delivery.Member, 0, memberChunk)
		}
	}
	if len(chunk) > 0 {
		chunks <- chunk
	}
	return nil
}

// adopt takes members into the table of a shard that is being read.
func (d *Dispatcher) adopt(sh *shardTable, members []delivery.Member) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stays(sh) {
		return fmt.Errorf("lost meanwhile: %w", delivery.ErrFenced)
	}
	for i := range members {
		m := &members[i]
		e := d.insert(sh, m.Subscription)
		e.settled = m.Settled
		d.fail(e, m.Failures, nanos(m.NextAttempt), m.LastFailure, m.LastStatus)
		if m.ReplayNext > 0 && m.ReplayNext <= m.ReplayLast && m.ReplayLast <= m.Settled {
			e.setReplay(&replay{next: m.ReplayNext, last: m.ReplayLast, told: replayTold{first: m.ReplayNext}})
		}
		if e.settled > e.topic.head {
			// It was there, whatever the log has now: others were to get it, too.
			if e.topic.known {
				d.rise(e.topic, e.settled)
				d.wake(e.topic)
			} else {
				e.topic.head = e.settled
			}
		}
	}
	return nil
}

// begin starts the deliveries of a shard whose members were read. It returns false
// if the shard is lost.
func (d *Dispatcher) begin(sh *shardTable) bool {
	d.mu.Lock()
	held := d.stays(sh)
	if held {
		pending := sh.pending
		sh.loading, sh.pending = false, nil
		for id, sub := range pending {
			if sub == nil {
				d.remove(sh, id)
			} else {
				d.upsert(sh, *sub)
			}
		}
	}
	d.mu.Unlock()
	if !held {
		return false
	}
	// Topics whose heads are not known yet are woken when they are.
	return d.resume(sh)
}

// stays reports whether a shard has been held ever since it was gained with this table. One that
// was lost and gained again has another table, perhaps under the same epoch. mu is held.
func (d *Dispatcher) stays(sh *shardTable) bool { return d.shards[sh.tenure.Shard] == sh }

// drop forgets a shard with all its entries. mu is held.
func (d *Dispatcher) drop(s subscription.Shard) {
	sh := d.shards[s]
	if sh == nil {
		return
	}
	d.shards[s] = nil
	if !sh.away {
		d.unsaved -= sh.unsaved
	}
	for _, e := range sh.entries.slots {
		if e == nil {
			continue
		}
		d.forget(e)
		if len(e.topic.entries) == 0 {
			d.leaveTopic(e.topic)
		}
	}
}
