package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// topicKeys asks for the first topics by key that a TopicQuery is true of and that have
// subscriptions in the shards of a process, one more than its Limit.
var topicKeys = kind[TopicQuery, []string]{name: "topic_keys", answer: (*here).topicKeys}

func (h *here) topicKeys(ctx context.Context, q TopicQuery) ([]string, error) {
	keys := newSmallest(bounded(q.Limit)+1, strings.Compare)
	wanted := q.wants()
	err := h.eachTopic(ctx, func(c TopicCounts) {
		if (!q.Failing || c.Failing > 0) && wanted(c.Topic) {
			keys.add(c.Topic)
		}
	})
	return keys.sorted(), err
}

// TopicCounts is what the processes count of one topic.
type TopicCounts struct {
	Topic         string `json:"topic"`
	Subscriptions int    `json:"subscriptions"`
	Behind        int    `json:"behind"`
	Failing       int    `json:"failing"`
	Breaks        int    `json:"breaks"`
}

// topicCounts asks for the counts of topics by the hashes of their keys, as a question holds no
// thousand keys; what a process does not know of is left out.
var topicCounts = kind[[]uint64, []TopicCounts]{name: "topic_counts", answer: (*here).topicCounts}

func (h *here) topicCounts(ctx context.Context, hashes []uint64) ([]TopicCounts, error) {
	if len(hashes) > MaxLimit {
		return nil, fmt.Errorf("%w: %d topics at a time are too many", ErrInvalid, len(hashes))
	}
	wanted := make(map[uint64]bool, len(hashes))
	for _, k := range hashes {
		wanted[k] = true
	}
	var found []TopicCounts
	err := h.eachTopic(ctx, func(c TopicCounts) {
		if wanted[hashOf(c.Topic)] {
			found = append(found, c)
		}
	})
	return found, err
}

// wants tells which keys a query is about, but for Failing.
func (q TopicQuery) wants() func(key string) bool {
	part := strings.ToLower(q.Contains)
	return func(key string) bool {
		return key > q.After && (part == "" || strings.Contains(strings.ToLower(key), part))
	}
}

// Topics gives a page of topics: those that have a log and those that have subscriptions.
func (d *Desk) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	q.Limit = bounded(q.Limit)
	parts, cover, err := gather(ctx, d, topicKeys, q)
	if err != nil {
		return TopicPage{}, err
	}
	keys := newSmallest(q.Limit+1, strings.Compare)
	for _, p := range parts {
		for _, k := range p.answer {
			keys.add(k)
		}
	}
	if !q.Failing {
		if err := d.logged(ctx, q, keys); err != nil {
			return TopicPage{}, err
		}
	}
	page := TopicPage{Coverage: cover, Topics: []Topic{}}
	found := slices.Compact(keys.sorted())
	if len(found) > q.Limit {
		found = found[:q.Limit]
		page.Next = found[q.Limit-1]
	}
	page.Topics, page.Coverage, err = d.described(ctx, found, cover)
	return page, err
}

// logged adds the topics that have a log.
func (d *Desk) logged(ctx context.Context, q TopicQuery, keys *smallest[string]) error {
	wanted := q.wants()
	for key, err := range d.cfg.Log.Keys(ctx) {
		if err != nil {
			return fmt.Errorf("reading the topics: %w", err)
		}
		if wanted(key) {
			keys.add(key)
		}
	}
	return ctx.Err()
}

// described says all about topics of which the keys are known. A topic whose state cannot be
// read back has none, and is in nobody's way.
func (d *Desk) described(ctx context.Context, keys []string, cover Coverage) ([]Topic, Coverage, error) {
	topics := make([]Topic, len(keys))
	at, hashes := make(map[string]int, len(keys)), make([]uint64, len(keys))
	for i, key := range keys {
		state, err := d.cfg.Log.State(ctx, key)
		if errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return nil, cover, fmt.Errorf("reading the state of %s: %w", key, err)
		}
		topics[i], at[key], hashes[i] = topicOf(key, state), i, hashOf(key)
	}
	if len(keys) == 0 {
		return topics, cover, nil
	}
	parts, counted, err := gather(ctx, d, topicCounts, hashes)
	if err != nil {
		return nil, cover, err
	}
	for _, p := range parts {
		for _, c := range p.answer {
			i, asked := at[c.Topic]
			if !asked {
				continue
			}
			t := &topics[i]
			t.Subscriptions += c.Subscriptions
			t.Behind += c.Behind
			t.Failing += c.Failing
			t.Breaks += c.Breaks
		}
	}
	return topics, worse(cover, counted), nil
}

