package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
	"carillon/topic"
)

// countedOnce is how many matching subscriptions are known not to be counted twice; beyond
// it one that moves in the table while it is walked may be.
const countedOnce = 100_000

// subscriptionRows asks for the first subscriptions by ID that a query is true of.
var subscriptionRows = kind[SubscriptionQuery, rowsReply]{name: "subscriptions", handle: (*local).subscriptionRows}

type rowsReply struct {
	Rows     []Subscription `json:"rows"`
	Matching int            `json:"matching"`
	// Cut: there are more behind the last of Rows, and so it is not known what comes between.
	Cut bool `json:"cut"`
}

func (h *local) subscriptionRows(ctx context.Context, q SubscriptionQuery) (rowsReply, error) {
	var a rowsReply
	if h.cfg.Deliveries == nil {
		return a, nil
	}
	rows := h.newRows()
	matches, err := q.matcher(ctx, rows)
	if err != nil {
		return a, err
	}
	first := newSmallest(
		bounded(q.Limit)+1,
		func(a, b report.Standing) int { return compareIDs(a.Subscription.ID, b.Subscription.ID) },
	)
	seen := map[subscription.ID]struct{}{}
	visit := func(s report.Standing) bool {
		id := s.Subscription.ID
		if _, twice := seen[id]; twice || !matches(s) {
			return rows.err == nil
		}
		if len(seen) < countedOnce {
			seen[id] = struct{}{}
		}
		a.Matching++
		if compareIDs(id, q.After) > 0 {
			first.add(s)
		}
		return rows.err == nil
	}
	if id, err := uuid.Parse(q.Contains); err == nil {
		if s, there := h.cfg.Deliveries.Standing(id); there {
			visit(s)
		}
	} else if err := h.cfg.Deliveries.Each(ctx, topic.Key(q.Topic), visit); err != nil {
		return a, fmt.Errorf("looking through the subscriptions: %w", err)
	}
	var left rowBudget
	for i, s := range first.sorted() {
		row := rows.row(ctx, s)
		if a.Cut = i == bounded(q.Limit) || !left.fits(row); a.Cut {
			break
		}
		a.Rows = append(a.Rows, row)
	}
	return a, rows.err
}

// matcher returns what reports whether a query is true of a subscription, but for After.
func (q SubscriptionQuery) matcher(ctx context.Context, rows *rows) (func(report.Standing) bool, error) {
	switch q.State {
	case "", StateBehind, StateIdle, StateReady, StateInFlight, StateFailing:
	default:
		return nil, fmt.Errorf("%w: there is no state %.40q: it is %s, %s, %s, %s or %s", ErrInvalid, q.State,
			StateIdle, StateReady, StateInFlight, StateFailing, StateBehind)
	}
	key, part := topic.Key(q.Topic), strings.ToLower(q.Contains)
	contains, host := serverMatcher(q.Contains), serverMatcher(q.Host)
	_, byID := uuid.Parse(q.Contains)
	return func(s report.Standing) bool {
		switch state := rows.state(s); {
		case q.State == StateBehind && state == StateIdle, q.State != "" && q.State != StateBehind && q.State != state:
			return false
		case q.Gapped && !s.Gapped:
			return false
		case q.LeaseUnder > 0 && s.Subscription.Expires.Sub(rows.now) >= q.LeaseUnder:
			return false
		case key != "" && topic.Key(s.Subscription.Topic) != key:
			return false
		}
		if q.Host != "" || part != "" && byID != nil {
			at := topic.Origin(s.Subscription.Callback)
			if !host(at) || byID != nil && !contains(at) && !strings.Contains(
				strings.ToLower(s.Subscription.Topic), part,
			) {
				return false
			}
		}
		return q.LagOver <= 0 || rows.lagsOver(ctx, s, q.LagOver)
	}, nil
}

// serverMatcher returns a function that reports whether text is a part of a server's address, as
// topic.Origin returns that, or is all of the address, or of host and port, in any spelling.
func serverMatcher(text string) func(origin string) bool {
	part := strings.ToLower(text)
	if _, after, found := strings.Cut(text, "://"); found && strings.ContainsAny(after, "/?#@") ||
		!found && strings.ContainsAny(text, "/?#@") {
		return func(origin string) bool { return strings.Contains(origin, part) }
	}
	spelled := [...]string{topic.Origin(text), topic.Origin("http://" + text), topic.Origin("https://" + text)}
	return func(origin string) bool {
		return strings.Contains(origin, part) || slices.Contains(spelled[:], origin)
	}
}

// StateBehind, in a query, is every state but idle.
const StateBehind = "behind"

