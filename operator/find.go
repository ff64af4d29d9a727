package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
)

// Bounds of looking for a notification by its ID.
const (
	// findWithin is how long all logs are looked through.
	findWithin = 5 * time.Second
	// clockSkew is how far the clocks of hub processes may differ: by as much a notification's place in
	// its log may differ from the time in its ID.
	clockSkew = time.Minute
	// neighbours is how many notifications on either side of the place are looked at, and
	// neighbourPage how many of them at a time.
	neighbours    = 2048
	neighbourPage = 256
)

// errNotThere: it is not in this log.
var errNotThere = errors.New("it is not in this log")

// find returns the notification with the ID and the key of its topic, which may be empty.
func (d *topicService) find(ctx context.Context, key string, id uuid.UUID) (topic string, s delivery.Summary, err error) {
	made := madeAt(id)
	if made.IsZero() {
		return "", s, fmt.Errorf(
			"%w: %s is not the ID of a notification of this hub, which are UUIDs of version 7", ErrInvalid, id,
		)
	}
	if key == "" {
		return d.findAnywhere(ctx, id, made)
	}
	state, err := d.cfg.Log.State(ctx, key)
	if err == nil {
		s, err = d.findIn(ctx, key, state, id, made)
	}
	if errors.Is(err, errNotThere) {
		return "", s, fmt.Errorf(
			"%w: the log of %s has no notification %s: it was never published to this topic, or is trimmed",
			ErrNotFound, key, id,
		)
	}
	if err != nil {
		return "", s, fmt.Errorf("looking for a notification in the log of %s: %w", key, err)
	}
	return key, s, nil
}

// findAnywhere looks through all logs that can have it.
func (d *topicService) findAnywhere(
	ctx context.Context, id uuid.UUID, made time.Time,
) (topic string, s delivery.Summary, err error) {
	within, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	looked := 0
	for state, err := range d.cfg.Log.Topics(within) {
		if err == nil {
			looked++
			s, err = d.findIn(within, state.Topic, state, id, made)
		}
		switch {
		case err == nil:
			return state.Topic, s, nil
		case errors.Is(err, errNotThere):
		case within.Err() != nil && ctx.Err() == nil:
			return "", s, fmt.Errorf(
				"%w: the logs of %d topics were looked through within %s, and there are more: name the topic",
				ErrUnavailable, looked, findWithin,
			)
		default:
			return "", s, fmt.Errorf("looking for a notification: %w", err)
		}
	}
	if err := within.Err(); err != nil {
		return "", s, fmt.Errorf(
			"%w: the logs of %d topics were looked through within %s, and there may be more: name the topic",
			ErrUnavailable, looked, findWithin,
		)
	}
	return "", s, fmt.Errorf(
		"%w: none of the %d logs has a notification %s: it was never published here, or is trimmed",
		ErrNotFound, looked, id,
	)
}

// findIn looks in one log: for the place by halving, as IDs tell when they were made, and
// then at its neighbours.
func (d *topicService) findIn(
	ctx context.Context, key string, state delivery.TopicState, id uuid.UUID, made time.Time,
) (delivery.Summary, error) {
	if state.Head == 0 || state.First > state.Head {
		return delivery.Summary{}, errNotThere
	}
	if state.Last.ID == id {
		return d.exactly(ctx, key, state.Head, id)
	}
	if last := madeAt(state.Last.ID); !last.IsZero() && made.After(last.Add(clockSkew)) ||
		!state.Oldest.IsZero() && made.Before(state.Oldest.Add(-clockSkew)) {
		return delivery.Summary{}, errNotThere
	}
	place, err := d.cfg.locate(
		ctx, key, state.First, state.Head, func(s delivery.Summary) bool { return !timeOf(s).Before(made) },
	)
	if err != nil {
		return delivery.Summary{}, err
	}
	s, err := d.after(ctx, key, place, id, made)
	if errors.Is(err, errNotThere) {
		s, err = d.before(ctx, key, place, id, made)
	}
	return s, err
}

// timeOf is when a notification was made, by its ID, or when it was accepted.
func timeOf(s delivery.Summary) time.Time {
	if made := madeAt(s.ID); !made.IsZero() {
		return made
	}
	return s.Accepted
}

func (d *topicService) exactly(ctx context.Context, key string, seq delivery.Seq, id uuid.UUID) (delivery.Summary, error) {
	s, err := d.cfg.Log.Summary(ctx, key, seq)
	if errors.Is(err, delivery.ErrEndOfLog) || err == nil && s.ID != id {
		err = errNotThere
	}
	return s, err
}

// locate returns the number of the first notification from first to head that is late, or
// head+1, by halving: all that follow one that is late are taken to be late.
func (c *Config) locate(
	ctx context.Context, key string, first, head delivery.Seq, late func(delivery.Summary) bool,
) (delivery.Seq, error) {
	low, high := first, head+1
	for low < high {
		middle := low + (high-low)/2
		s, err := c.Log.Summary(ctx, key, middle)
		switch {
		case errors.Is(err, delivery.ErrEndOfLog):
			high = middle
		case err != nil:
			return 0, err
		case s.Seq >= high: // nothing between
			high = middle
		case late(s):
			high = middle
		default:
			low = s.Seq + 1
		}
	}
	return low, nil
}

// after looks at the notifications from a number on that can have been made at that time.
func (d *topicService) after(
	ctx context.Context, key string, from delivery.Seq, id uuid.UUID, made time.Time,
) (delivery.Summary, error) {
	for range neighbours {
		s, err := d.cfg.Log.Summary(ctx, key, from)
		switch {
		case errors.Is(err, delivery.ErrEndOfLog):
			return s, errNotThere
		case err != nil || s.ID == id:
			return s, err
		case timeOf(s).After(made.Add(clockSkew)):
			return s, errNotThere
		}
		from = s.Seq + 1
	}
	return delivery.Summary{}, errNotThere
}

// before looks at those below a number.
func (d *topicService) before(
	ctx context.Context, key string, below delivery.Seq, id uuid.UUID, made time.Time,
) (delivery.Summary, error) {
	for range neighbours / neighbourPage {
		if below <= 1 {
			break // 0 would be the end of the log
		}
		page, err := d.cfg.Log.Summaries(ctx, key, below, neighbourPage)
		if err != nil {
			return delivery.Summary{}, err
		}
		for _, s := range page {
			switch {
			case s.ID == id:
				return s, nil
			case timeOf(s).Before(made.Add(-clockSkew)):
				return s, errNotThere
			}
			below = s.Seq
		}
		if len(page) < neighbourPage {
			break
		}
	}
	return delivery.Summary{}, errNotThere
}
