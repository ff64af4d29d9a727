package ask

import (
	"context"
	"fmt"
	"time"

	"carillon/operator"
)

// Subscriptions lists subscriptions.
type Subscriptions struct {
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
func (f *Subscriptions) Validate() error {
	if f.LagOver < 0 || f.LeaseUnder < 0 {
		return fmt.Errorf("--lag-over and --lease-under must be more than 0")
	}
	return f.pageFlags.Validate()
}

func (f *Subscriptions) query(after string, limit int) string {
	return query("topic", f.Topic, "contains", f.Contains, "host", f.Host, "state", f.State, "gapped", f.Gapped,
		"lag_over", f.LagOver, "lease_under", f.LeaseUnder, "after", after, "limit", limit)
}

// Run implements Command.
func (f *Subscriptions) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		t := table(call.Stdout)
		if !call.JSON {
			row(t, "STATE", "LAG", "LEASE", "ID", "CALLBACK HOST", "TOPIC")
		}
		hosts, topics := 22, max(16, min(60, columns(call.Stdout)-84)) // of 100 columns, or more
		if columns(call.Stdout) >= 120 {
			hosts, topics = 32, max(16, min(60, columns(call.Stdout)-94))
		}
		var last operator.SubscriptionPage
		shown := 0
		next, err := f.pages(func(after string, limit int) (string, error) {
			last = operator.SubscriptionPage{}
			text, err := c.read(ctx, "/subscriptions"+f.query(after, limit), &last)
			if err != nil {
				return "", err
			}
			if call.JSON {
				return last.Next, printJSON(call.Stdout, text)
			}
			for _, s := range last.Subscriptions {
				row(
					t, stateOf(s), lagOf(s), span(seconds(s.LeaseSeconds)), s.ID,
					host(s.CallbackHost, hosts), short(s.Topic, topics),
				)
			}
			shown += len(last.Subscriptions)
			return last.Next, t.Flush()
		})
		if err == nil && !call.JSON {
			fmt.Fprintf(call.Stderr, "hub: %d of %s\n", shown, count(last.Matching, "subscription"))
			printMore(call.Stderr, next)
			printCoverage(call.Stderr, last.Coverage)
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