// rows makes the rows of one answer. It reads each part of the logs once.
type rows struct {
	here   *local
	now    time.Time
	first  map[logPosition]delivery.Summary // the first notification behind a place
	cutoff map[string]delivery.Seq          // of a topic: see lagsOver
	err    error                            // the first of the log
}

type logPosition struct {
	topic string
	from  delivery.Seq
}

func (h *local) newRows() *rows {
	return &rows{here: h, now: time.Now(), first: map[logPosition]delivery.Summary{}, cutoff: map[string]delivery.Seq{}}
}

// state is the state of a subscription; without a running hub its place in the log decides.
func (*rows) state(s report.Standing) string {
	switch behind := s.Position.Settled < s.Head || s.Position.ReplayNext != 0; {
	case s.State == report.StateInFlight:
		return StateInFlight
	case s.State == report.StateFailing, behind && s.Position.Failures > 0:
		return StateFailing
	case s.State == report.StateReady, behind:
		return StateReady
	}
	return StateIdle
}

// row shows a subscription as lists do.
func (r *rows) row(ctx context.Context, s report.Standing) Subscription {
	sub := s.Subscription
	row := Subscription{
		ID: sub.ID, Topic: sub.Topic, CallbackHost: topic.Origin(sub.Callback), State: r.state(s), Process: r.here.self, Signed: s.Signed,
		Created: sub.Created.UTC(), Expires: sub.Expires.UTC(), LeaseSeconds: max(0, sub.Expires.Sub(r.now).Seconds()),
		Start: delivery.Seq(sub.Start), Settled: s.Position.Settled, Head: max(s.Head, s.Position.Settled), Gapped: s.Gapped,
		Failures: s.Position.Failures, TestCallback: strings.HasPrefix(sub.Callback, ListenOrigin+"/"),
	}
	if row.Failures > 0 {
		row.LastClass, row.LastStatus = s.Position.LastFailure.String(), s.Position.LastStatus
		row.NextAttempt = s.Position.NextAttempt.UTC()
	}
	if s.Position.ReplayNext != 0 {
		row.Replay = &Replay{Next: s.Position.ReplayNext, Last: s.Position.ReplayLast}
	}
	if row.Settled < row.Head {
		if since := r.waitingSince(ctx, topic.Key(sub.Topic), row.Settled); !since.IsZero() {
			row.LagSince, row.LagSeconds = since.UTC(), max(0, r.now.Sub(since).Seconds())
		}
	}
	return row
}

// waitingSince is when the first notification behind a place was accepted; zero where there is
// none, or it cannot be read.
func (r *rows) waitingSince(ctx context.Context, key string, settled delivery.Seq) time.Time {
	at := logPosition{key, settled}
	s, known := r.first[at]
	if !known && r.err == nil {
		var err error
		if s, err = r.here.cfg.Log.Summary(ctx, key, settled+1); err != nil && !errors.Is(err, delivery.ErrEndOfLog) {
			r.err = fmt.Errorf("reading the log of %s: %w", key, err)
		}
		r.first[at] = s
	}
	return s.Accepted
}

// lagsOver reports whether the first pending notification of a subscription was accepted longer ago.
// Its number is looked for once for each topic.
func (r *rows) lagsOver(ctx context.Context, s report.Standing, lag time.Duration) bool {
	if s.Position.Settled >= s.Head || r.err != nil {
		return false
	}
	key := topic.Key(s.Subscription.Topic)
	last, known := r.cutoff[key]
	if !known {
		last, r.err = r.here.lastBefore(ctx, key, r.now.Add(-lag))
		r.cutoff[key] = last
	}
	return s.Position.Settled < last
}

// lastBefore returns the number of the last notification that is kept and was accepted before
// a time, 0 without one.
func (h *local) lastBefore(ctx context.Context, key string, t time.Time) (delivery.Seq, error) {
	state, err := h.cfg.Log.State(ctx, key)
	if err != nil || state.Head == 0 || state.First > state.Head {
		return 0, err
	}
	at, err := h.cfg.locate(
		ctx, key, state.First, state.Head, func(s delivery.Summary) bool { return !s.Accepted.Before(t) },
	)
	if err != nil || at <= state.First {
		return 0, err
	}
	before, err := h.cfg.Log.Summaries(ctx, key, at, 1)
	if err != nil || len(before) == 0 {
		return 0, err
	}
	return before[0].Seq, nil
}

