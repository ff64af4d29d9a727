package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// topicKeys asks for the first topics by key that a TopicQuery is true of and that have
// subscriptions in the shards of a process, one more than its Limit, with their counts there.
var topicKeys = kind[TopicQuery, topicsReply]{name: "topic_keys", handle: (*local).topicKeys}

type topicsReply struct {
	Topics []TopicCounts `json:"topics"`
	// Cut: there are more behind the last of Topics, and so it is not known what comes between.
	Cut bool `json:"cut"`
}

func (h *local) topicKeys(ctx context.Context, q TopicQuery) (topicsReply, error) {
	first := newSmallest(bounded(q.Limit)+1, byKey)
	wanted := q.wants()
	err := h.eachTopic(ctx, func(c TopicCounts) {
		if (!q.Failing || c.Failing > 0) && wanted(c.Topic) {
			first.add(c)
		}
	})
	var a topicsReply
	var left rowBudget
	for _, c := range first.sorted() {
		if a.Cut = !left.fits(c); a.Cut {
			break
		}
		a.Topics = append(a.Topics, c)
	}
	return a, err
}

func byKey(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) }

// TopicCounts is what the processes count of one topic.
type TopicCounts struct {
	Topic         string `json:"topic"`
	Subscriptions int    `json:"subscriptions"`
	Behind        int    `json:"behind"`
	Failing       int    `json:"failing"`
	Breaks        int    `json:"breaks"`
}

// topicCounts asks for the counts of topics by digests of their keys, as neither a question nor an
// answer holds a thousand keys; topics unknown to a process are left out.
var topicCounts = kind[[]digest, []digestCounts]{name: "topic_counts", handle: (*local).topicCounts}

// digest is short for a key. No two keys can be made with the same one.
type digest string

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(hex.EncodeToString(sum[:16]))
}

// digestCounts are TopicCounts without the topic.
type digestCounts struct {
	Digest digest `json:"digest"`
	TopicCounts
}

func (h *local) topicCounts(ctx context.Context, digests []digest) ([]digestCounts, error) {
	if len(digests) > MaxLimit {
		return nil, fmt.Errorf("%w: %d topics at a time are too many", ErrInvalid, len(digests))
	}
	wanted := make(map[digest]bool, len(digests))
	for _, k := range digests {
		wanted[k] = true
	}
	var found []digestCounts
	err := h.eachTopic(ctx, func(c TopicCounts) {
		if k := digestOf(c.Topic); wanted[k] {
			c.Topic = ""
			found = append(found, digestCounts{k, c})
		}
	})
	return found, err
}

// wants reports which keys a query is about, but for Failing.
func (q TopicQuery) wants() func(key string) bool {
	part := strings.ToLower(q.Contains)
	return func(key string) bool {
		return key > q.After && (part == "" || strings.Contains(strings.ToLower(key), part))
	}
}

// Topics gives a page of topics: those that have a log and those that have subscriptions.
func (d *topicService) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	q.Limit = bounded(q.Limit)
	parts, cover, err := gather(ctx, d.local, topicKeys, q)
	if err != nil {
		return TopicPage{}, err
	}
	keys := newSmallest(q.Limit+1, strings.Compare)
	var counted []TopicCounts
	end := "" // beyond it some processes may have more
	for _, p := range parts {
		counted = append(counted, p.result.Topics...)
		for _, c := range p.result.Topics {
			keys.add(c.Topic)
		}
		if n := len(p.result.Topics); p.result.Cut && n > 0 && (end == "" || p.result.Topics[n-1].Topic < end) {
			end = p.result.Topics[n-1].Topic
		}
	}
	if !q.Failing {
		if err := d.logged(ctx, q, keys); err != nil {
			return TopicPage{}, err
		}
	}
	page := TopicPage{}
	found := slices.Compact(keys.sorted())
	if behind := slices.IndexFunc(found, func(key string) bool { return end != "" && key > end }); behind > 0 {
		found, page.Next = found[:behind], found[behind-1]
	} else if end != "" {
		page.Next = end
	}
	if len(found) > q.Limit {
		found = found[:q.Limit]
		page.Next = found[q.Limit-1]
	}
	if page.Topics, err = d.logs(ctx, found); err != nil {
		return page, err
	}
	if !q.Failing { // else who has none that fails has not named the topic
		addUp(page.Topics, counted)
		page.Coverage = cover
		return page, nil
	}
	page.Coverage, err = d.count(ctx, page.Topics)
	page.Coverage = worse(cover, page.Coverage)
	return page, err
}

