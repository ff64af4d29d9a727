package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// ErrOtherLog: both have a log of a topic, and neither is known to be the beginning of the other.
var ErrOtherLog = errors.New("the target has a log of its own for the topic; the two cannot be merged")

// merger compares a stream with what the target has.
type merger struct {
	to     Engine
	topics map[string]delivery.TopicState // the target's, by key

	// Of the topic that is being read: the target's state of it, and whether
	// the stream has shown the target's last notification.
	state delivery.TopicState
	found bool
	// known: the target has all of the topic's log.
	known bool

	// Of the shard that is being read: the target's positions.
	shard     subscription.Shard
	positions map[subscription.ID]delivery.Position // nil before the first
}

func (m *merger) begin(ctx context.Context) error {
	m.topics = map[string]delivery.TopicState{}
	for t, err := range m.to.Log.Topics(ctx) {
		if err != nil {
			return err
		}
		m.topics[t.Topic] = t
	}
	return nil
}

// topic begins a topic of the stream. It is known if the target has all that the
// stream can tell of it.
func (m *merger) topic(ctx context.Context, t delivery.TopicState) (known bool, err error) {
	m.state, m.known = m.topics[t.Topic], false
	m.found = m.state.Head == 0
	if m.state.Head < t.Head {
		return false, nil
	}
	id := m.state.Last.ID
	if m.state.Head > t.Head {
		if id, err = m.idAt(ctx, t); err != nil {
			return false, err
		}
	}
	if id != t.Last.ID {
		return false, fmt.Errorf("topic %s: %w", t.Topic, ErrOtherLog)
	}
	m.known, m.found = true, true
	return true, nil
}

// idAt returns the ID of the target's notification that has the number of the
// stream's last one; none if it is not kept.
func (m *merger) idAt(ctx context.Context, t delivery.TopicState) (uuid.UUID, error) {
	n, err := m.to.Log.Read(ctx, t.Topic, t.Head)
	if errors.Is(err, delivery.ErrEndOfLog) || err == nil && n.Seq != t.Head {
		return uuid.Nil, nil
	}
	if err != nil {
		return uuid.Nil, err
	}
	return n.ID, nil
}

// notification reports whether the target has it. Those after the target's last are
// new, once that one has been seen in the stream.
func (m *merger) notification(n *delivery.Notification) (known bool, err error) {
	switch {
	case m.known || n.Seq < m.state.Head:
		return true, nil
	case n.Seq == m.state.Head:
		m.found = n.ID == m.state.Last.ID
		return true, m.endTopic()
	}
	return false, m.endTopic()
}

// endTopic is an error unless the logs are known to be one.
func (m *merger) endTopic() error {
	if m.found {
		return nil
	}
	return fmt.Errorf("topic %s: %w", m.state.Topic, ErrOtherLog)
}

// member keeps the target's position where that is further. Subscriptions come by
// shard, so that one shard's positions are held at a time.
func (m *merger) member(ctx context.Context, stream *delivery.Member) error {
	shard := subscription.ShardOf(stream.ID)
	if m.positions == nil || shard != m.shard {
		if err := m.load(ctx, shard); err != nil {
			return err
		}
	}
	if stored, ok := m.positions[stream.ID]; ok && stored.Settled > stream.Settled {
		stream.Position = stored
	}
	return nil
}

func (m *merger) load(ctx context.Context, shard subscription.Shard) error {
	m.shard, m.positions = shard, map[subscription.ID]delivery.Position{}
	for member, err := range m.to.Cursors.Members(ctx, shard) {
		if err != nil {
			return err
		}
		m.positions[member.ID] = member.Position
	}
	return nil
}