// Subscriptions gives a page of subscriptions.
func (d *subscriptionService) Subscriptions(ctx context.Context, q SubscriptionQuery) (SubscriptionPage, error) {
	q.Limit = bounded(q.Limit)
	if _, err := q.matcher(ctx, &rows{}); err != nil {
		return SubscriptionPage{}, err
	}
	parts, cover, err := gather(ctx, d.local, subscriptionRows, q)
	if err != nil {
		return SubscriptionPage{}, err
	}
	page := SubscriptionPage{Subscriptions: []Subscription{}, Coverage: cover}
	all := newSmallest(q.Limit+1, func(a, b Subscription) int { return compareIDs(a.ID, b.ID) })
	var end *subscription.ID // beyond it some processes may have more
	for _, p := range parts {
		page.Matching += p.result.Matching
		for _, row := range p.result.Rows {
			all.add(row)
		}
		if n := len(p.result.Rows); p.result.Cut && n > 0 {
			if last := p.result.Rows[n-1].ID; end == nil || compareIDs(last, *end) < 0 {
				end = &last
			}
		}
	}
	for _, row := range all.sorted() {
		if len(page.Subscriptions) == q.Limit || end != nil && compareIDs(row.ID, *end) > 0 {
			page.Next = page.Subscriptions[len(page.Subscriptions)-1].ID.String()
			return page, nil
		}
		page.Subscriptions = append(page.Subscriptions, row)
	}
	if end != nil {
		page.Next = end.String()
	}
	return page, nil
}

// subscriptionDetail asks who holds a subscription for all about it.
var subscriptionDetail = kind[subscription.ID, detailReply]{name: "subscription", handle: (*local).subscriptionDetail}

type detailReply struct {
	Found  bool                `json:"found"`
	Detail *SubscriptionDetail `json:"detail,omitempty"`
}

// gapsShown is how many gaps a SubscriptionDetail names.
const gapsShown = 100

func (h *local) subscriptionDetail(ctx context.Context, id subscription.ID) (detailReply, error) {
	if h.cfg.Deliveries == nil {
		return detailReply{}, nil
	}
	s, there := h.cfg.Deliveries.Standing(id)
	if !there {
		return detailReply{}, nil
	}
	rows := h.newRows()
	d := SubscriptionDetail{
		Subscription: rows.row(ctx, s), Callback: s.Subscription.Callback, Attempts: []Attempt{}, Gaps: []Gap{},
	}
	for _, a := range h.cfg.Deliveries.Attempts(id) {
		d.Attempts = append(d.Attempts, attemptOf(a))
	}
	gaps, err := h.cfg.Cursors.Gaps(ctx, id, gapsShown)
	if err != nil {
		return detailReply{}, fmt.Errorf("reading the gaps: %w", err)
	}
	for _, g := range gaps {
		d.Gaps = append(d.Gaps, gapOf(g))
	}
	return detailReply{true, &d}, rows.err
}

func attemptOf(a report.Attempt) Attempt {
	return Attempt{
		At: a.At.UTC(), Seconds: a.Took.Seconds(), Seq: a.Seq, Number: a.Number, Class: a.Class.String(), Status: a.Status,
		Error: a.Error, Replay: a.Replay,
	}
}

func gapOf(g delivery.Gap) Gap {
	shown := Gap{First: g.First, Last: g.Last, Reason: g.Reason.String(), At: g.At.UTC()}
	if g.Failure != delivery.ClassNone {
		shown.Class = g.Failure.String()
	}
	if !g.Replayed.IsZero() {
		shown.Replayed = g.Replayed.UTC()
	}
	return shown
}

// Subscription says all about one subscription.
func (d *subscriptionService) Subscription(ctx context.Context, id subscription.ID) (SubscriptionDetail, error) {
	parts, cover, err := gather(ctx, d.local, subscriptionDetail, id)
	if err != nil {
		return SubscriptionDetail{}, err
	}
	for _, p := range parts {
		if p.result.Found && p.result.Detail != nil {
			return *p.result.Detail, nil
		}
	}
	return SubscriptionDetail{}, d.absent(ctx, id, cover)
}

// absent states why no answer has a subscription.
func (d *subscriptionService) absent(ctx context.Context, id subscription.ID, cover Coverage) error {
	_, err := d.cfg.Subscriptions.Get(ctx, id)
	switch {
	case err == nil && cover.MissingShards > 0:
		return fmt.Errorf(
			"%w: no process that answered holds the shard of subscription %s at the moment: %s",
			ErrUnavailable, id, strings.Join(cover.Trouble, "; "),
		)
	case err == nil:
		return fmt.Errorf("%w: subscription %s has just changed; try again", ErrUnavailable, id)
	case !errors.Is(err, subscription.ErrNotFound):
		return fmt.Errorf("reading subscription %s: %w", id, err)
	}
	if r, err := d.cfg.Subscriptions.Request(ctx, id); err == nil {
		return fmt.Errorf("%w: there is no subscription %s yet: a request to %s, received %s, waits to be verified",
			ErrNotFound, id, r.Mode, r.Received.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%w: there is no subscription %s", ErrNotFound, id)
}
