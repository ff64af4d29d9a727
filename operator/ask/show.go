package ask

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"carillon/operator"
)

// Show shows a subscription or a notification.
type Show struct {
	ID    uuid.UUID `arg:"" help:"The ID of a subscription, or of a notification, as X-Hub-Notification-Id has it."`
	Topic string    `env:"-" placeholder:"URL" help:"The ID is that of a notification of this topic. Without it all logs are looked through, which takes longer."`
}

// Help says what the flags do not.
func (*Show) Help() string {
	return "Of a notification: was it delivered to all? Subscriptions without it are listed. Of a subscription: its position, its latest attempts, which are in memory only, and its gaps."
}

// Run implements Command.
func (f *Show) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		if f.Topic == "" {
			var s operator.SubscriptionDetail
			text, err := c.read(ctx, "/subscriptions/"+f.ID.String(), &s)
			if !isStatus(err, http.StatusNotFound) {
				return call.show(
					text, err, func() error { return printSubscription(call.Stdout, s, c.Online || c.shared) },
				)
			}
		}
		var n operator.NotificationDetail
		text, err := c.read(ctx, "/notifications/"+f.ID.String()+query("topic", f.Topic), &n)
		if f.Topic == "" && (isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusBadRequest)) {
			return fmt.Errorf("there is no subscription and no notification %s", f.ID)
		}
		err = call.show(text, err, func() error { return printNotification(call.Stdout, n) })
		if err == nil && !call.JSON {
			printCoverage(call.Stderr, n.Coverage)
		}
		return err
	})
}

// printSubscription prints a subscription; running: hubs were asked, which remember attempts.
func printSubscription(stdout io.Writer, s operator.SubscriptionDetail, running bool) error {
	t := table(stdout)
	row(t, "subscription", s.ID)
	row(t, "topic", s.Topic)
	row(t, "callback", s.Callback)
	row(t, "state", stateText(s.Subscription))
	row(t, "position", fmt.Sprintf("%d; the newest is %d; it began after %d", s.Settled, s.Head, s.Start))
	if !s.LagSince.IsZero() {
		row(t, "waits since", moment(s.LagSince))
	}
	switch {
	case s.State == operator.StateInFlight:
		row(t, "next attempt", nextTry(s.Subscription))
	case !s.NextAttempt.IsZero():
		row(t, "next attempt", moment(s.NextAttempt))
	}
	if s.Replay != nil {
		row(t, "replay", fmt.Sprintf("%d to %d are delivered once more", s.Replay.Next, s.Replay.Last))
	}
	row(t, "lease ends", moment(s.Expires))
	row(t, "created", moment(s.Created))
	signed := "no: the callback cannot tell who sends"
	if s.Signed {
		signed = "yes"
	}
	row(t, "signed", signed)
	if s.Process != operator.Alone {
		row(t, "hub process", dash(s.Process))
	}
	if s.TestCallback {
		row(t, "listener", "yes: it is the hub's own test callback")
	}
	if !running {
		row(t, "attempts", "not known: attempts are in the memory of a hub that runs")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printAttempts(stdout, s.Attempts); err != nil {
		return err
	}
	return printGaps(stdout, s.Gaps)
}

func stateText(s operator.Subscription) string {
	if s.Failures == 0 {
		return s.State
	}
	return fmt.Sprintf(
		"%s: %s in a row, the last %s", s.State, count(int(s.Failures), "failure"),
		outcome(s.LastClass, s.LastStatus),
	)
}

func printAttempts(stdout io.Writer, attempts []operator.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	t := table(stdout)
	fmt.Fprintln(stdout)
	row(t, "ATTEMPT ENDED", "TOOK", "SEQ", "TRY", "OUTCOME", "ERROR")
	for _, a := range attempts {
		try := fmt.Sprint(a.Number)
		if a.Replay {
			try += ", replay"
		}
		row(t, ago(a.At), span(seconds(a.Seconds)), a.Seq, try, outcome(a.Class, a.Status), short(dash(a.Error), 60))
	}
	if err := t.Flush(); err != nil || !holes(attempts) {
		return err
	}
	_, err := fmt.Fprintln(
		stdout,
		"Deliveries are remembered for less long than failures: numbers that are not here may have been delivered.",
	)
	return err
}

// holes reports whether numbers are missing between attempts, the newest first.
func holes(attempts []operator.Attempt) bool {
	for i := 1; i < len(attempts); i++ {
		if attempts[i-1].Seq > attempts[i].Seq+1 {
			return true
		}
	}
	return false
}

func printGaps(stdout io.Writer, gaps []operator.Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	t := table(stdout)
	fmt.Fprintln(stdout)
	row(t, "NOT DELIVERED", "WHY", "CLASS", "SINCE", "REPLAYED")
	for _, g := range gaps {
		row(t, fmt.Sprintf("%d to %d", g.First, g.Last), g.Reason, dash(g.Class), ago(g.At), ago(g.Replayed))
	}
	return t.Flush()
}

func printNotification(stdout io.Writer, n operator.NotificationDetail) error {
	fmt.Fprintln(stdout, verdictOf(n.Tally, n.MissingShards))
	fmt.Fprintln(stdout)
	t := table(stdout)
	row(t, "notification", n.ID)
	row(t, "topic", n.Topic)
	row(t, "number", n.Seq)
	row(t, "accepted", moment(n.Accepted))
	row(t, "content", fmt.Sprintf("%s, %s", n.ContentType, size(n.Bytes)))
	if n.From != "" || n.Until != "" {
		row(t, "interval", fmt.Sprintf("%s to %s", dash(n.From), dash(n.Until)))
	}
	if n.Break {
		row(t, "break", "its from is not the until of the one before")
	}
	row(t, "subscriptions", fmt.Sprintf("%d: %d delivered, %d pending (%d failing), %d given up, %d trimmed",
		n.Tally.Subscribers, n.Tally.Delivered, n.Tally.Pending, n.Tally.Failing, n.Tally.GivenUp, n.Tally.Trimmed))
	if err := t.Flush(); err != nil || len(n.Missing) == 0 {
		return err
	}
	fmt.Fprintln(stdout)
	row(t, "OUTCOME", "CALLBACK HOST", "LAST FAILURE", "NEXT TRY", "SUBSCRIPTION")
	for _, m := range n.Missing {
		failure := "-"
		if m.Failures > 0 {
			failure = brief(m.LastClass, m.LastStatus)
		}
		row(t, m.Outcome, host(m.CallbackHost, 22), failure, nextTry(m.Subscription), m.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n.MissingMore {
		fmt.Fprintln(stdout, "… and more")
	}
	return nil
}

// verdictOf answers whether a notification was delivered to all.
func verdictOf(t operator.Tally, missing int) string {
	left := t.Subscribers - t.Delivered
	switch {
	case missing > 0:
		return fmt.Sprintf(
			"Delivered to %d of %d, as far as is known: %d of 64 shards did not answer.",
			t.Delivered, t.Subscribers, missing,
		)
	case t.Subscribers == 0:
		return "No subscription that stands now began before it."
	case left == 0:
		return fmt.Sprintf("Delivered to all: %d of %d.", t.Delivered, t.Subscribers)
	}
	return fmt.Sprintf("Not delivered to all: %d of %d have got it, %d have not.", t.Delivered, t.Subscribers, left)
}
