package transfer

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"carillon/delivery"
	"carillon/subscription"
)

// An export gives every record the key that subscription.Key returns now, also from a store whose
// keys are of an earlier form (Source.FormerKeys). There one topic may have several logs, and one
// subscription may be stored several times, under an ID for each spelling. In the stream, the
// logs of one topic follow one another in one log, and what counted by the numbers of a log
// counts by those of its stretch. A subscription to the topic is owed what it was owed of its
// own log, and all of the logs after it.

// stretch is where a log of the store lies in the topic's log in the stream: its numbers are
// greater there by offset. head is its own head.
type stretch struct{ offset, head delivery.Seq }

// at returns a position of the log as one in the stream, where nothing is above the head.
func (s stretch) at(n delivery.Seq) delivery.Seq { return s.offset + min(n, s.head) }

// stretchOf returns the stretch that subscriptions to the topic count by. One whose log never
// had anything begins behind the topic's other logs.
func (e *exporter) stretchOf(topic string) stretch {
	stored := subscription.Key(topic)
	if e.FormerKeys {
		stored = subscription.FormerKey(topic)
	}
	if s, known := e.stretches[stored]; known {
		return s
	}
	return stretch{offset: e.heads[subscription.Key(topic)]}
}

// carried is a subscription with its position in the stream.
type carried struct {
	delivery.Member
	stored  subscription.ID // what the store calls it
	stretch stretch
}

// carry counts by the stream. A position is no further than the topic's head in it: the target
// gives out the numbers above it once more.
func (e *exporter) carry(m delivery.Member) carried {
	c := carried{Member: m, stored: m.ID, stretch: e.stretchOf(m.Topic)}
	if e.FormerKeys {
		c.ID = subscription.NewID(m.Topic, m.Callback)
	}
	c.Start = uint64(c.stretch.at(delivery.Seq(min(m.Start, uint64(delivery.MaxSeq)))))
	c.Settled = c.stretch.at(m.Settled)
	if c.ReplayLast = min(m.ReplayLast, c.stretch.head); m.ReplayNext > c.ReplayLast {
		c.ReplayNext, c.ReplayLast = 0, 0
	}
	if c.ReplayLast > 0 {
		c.ReplayNext, c.ReplayLast = c.stretch.at(c.ReplayNext), c.stretch.at(c.ReplayLast)
	}
	return c
}

// members lists the subscriptions that belong to the shard in the stream, in order.
func (e *exporter) members(ctx context.Context, shard subscription.Shard) ([]carried, error) {
	stored, err := sorted(e.Cursors.Members(ctx, shard), func(a, b delivery.Member) int {
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	if err != nil {
		return nil, err
	}
	list := e.movedMembers[shard]
	for _, m := range stored {
		if c := e.carry(m); c.ID == m.ID {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b carried) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	var one []carried
	for _, c := range list {
		if last := len(one) - 1; last >= 0 && one[last].ID == c.ID {
			one[last] = one[last].with(c)
		} else {
			one = append(one, c)
		}
	}
	return one, nil
}

// with makes one of two that are the same subscription: as the latest request had it, from the
// lower position on.
func (c carried) with(other carried) carried {
	latest, low := c.Subscription, c
	if other.Expires.After(c.Expires) {
		latest = other.Subscription
	}
	if other.Settled < c.Settled {
		low = other
	}
	latest.Start = min(c.Start, other.Start)
	if latest.Created = c.Created; other.Created.Before(c.Created) {
		latest.Created = other.Created
	}
	low.Subscription = latest
	return low
}

// pending lists the requests that belong to the shard in the stream, in order.
func (e *exporter) pending(ctx context.Context, shard subscription.Shard) ([]subscription.Request, error) {
	stored, err := sorted(e.Subscriptions.Requests(ctx, shard), func(a, b subscription.Request) int {
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	if err != nil || !e.FormerKeys {
		return stored, err
	}
	list := e.movedRequests[shard]
	for _, r := range stored {
		if moved := e.move(r); moved.ID == r.ID {
			list = append(list, moved)
		}
	}
	slices.SortStableFunc(list, func(a, b subscription.Request) int {
		return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), a.Received.Compare(b.Received))
	})
	var one []subscription.Request
	for _, r := range list {
		if last := len(one) - 1; last >= 0 && one[last].ID == r.ID {
			one[last] = r.Replacing(one[last])
		} else {
			one = append(one, r)
		}
	}
	return one, nil
}

// move returns the request under its ID in the stream, with its start counted by the stream.
func (e *exporter) move(r subscription.Request) subscription.Request {
	r.ID = subscription.NewID(r.Topic, r.Callback)
	if !r.Since.IsZero() {
		r.Start += uint64(e.stretchOf(r.Topic).offset)
	}
	return r
}

// findMoved finds what has another ID in the stream, and so perhaps another shard. It comes after the logs.
func (e *exporter) findMoved(ctx context.Context) error {
	if !e.FormerKeys {
		return nil
	}
	e.movedMembers = make(map[subscription.Shard][]carried)
	e.movedRequests = make(map[subscription.Shard][]subscription.Request)
	for shard := range subscription.Shard(subscription.Shards) {
		for r, err := range e.Subscriptions.Requests(ctx, shard) {
			if err != nil {
				return err
			}
			if moved := e.move(r); moved.ID != r.ID {
				to := subscription.ShardOf(moved.ID)
				e.movedRequests[to] = append(e.movedRequests[to], moved)
			}
		}
		for m, err := range e.Cursors.Members(ctx, shard) {
			if err != nil {
				return err
			}
			if c := e.carry(m); c.ID != m.ID {
				to := subscription.ShardOf(c.ID)
				e.movedMembers[to] = append(e.movedMembers[to], c)
			}
		}
	}
	return nil
}
