package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"carillon/operator"
)

// subscriptionsCommand lists subscriptions.
type subscriptionsCommand struct {
	askFlags
	pageFlags

	Topic      string        `env:"-" placeholder:"URL" help:"Only subscriptions to this topic."`
	Contains   string        `env:"-" placeholder:"TEXT" help:"Only those with this in the callback's host or in the topic, in any case of letters, or with this ID."`
	Host       string        `env:"-" placeholder:"TEXT" help:"Only those with this in the callback's host."`
	State      string        `env:"-" placeholder:"STATE" enum:"idle,ready,in_flight,failing,behind," default:"" help:"Only those in this state: idle (has got everything), ready (waits for its turn), in_flight, failing (its last attempt failed), or behind, which is all but idle."`
	Gapped     bool          `env:"-" help:"Only those with gaps: notifications that they did not get."`
	LagOver    time.Duration `env:"-" placeholder:"DURATION" help:"Only those whose first notification to come was accepted longer ago."`
	LeaseUnder time.Duration `env:"-" placeholder:"DURATION" help:"Only those whose lease ends sooner."`
}

// Validate refuses what cannot be asked.
func (f *subscriptionsCommand) Validate() error {
	if f.LagOver < 0 || f.LeaseUnder < 0 {
		return fmt.Errorf("--lag-over and --lease-under must be more than 0")
	}
	if err := f.pageFlags.Validate(); err != nil {
		return err
	}
	return f.askFlags.Validate()
}

func (f *subscriptionsCommand) query(after string, limit int) string {
	gapped, lag, lease := "", "", ""
	if f.Gapped {
		gapped = "true"
	}
	if f.LagOver > 0 {
		lag = f.LagOver.String()
	}
	if f.LeaseUnder > 0 {
		lease = f.LeaseUnder.String()
	}
	return query("topic", f.Topic, "contains", f.Contains, "host", f.Host, "state", f.State, "gapped", gapped,
		"lag_over", lag, "lease_under", lease, "after", after, "limit", strconv.Itoa(limit))
}

func (f *subscriptionsCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		t := table(stdout)
		if !f.JSON {
			row(t, "STATE", "LAG", "LEASE", "ID", "CALLBACK HOST", "TOPIC")
		}
		hosts, topics := 22, max(16, min(60, columns(stdout)-84)) // of 100 columns, or more
		if columns(stdout) >= 120 {
			hosts, topics = 32, max(16, min(60, columns(stdout)-94))
		}
		var last operator.SubscriptionPage
		shown := 0
		next, err := f.pages(func(after string, limit int) (string, error) {
			last = operator.SubscriptionPage{}
			text, err := c.read(ctx, "/subscriptions"+f.query(after, limit), &last)
			if err != nil {
				return "", err
			}
			if f.JSON {
				return last.Next, printJSON(stdout, text)
			}
			for _, s := range last.Subscriptions {
				row(t, stateOf(s), lagOf(s), span(seconds(s.LeaseSeconds)), s.ID, host(s.CallbackHost, hosts), short(s.Topic, topics))
			}
			shown += len(last.Subscriptions)
			return last.Next, t.Flush()
		})
		if err == nil && !f.JSON {
			fmt.Fprintf(stderr, "hub: %d of %s\n", shown, count(last.Matching, "subscription"))
			tellMore(stderr, next)
			tellCoverage(stderr, last.Coverage)
		}
		return err
	})
}

// stateOf is the state in a word or two.
func stateOf(s operator.Subscription) string {
	if s.Gapped {
		return s.State + ", gaps"
	}
	return s.State
}

func lagOf(s operator.Subscription) string {
	if s.LagSeconds == 0 {
		return "-"
	}
	return span(seconds(s.LagSeconds))
}
