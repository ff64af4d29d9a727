package operator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/topic"
)

// tallyQuestion asks for the outcome of notifications of one topic.
type tallyQuestion struct {
	Topic string         `json:"topic"` // its key
	Seqs  []delivery.Seq `json:"seqs"`
}

var tallies = kind[tallyQuestion, []Tally]{name: "tally", handle: (*local).tally}

func (h *local) tally(ctx context.Context, q tallyQuestion) ([]Tally, error) {
	if len(q.Seqs) > MaxLimit {
		return nil, fmt.Errorf("%w: %d notifications at a time are too many", ErrInvalid, len(q.Seqs))
	}
	if h.cfg.Deliveries == nil {
		return make([]Tally, len(q.Seqs)), nil
	}
	counted, err := h.cfg.Deliveries.Tally(ctx, q.Topic, q.Seqs)
	if err != nil {
		return nil, fmt.Errorf("counting deliveries: %w", err)
	}
	all := make([]Tally, len(counted))
	for i, c := range counted {
		all[i] = Tally{c.Subscribers, c.Delivered, c.Pending, c.Failing, c.GivenUp, c.Trimmed}
	}
	return all, nil
}

// tallied asks all processes for the outcome of the notifications.
func (d *topicService) tallied(ctx context.Context, key string, seqs []delivery.Seq) ([]Tally, Coverage, error) {
	sums := make([]Tally, len(seqs))
	parts, cover, err := gather(ctx, d.local, tallies, tallyQuestion{key, seqs})
	if err != nil {
		return nil, cover, err
	}
	for _, p := range parts {
		for i := range min(len(sums), len(p.result)) {
			sums[i].add(p.result[i])
		}
	}
	return sums, cover, nil
}

func (t *Tally) add(o Tally) {
	t.Subscribers += o.Subscribers
	t.Delivered += o.Delivered
	t.Pending += o.Pending
	t.Failing += o.Failing
	t.GivenUp += o.GivenUp
	t.Trimmed += o.Trimmed
}

// Notifications gives those of a topic with numbers below before, 0: the newest.
func (d *topicService) Notifications(
	ctx context.Context, topicURL string, before delivery.Seq, limit int,
) (NotificationPage, error) {
	limit, key := bounded(limit), topic.Key(topicURL)
	if key == "" {
		return NotificationPage{}, fmt.Errorf("%w: no topic is named", ErrInvalid)
	}
	found, err := d.cfg.Log.Summaries(ctx, key, before, limit+1)
	if err != nil {
		return NotificationPage{}, fmt.Errorf("reading the log of %s: %w", topicURL, err)
	}
	page := NotificationPage{Notifications: make([]Notification, min(limit, len(found)))}
	if len(found) == 0 {
		return page, nil
	}
	seqs := make([]delivery.Seq, len(page.Notifications))
	for i := range page.Notifications {
		page.Notifications[i] = notificationOf(key, found[i])
		seqs[i] = found[i].Seq
		if i+1 < len(found) {
			page.Notifications[i].Break = breaks(found[i+1], found[i])
		}
	}
	if len(found) > limit {
		page.Next = found[limit-1].Seq
	}
	counts, cover, err := d.tallied(ctx, key, seqs)
	if err != nil {
		return NotificationPage{}, err
	}
	for i := range page.Notifications {
		page.Notifications[i].Tally = counts[i]
	}
	page.Coverage = cover
	return page, nil
}

func notificationOf(topic string, s delivery.Summary) Notification {
	return Notification{
		ID: s.ID, Topic: topic, Seq: s.Seq, Accepted: s.Accepted.UTC(), ContentType: s.ContentType, Bytes: s.Bytes, From: s.From, Until: s.Until,
	}
}

// breaks reports whether the interval of a notification does not begin where that of the one
// before it ended, as far as both are there and cover one.
func breaks(before, n delivery.Summary) bool {
	return n.After == before.Seq && before.Until != "" && n.From != "" && before.Until != n.From
}

// undeliveredQuestion asks who has not got a notification.
type undeliveredQuestion struct {
	Topic string       `json:"topic"` // its key
	Seq   delivery.Seq `json:"seq"`
}

// MaxMissing is how many subscriptions a NotificationDetail names.
const MaxMissing = 1000

