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
func (h *holder) Gained(ctx context.Context, t delivery.Tenure) error {
	if int(t.Shard) >= len(h.table.shards) {
		return fmt.Errorf("shard %d: there are %d", t.Shard, len(h.table.shards))
	}
	sh := &shardTable{
		tenure:  t,
		entries: newEntrySet(),
		loading: true,
		pending: map[subscription.ID]*subscription.Subscription{},
	}
	h.table.mu.Lock()
	h.ledger.drop(t.Shard)
	h.table.shards[t.Shard] = sh
	h.table.mu.Unlock()

	err := h.load(ctx, sh)
	if err == nil && !h.begin(sh) {
		err = fmt.Errorf("lost meanwhile: %w", delivery.ErrFenced)
	}
	if err == nil {
		return nil
	}
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	if h.table.stays(sh) {
		h.ledger.drop(t.Shard)
	}
	return fmt.Errorf("reading the members of shard %d: %w", t.Shard, err)
}

// load reads the members of a shard into its table.
func (h *holder) load(ctx context.Context, sh *shardTable) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := h.adoptAll(limited, sh)
	if err == nil {
		err = h.markGapped(limited, sh)
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
func (h *holder) adoptAll(ctx context.Context, sh *shardTable) error {
	ctx, cancel := context.WithCancel(ctx)
	chunks, spare, ended := make(chan []delivery.Member, memberChunks), make(chan []delivery.Member, memberChunks), make(chan error, 1)
	go func() {
		defer close(chunks)
		ended <- h.readMembers(ctx, sh.tenure.Shard, chunks, spare)
	}()
	var err error
	for chunk := range chunks {
		if err == nil {
			if err = h.adopt(sh, chunk); err != nil {
				cancel() // chunks that were read already are passed over
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

// readMembers hands the members of a shard over in chunks, until they or ctx end.
func (h *holder) readMembers(
	ctx context.Context, s subscription.Shard, chunks chan<- []delivery.Member, spare <-chan []delivery.Member,
) error {
	var chunk []delivery.Member
	for m, err := range h.cursors.Members(ctx, s) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if chunk = append(chunk, m); len(chunk) < memberChunk {
			continue
		}
		chunks <- chunk // the receiver takes them to the end
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
func (h *holder) adopt(sh *shardTable, members []delivery.Member) error {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	if !h.table.stays(sh) {
		return fmt.Errorf("lost meanwhile: %w", delivery.ErrFenced)
	}
	for i := range members {
		m := &members[i]
		e := h.table.insert(sh, m.Subscription)
		e.settled = m.Settled
		h.table.fail(e, m.Failures, nanos(m.NextAttempt), m.LastFailure, m.LastStatus)
		if m.ReplayNext > 0 && m.ReplayNext <= m.ReplayLast && m.ReplayLast <= m.Settled {
			e.setReplay(&replay{next: m.ReplayNext, last: m.ReplayLast, told: replayTold{first: m.ReplayNext}})
		}
		if e.settled > e.topic.head {
			// It was there, whatever the log has now: others were to get it, too.
			if e.topic.known {
				e.topic.rise(e.settled)
				h.schedule.walks.wake(e.topic)
			} else {
				e.topic.head = e.settled
			}
		}
	}
	return nil
}

// markGapped records which members of a shard have gaps.
func (h *holder) markGapped(ctx context.Context, sh *shardTable) error {
	var some []subscription.ID
	mark := func() {
		h.table.mu.Lock()
		defer h.table.mu.Unlock()
		for _, id := range some {
			if e := sh.entries.get(id); e != nil {
				e.gapped = true
			}
		}
		some = some[:0]
	}
	for id, err := range h.cursors.Gapped(ctx, sh.tenure.Shard) {
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

// begin starts the deliveries of a shard whose members were read. It returns false
// if the shard is lost.
func (h *holder) begin(sh *shardTable) bool {
	h.table.mu.Lock()
	held := h.table.stays(sh)
	if held {
		pending := sh.pending
		sh.loading, sh.pending = false, nil
		for id, sub := range pending {
			if sub == nil {
				h.table.remove(sh, id)
			} else {
				h.upsert(sh, *sub)
			}
		}
	}
	h.table.mu.Unlock()
	if !held {
		return false
	}
	// Topics whose heads are not known yet are woken when they are.
	return h.schedule.resume(sh)
}
