package deliverytest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// Keyed returns the Log, which fails the test where a topic is not named by its key. To an engine
// such a name is another topic, one without a log: the caller would see no error.
func Keyed(t testing.TB, l delivery.Log) delivery.Log { return keyedLog{l, t} }

// keyed has the Logs of an engine keyed.
func keyed(open Open) Open {
	return func(t *testing.T) Harness {
		h := open(t)
		h.Log = Keyed(t, h.Log)
		for _, again := range []*func(t *testing.T) Parts{&h.Reopen, &h.Crash} {
			parts := *again
			*again = func(t *testing.T) Parts {
				p := parts(t)
				p.Log = Keyed(t, p.Log)
				return p
			}
		}
		return h
	}
}

type keyedLog struct {
	delivery.Log
	t testing.TB
}

func (l keyedLog) check(method string, keys ...string) {
	for _, key := range keys {
		if topic.Key(key) != key {
			l.t.Errorf("%s: %q is not a key: that is %q", method, key, topic.Key(key))
		}
	}
}

func (l keyedLog) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	if at := topic.Parse(p.Topic.String()); at != p.Topic {
		l.t.Errorf("Append: %q has the key %q, not %q", at, at.Key(), p.Topic.Key())
	}
	return l.Log.Append(ctx, p, id, accepted)
}

func (l keyedLog) Read(
	ctx context.Context, key string, from delivery.Seq,
) (*delivery.Notification, error) {
	l.check("Read", key)
	return l.Log.Read(ctx, key, from)
}

func (l keyedLog) Summaries(
	ctx context.Context, key string, before delivery.Seq, limit int,
) ([]delivery.Summary, error) {
	l.check("Summaries", key)
	return l.Log.Summaries(ctx, key, before, limit)
}

func (l keyedLog) Summary(
	ctx context.Context, key string, from delivery.Seq,
) (delivery.Summary, error) {
	l.check("Summary", key)
	return l.Log.Summary(ctx, key, from)
}

func (l keyedLog) Heads(ctx context.Context, keys []string) ([]delivery.Seq, error) {
	l.check("Heads", keys...)
	return l.Log.Heads(ctx, keys)
}

func (l keyedLog) State(ctx context.Context, key string) (delivery.TopicState, error) {
	l.check("State", key)
	return l.Log.State(ctx, key)
}

func (l keyedLog) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	l.check("Trim", key)
	return l.Log.Trim(ctx, key, before, olderThan)
}

func (l keyedLog) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	l.check("Shrink", key)
	return l.Log.Shrink(ctx, key, keep, before, olderThan)
}