// logged adds the topics that have a log.
func (d *topicService) logged(ctx context.Context, q TopicQuery, keys *smallest[string]) error {
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

// logs returns the states of topics' logs. An unreadable one is left out, and holds up no other.
func (d *topicService) logs(ctx context.Context, keys []string) ([]Topic, error) {
	topics := make([]Topic, len(keys))
	for i, key := range keys {
		state, err := d.cfg.Log.State(ctx, key)
		if errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return nil, fmt.Errorf("reading the state of %s: %w", key, err)
		}
		topics[i] = topicOf(key, state)
	}
	return topics, nil
}

// count asks all processes for the counts of topics.
func (d *topicService) count(ctx context.Context, topics []Topic) (Coverage, error) {
	if len(topics) == 0 {
		return Coverage{}, nil
	}
	digests, keys := make([]digest, len(topics)), make(map[digest]string, len(topics))
	for i, t := range topics {
		digests[i] = digestOf(t.Topic)
		keys[digests[i]] = t.Topic
	}
	parts, cover, err := gather(ctx, d.local, topicCounts, digests)
	if err != nil {
		return cover, err
	}
	var counted []TopicCounts
	for _, p := range parts {
		for _, c := range p.result {
			c.Topic = keys[c.Digest]
			counted = append(counted, c.TopicCounts)
		}
	}
	addUp(topics, counted)
	return cover, nil
}

// addUp adds what processes have counted to the topics that are there.
func addUp(topics []Topic, counted []TopicCounts) {
	at := make(map[string]*Topic, len(topics))
	for i := range topics {
		at[topics[i].Topic] = &topics[i]
	}
	for _, c := range counted {
		if t := at[c.Topic]; t != nil {
			t.Subscriptions += c.Subscriptions
			t.Behind += c.Behind
			t.Failing += c.Failing
			t.Breaks += c.Breaks
		}
	}
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
func (d *topicService) Topic(ctx context.Context, topicURL string) (Topic, error) {
	key := topic.Key(topicURL)
	if key == "" {
		return Topic{}, fmt.Errorf("%w: no topic is named", ErrInvalid)
	}
	topics, err := d.logs(ctx, []string{key})
	if err != nil {
		return Topic{}, err
	}
	cover, err := d.count(ctx, topics)
	if err != nil {
		return Topic{}, err
	}
	t := topics[0]
	if cover.MissingShards > 0 || len(cover.Trouble) > 0 {
		t.Coverage = &cover
	}
	if t.Head == 0 && t.Subscriptions == 0 {
		if cover.MissingShards > 0 {
			return t, fmt.Errorf(
				"%w: nothing was published to %s, and its subscriptions are not known: %s",
				ErrUnavailable, topicURL, strings.Join(cover.Trouble, "; "),
			)
		}
		if _, err := d.cfg.Log.State(ctx, key); err != nil { // there may have been something
			return Topic{}, fmt.Errorf("reading the state of %s: %w", key, err)
		}
		return t, fmt.Errorf("%w: nothing was published to %s, and it has no subscription", ErrNotFound, topicURL)
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

// eachTopic calls visit with the counts of every topic that this process knows of.
func (h *local) eachTopic(ctx context.Context, visit func(TopicCounts)) error {
	if h.cfg.Deliveries == nil {
		return nil
	}
	counts, err := h.cfg.Deliveries.TopicCounts(ctx)
	if err != nil {
		return fmt.Errorf("counting the subscriptions of topics: %w", err)
	}
	for _, c := range counts {
		visit(TopicCounts(c))
	}
	return nil
}