// topicOf is what the log says of a topic.
func topicOf(key string, s delivery.TopicState) Topic {
	t := Topic{Topic: key, Head: s.Head, Bytes: s.Bytes, LastID: s.Last.ID, LastUntil: s.Last.Until}
	if s.Head > 0 {
		t.First, t.Oldest, t.Published = s.First, s.Oldest.UTC(), madeAt(s.Last.ID)
		if s.Oldest.IsZero() {
			t.Oldest = time.Time{}
		}
	}
	return t
}

// madeAt is when a notification's ID was made, at its acceptance; zero for IDs that do not
// tell.
func madeAt(id uuid.UUID) time.Time {
	if id.Version() != 7 {
		return time.Time{}
	}
	sec, nsec := id.Time().UnixTime()
	return time.Unix(sec, nsec).Truncate(time.Millisecond).UTC()
}

// Topic says all about one topic. It is ErrNotFound where it has neither a log nor
// subscriptions.
func (d *Desk) Topic(ctx context.Context, topic string) (Topic, error) {
	key := subscription.Key(topic)
	if key == "" {
		return Topic{}, fmt.Errorf("%w: no topic is named", ErrInvalid)
	}
	topics, cover, err := d.described(ctx, []string{key}, Coverage{})
	if err != nil {
		return Topic{}, err
	}
	t := topics[0]
	if cover.MissingShards > 0 || len(cover.Trouble) > 0 {
		t.Coverage = &cover
	}
	if t.Head == 0 && t.Subscriptions == 0 {
		if cover.MissingShards > 0 {
			return t, fmt.Errorf("%w: nothing was published to %s, and whether somebody subscribes to it is not known: %s", ErrUnavailable, topic, strings.Join(cover.Trouble, "; "))
		}
		if _, err := d.cfg.Log.State(ctx, key); err != nil { // there may have been something
			return Topic{}, fmt.Errorf("reading the state of %s: %w", key, err)
		}
		return t, fmt.Errorf("%w: nothing was published to %s, and nobody subscribes to it", ErrNotFound, topic)
	}
	return t, nil
}

// worse is the coverage of an answer that was put together of two.
func worse(a, b Coverage) Coverage {
	if b.MissingShards > a.MissingShards {
		a.MissingShards = b.MissingShards
	}
	for _, t := range b.Trouble {
		if !slices.Contains(a.Trouble, t) {
			a.Trouble = append(a.Trouble, t)
		}
	}
	return a
}

// bounded is how many an answer holds.
func bounded(limit int) int { return min(max(cmp.Or(limit, DefaultLimit), 1), MaxLimit) }

// smallest keeps the first few of many, in an order. One that is added twice may be there
// twice.
type smallest[T any] struct {
	most    int
	compare func(a, b T) int
	kept    []T
	last    *T // nothing behind this is kept; nil: not known yet
}

func newSmallest[T any](most int, compare func(a, b T) int) *smallest[T] {
	return &smallest[T]{most: most, compare: compare}
}

// add takes one in, unless enough are before it.
func (s *smallest[T]) add(v T) bool {
	if s.last != nil && s.compare(v, *s.last) > 0 {
		return false
	}
	s.kept = append(s.kept, v)
	if len(s.kept) >= 2*s.most+64 {
		s.cut()
	}
	return true
}

// cut forgets all but the first, each once.
func (s *smallest[T]) cut() {
	slices.SortStableFunc(s.kept, s.compare)
	s.kept = slices.CompactFunc(s.kept, func(a, b T) bool { return s.compare(a, b) == 0 })
	if len(s.kept) >= s.most {
		clear(s.kept[s.most:])
		s.kept = s.kept[:s.most]
		last := s.kept[s.most-1]
		s.last = &last
	}
}

// sorted returns the first, in their order, each once.
func (s *smallest[T]) sorted() []T {
	s.cut()
	return s.kept
}