// undeliveredReply has the counts, too: one question is quicker than two.
type undeliveredReply struct {
	Tally Tally `json:"tally"`
	// Missing are rows; their topic is left out where it is spelled as in the question.
	Missing []Missing `json:"missing"`
	More    bool      `json:"more"`
}

var undelivered = kind[undeliveredQuestion, undeliveredReply]{name: "undelivered", handle: (*local).undelivered}

func (h *local) undelivered(ctx context.Context, q undeliveredQuestion) (undeliveredReply, error) {
	var a undeliveredReply
	counts, err := h.tally(ctx, tallyQuestion{q.Topic, []delivery.Seq{q.Seq}})
	if err != nil {
		return a, err
	}
	if a.Tally = counts[0]; h.cfg.Deliveries == nil || a.Tally.Delivered == a.Tally.Subscribers {
		return a, nil
	}
	type one struct {
		standing report.Standing
		outcome  string
	}
	first := newSmallest(
		MaxMissing+1,
		func(a, b one) int { return compareIDs(a.standing.Subscription.ID, b.standing.Subscription.ID) },
	)
	err = h.cfg.Deliveries.Undelivered(ctx, q.Topic, q.Seq, func(s report.Standing, o report.Fate) bool {
		first.add(one{s, o.String()})
		return true
	})
	if err != nil {
		return a, fmt.Errorf("looking for who has not got it: %w", err)
	}
	found := first.sorted()
	if a.More = len(found) > MaxMissing; a.More {
		found = found[:MaxMissing]
	}
	rows, left := h.newRows(), rowBudget{}
	for _, o := range found {
		row := Missing{rows.row(ctx, o.standing), o.outcome}
		if row.Topic == q.Topic {
			row.Topic = ""
		}
		if !left.fits(row) {
			a.More = true
			break
		}
		a.Missing = append(a.Missing, row)
	}
	return a, rows.err
}

// Notification finds one by its ID, with those who have not got it. Where topic is empty all
// logs are looked through.
func (d *topicService) Notification(ctx context.Context, topic string, id uuid.UUID) (NotificationDetail, error) {
	n, err := d.found(ctx, topic, id)
	if err != nil {
		return NotificationDetail{}, err
	}
	parts, cover, err := gather(ctx, d.local, undelivered, undeliveredQuestion{n.Topic, n.Seq})
	if err != nil {
		return NotificationDetail{}, err
	}
	detail := NotificationDetail{Notification: n, Coverage: cover}
	first := newSmallest(MaxMissing+1, func(a, b Missing) int { return compareIDs(a.ID, b.ID) })
	for _, p := range parts {
		detail.Tally.add(p.result.Tally)
		detail.MissingMore = detail.MissingMore || p.result.More
		for _, m := range p.result.Missing {
			m.Topic = cmp.Or(m.Topic, n.Topic)
			first.add(m)
		}
	}
	detail.Missing = append([]Missing{}, first.sorted()...)
	if len(detail.Missing) > MaxMissing {
		detail.Missing, detail.MissingMore = detail.Missing[:MaxMissing], true
	}
	return detail, nil
}

// Fate gives the outcome of one notification, without the subscriptions that lack it.
func (d *topicService) Fate(ctx context.Context, topic string, id uuid.UUID) (Notification, Coverage, error) {
	n, err := d.found(ctx, topic, id)
	if err != nil {
		return Notification{}, Coverage{}, err
	}
	counts, cover, err := d.tallied(ctx, n.Topic, []delivery.Seq{n.Seq})
	if err != nil {
		return Notification{}, Coverage{}, err
	}
	n.Tally = counts[0]
	return n, cover, nil
}

// found is a notification as its log has it.
func (d *topicService) found(ctx context.Context, topicURL string, id uuid.UUID) (Notification, error) {
	key, s, err := d.find(ctx, topic.Key(topicURL), id)
	if err != nil {
		return Notification{}, err
	}
	n := notificationOf(key, s)
	if s.After > 0 && s.From != "" {
		older, err := d.cfg.Log.Summaries(ctx, key, s.Seq, 1)
		if err != nil {
			return Notification{}, fmt.Errorf("reading the log of %s: %w", key, err)
		}
		n.Break = len(older) == 1 && breaks(older[0], s)
	}
	return n, nil
}
