package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"carillon/delivery"
	"carillon/operator"
)

// Topics lists topics.
type Topics struct {
	pageFlags

	Contains string `env:"-" placeholder:"TEXT" help:"Only topics whose URL has this in it, in any case of letters."`
	Failing  bool   `env:"-" help:"Only topics with a subscription whose last attempt failed."`
}

// Run implements Command.
func (f *Topics) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		t := table(call.Stdout)
		if !call.JSON {
			row(t, "SUBSCRIBERS", "BEHIND", "FAILING", "HEAD", "KEPT", "PUBLISHED", "TOPIC")
		}
		var last operator.Coverage
		next, err := f.pages(func(after string, limit int) (string, error) {
			var page operator.TopicPage
			text, err := c.read(
				ctx,
				"/topics"+query("contains", f.Contains, "failing", f.Failing, "after", after, "limit", limit),
				&page,
			)
			if err != nil {
				return "", err
			}
			if last = page.Coverage; call.JSON {
				return page.Next, printJSON(call.Stdout, text)
			}
			for _, topic := range page.Topics {
				row(
					t, topic.Subscriptions, topic.Behind, topic.Failing, topic.Head,
					size(topic.Bytes), ago(topic.Published), topic.Topic,
				)
			}
			return page.Next, t.Flush()
		})
		if err == nil && !call.JSON {
			printMore(call.Stderr, next)
			printCoverage(call.Stderr, last)
		}
		return err
	})
}

// Topic shows a topic with its notifications.
type Topic struct {
	URL    string       `arg:"" help:"The topic's URL."`
	Limit  int          `env:"-" default:"20" placeholder:"N" help:"Print so many notifications, the newest first: 1 to 1000."`
	Before delivery.Seq `env:"-" placeholder:"SEQ" help:"Only notifications with numbers below this."`
}

// Validate refuses what cannot be asked.
func (f *Topic) Validate() error { return checkLimit(f.Limit) }

// Help says what the flags do not.
func (*Topic) Help() string {
	return "For each notification it counts the subscriptions that exist now and began before it: how many have " +
		"it, and how many do not. The latter are pending (failing ones had a failure last), given up, or " +
		"trimmed from the log before. With --json: the API's answer for its notifications ({\"notifications\": " +
		"[…], …}), and \"topic\", its answer for the topic."
}

// Run implements Command.
func (f *Topic) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		var topic operator.Topic
		about, err := c.read(ctx, "/topic"+query("topic", f.URL), &topic)
		if err != nil {
			return err
		}
		var page operator.NotificationPage
		_, err = c.read(ctx, "/notifications"+query("topic", f.URL, "before", f.Before, "limit", f.Limit), &page)
		if err != nil {
			return err
		}
		if call.JSON {
			both, err := json.Marshal(struct {
				Topic json.RawMessage `json:"topic"`
				operator.NotificationPage
			}{about, page})
			if err != nil {
				return err
			}
			return printJSON(call.Stdout, both)
		}
		if err := printTopic(call.Stdout, topic, page); err != nil {
			return err
		}
		if page.Next > 0 {
			fmt.Fprintf(call.Stderr, "hub: there are older ones: --before %d\n", page.Next)
		}
		printCoverage(call.Stderr, page.Coverage)
		return nil
	})
}

func printTopic(stdout io.Writer, topic operator.Topic, page operator.NotificationPage) error {
	t := table(stdout)
	row(t, "topic", topic.Topic)
	row(t, "subscriptions", fmt.Sprintf("%d, %d behind, %d failing", topic.Subscriptions, topic.Behind, topic.Failing))
	switch {
	case topic.Head == 0:
		row(t, "log", "nothing was ever published")
	case topic.First > topic.Head:
		row(t, "log", fmt.Sprintf("empty; the last number was %d", topic.Head))
		row(t, "published", moment(topic.Published))
	default:
		row(t, "log", fmt.Sprintf("numbers %d to %d, %s", topic.First, topic.Head, size(topic.Bytes)))
		row(t, "published", moment(topic.Published))
		row(t, "oldest kept", moment(topic.Oldest))
	}
	if topic.LastUntil != "" {
		row(t, "until", topic.LastUntil)
	}
	if topic.Breaks > 0 {
		row(t, "breaks", fmt.Sprintf("%s of the from/until chain since the hub began", count(topic.Breaks, "break")))
	}
	if err := t.Flush(); err != nil || len(page.Notifications) == 0 {
		return err
	}
	fmt.Fprintln(stdout)
	row(t, "SEQ", "ACCEPTED", "SIZE", "DELIVERED", "PENDING", "FAILING", "GIVEN UP", "TRIMMED", "ID")
	for _, n := range page.Notifications {
		row(t, n.Seq, ago(n.Accepted), size(n.Bytes), fmt.Sprintf("%d/%d", n.Tally.Delivered, n.Tally.Subscribers),
			n.Tally.Pending, n.Tally.Failing, n.Tally.GivenUp, n.Tally.Trimmed, n.ID)
	}
	return t.Flush()
}
