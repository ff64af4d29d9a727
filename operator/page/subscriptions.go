package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"carillon/operator"
	"carillon/operator/api"
)

// stateBehind is what a filter calls all states but idle.
const stateBehind = "behind"

// subscriptionPages show subscriptions, and repair and end them.
type subscriptionPages struct {
	*renderer
	desk interface {
		api.SubscriptionService
		Topic(ctx context.Context, topic string) (operator.Topic, error)
	}
}

// subscriptionList is the answer to a search for subscriptions.
type subscriptionList struct {
	operator.SubscriptionPage
	Query    url.Values // for the form to show again
	States   []string
	Filtered bool
	More     string
	First    string
}

// subscriptionQuery reads the filters.
func subscriptionQuery(q url.Values) (operator.SubscriptionQuery, error) {
	query := operator.SubscriptionQuery{
		Topic: strings.TrimSpace(q.Get("topic")), Contains: strings.TrimSpace(q.Get("contains")),
		Host: strings.TrimSpace(q.Get("host")), State: q.Get("state"), Gapped: q.Get("gapped") != "",
	}
	var err error
	if query.LagOver, err = durationOf(q, "lag_over", "“Lag over”"); err != nil {
		return query, err
	}
	if query.LeaseUnder, err = durationOf(q, "lease_under", "“Lease left under”"); err != nil {
		return query, err
	}
	if after := q.Get("after"); after != "" {
		query.After, err = idOf(after, "subscription")
	}
	return query, err
}

func (p *subscriptionPages) subscriptions(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	q := r.URL.Query()
	v := subscriptionList{Query: q, States: []string{
		stateBehind, operator.StateFailing, operator.StateReady, operator.StateInFlight, operator.StateIdle,
	}}
	s := sheet{Title: "Subscriptions", Here: "subscriptions"}
	query, err := subscriptionQuery(q)
	if err == nil {
		v.SubscriptionPage, err = p.desk.Subscriptions(ctx, query)
	}
	s.Error = p.errorPageFor(r, err)
	after := query.After
	query.After = uuid.Nil
	v.Filtered = query != operator.SubscriptionQuery{}
	if v.Next != "" {
		v.More = with(q, "after", v.Next)
	}
	if after != uuid.Nil {
		v.First = with(q, "after", "")
	}
	s.Body = v
	p.show(w, r, "subscriptions", s)
	return nil
}

// of hands a handler the subscription that the path names.
func (p *subscriptionPages) of(
	h func(w http.ResponseWriter, r *http.Request, sub operator.SubscriptionDetail) error,
) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := ask(r)
		defer cancel()
		id, err := idOf(mux.Vars(r)["id"], "subscription")
		if err != nil {
			return err
		}
		sub, err := p.desk.Subscription(ctx, id)
		if err != nil {
			return err
		}
		return h(w, r, sub)
	}
}

func (p *subscriptionPages) subscription(
	w http.ResponseWriter, r *http.Request, sub operator.SubscriptionDetail,
) error {
	p.show(w, r, "subscription", sheet{Title: "Subscription", Here: "subscriptions", Body: sub})
	return nil
}

// act asks about a change to a subscription, and makes it when the form is posted. Then it leads
// to the page next.
func (p *subscriptionPages) act(
	w http.ResponseWriter, r *http.Request, next, title string, sub operator.SubscriptionDetail, c confirm,
	do func(ctx context.Context) error,
) error {
	c.About, c.Back = sub.CallbackHost, subscriptionPath(sub.ID)
	return p.change(w, r, title, "subscriptions", c, do, func() error { return see(w, r, next) })
}

// retry makes the next attempt now.
func (p *subscriptionPages) retry(w http.ResponseWriter, r *http.Request, sub operator.SubscriptionDetail) error {
	says := "It has got everything: there is nothing to try at the moment."
	if sub.State != operator.StateIdle {
		says = fmt.Sprintf(
			"Its next delivery after number %s is tried now, and not when its turn comes.", number(sub.Settled),
		)
	}
	switch {
	case underWay(sub.State):
		says = "An attempt is under way at this moment. Look again when it has ended."
	case time.Now().Before(sub.NextAttempt):
		says = fmt.Sprintf("After %s in a row the next attempt would be at %s. It is made now. If it fails, too, that one comes as planned.",
			plural(int(sub.Failures), "failure", "failures"), utc(sub.NextAttempt))
	}
	return p.act(w, r, done(subscriptionPath(sub.ID), "retry"), "Retry now", sub, confirm{
		Says: []string{says}, Button: "Retry now",
	}, func(ctx context.Context) error {
		return p.desk.Retry(ctx, sub.ID)
	})
}

// replay delivers a stretch of the log once more.
func (p *subscriptionPages) replay(w http.ResponseWriter, r *http.Request, sub operator.SubscriptionDetail) error {
	if err := readForm(r); err != nil {
		return err
	}
	c := confirm{
		Says: []string{
			"These notifications are delivered to this one subscription again, in order, each with the ID that it had. What is new comes after them.",
			fmt.Sprintf(
				"It has settled everything up to number %s; the latest of its topic is %s. Gaps that the replay covers are closed.",
				number(sub.Settled), number(sub.Head),
			),
		},
		Button: "Replay",
		Fields: []field{
			{Name: "from_seq", Label: "From number", Value: r.Form.Get("from_seq"), Number: true, Required: true},
			{Name: "last_seq", Label: "To number", Value: r.Form.Get("last_seq"), Number: true, Hint: "Empty: up to the latest that it has settled."},
		},
	}
	ctx, cancel := ask(r)
	defer cancel()
	if topic, err := p.desk.Topic(ctx, sub.Topic); err == nil && topic.First <= topic.Head { // without it the numbers are left out
		c.Says = append(
			c.Says, fmt.Sprintf("The log of its topic has %s to %s.", number(topic.First), number(topic.Head)),
		)
	}
	return p.act(w, r, done(subscriptionPath(sub.ID), "replay"), "Replay a range", sub, c, func(ctx context.Context) error {
		from, err := seqOf(r.Form, "from_seq", "“From number”")
		if err != nil {
			return err
		}
		last, err := seqOf(r.Form, "last_seq", "“To number”")
		if err != nil {
			return err
		}
		if from == 0 {
			return invalid("“From number” must be 1 or more")
		}
		_, err = p.desk.Replay(ctx, sub.ID, from, last)
		return err
	})
}

// remove ends a subscription.
func (p *subscriptionPages) remove(w http.ResponseWriter, r *http.Request, sub operator.SubscriptionDetail) error {
	if err := readForm(r); err != nil {
		return err
	}
	c := confirm{
		Says: []string{
			"It gets nothing more from now on, not even notifications that are still pending. Its callback gets a denial (hub.mode=denied), and may subscribe again.",
		},
		Button: "Remove it", Danger: true,
		Fields: []field{{
			Name: "reason", Label: "Reason for the callback", Value: r.Form.Get("reason"),
			Hint: fmt.Sprintf("Optional, one line; %d bytes at most.", operator.MaxReason),
		}},
	}
	return p.act(w, r, done("/subscriptions", "remove"), "Remove a subscription", sub, c, func(ctx context.Context) error {
		return p.desk.Remove(ctx, sub.ID, strings.TrimSpace(r.Form.Get("reason")))
	})
}
