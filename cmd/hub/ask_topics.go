package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"carillon/delivery"
	"carillon/internal/legible"
	"carillon/operator"
)

// topicsCommand lists topics.
type topicsCommand struct {
	askFlags
	pageFlags

	Contains string `env:"-" placeholder:"TEXT" help:"Only topics whose URL has this in it, in any case of letters."`
	Failing  bool   `env:"-" help:"Only topics with a subscription whose last attempt failed."`
}

// Validate refuses what cannot be asked.
func (f *topicsCommand) Validate() error {
	if err := f.pageFlags.Validate(); err != nil {
		return err
	}
	return f.askFlags.Validate()
}

func (f *topicsCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		t := table(stdout)
		if !f.JSON {
			row(t, "SUBSCRIBERS", "BEHIND", "FAILING", "HEAD", "KEPT", "PUBLISHED", "TOPIC")
		}
		failing := ""
		if f.Failing {
			failing = "true"
		}
		var last operator.Coverage
		next, err := f.pages(func(after string, limit int) (string, error) {
			var page operator.TopicPage
			text, err := c.read(ctx, "/topics"+query("contains", f.Contains, "failing", failing, "after", after, "limit", strconv.Itoa(limit)), &page)
			if err != nil {
				return "", err
			}
			if last = page.Coverage; f.JSON {
				return page.Next, printJSON(stdout, text)
			}
			for _, topic := range page.Topics {
				row(t, topic.Subscriptions, topic.Behind, topic.Failing, topic.Head, size(topic.Bytes), ago(topic.Published), topic.Topic)
			}
			return page.Next, t.Flush()
		})
		if err == nil && !f.JSON {
			tellMore(stderr, next)
			tellCoverage(stderr, last)
		}
		return err
	})
}

// tellMore says how to see what comes next.
func tellMore(stderr io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(stderr, "hub: there are more: --all, or --after %s\n", quoted(next))
	}
}

// quoted is a word for a shell, which does nothing with what is in it: topics are URLs of
// strangers.
func quoted(word string) string {
	for _, r := range word {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '/' || r == ':' || r == '_') {
			return "'" + strings.ReplaceAll(legible.Text(word), "'", `'\''`) + "'"
		}
	}
	return word
}

// topicCommand shows a topic with its notifications.
type topicCommand struct {
	askFlags

	URL    string       `arg:"" help:"The topic's URL."`
	Limit  int          `env:"-" default:"20" placeholder:"N" help:"Print so many notifications, the newest first: 1 to 1000."`
	Before delivery.Seq `env:"-" placeholder:"SEQ" help:"Only notifications with numbers below this."`
}

// Validate refuses what cannot be asked.
func (f *topicCommand) Validate() error {
	if err := (&pageFlags{Limit: f.Limit}).Validate(); err != nil {
		return err
	}
	return f.askFlags.Validate()
}

// Help says what the flags do not.
func (*topicCommand) Help() string {
	return "Of each notification: how many subscriptions it is for (those that stand now and began before it), how many have got it, and how many have not: " +
		"pending, of which failing ones had a failure last; given up; or trimmed from the log before they got it. " +
		"With --json: what the API answers for its notifications ({\"notifications\": […], …}), and \"topic\", what it answers for the topic."
}

func (f *topicCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		var topic operator.Topic
		about, err := c.read(ctx, "/topic"+query("topic", f.URL), &topic)
		if err != nil {
			return err
		}
		before := ""
		if f.Before > 0 {
			before = strconv.FormatUint(uint64(f.Before), 10)
		}
		var page operator.NotificationPage
		_, err = c.read(ctx, "/notifications"+query("topic", f.URL, "before", before, "limit", strconv.Itoa(f.Limit)), &page)
		if err != nil {
			return err
		}
		if f.JSON {
			both, err := json.Marshal(struct {
				Topic json.RawMessage `json:"topic"`
				operator.NotificationPage
			}{about, page})
			if err != nil {
				return err
			}
			return printJSON(stdout, both)
		}
		if err := printTopic(stdout, topic, page); err != nil {
			return err
		}
		if page.Next > 0 {
			fmt.Fprintf(stderr, "hub: there are older ones: --before %d\n", page.Next)
		}
		tellCoverage(stderr, page.Coverage)
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

// trimCommand removes the oldest notifications of a topic.
type trimCommand struct {
	askFlags
	sureFlags

	URL    string       `arg:"" help:"The topic's URL."`
	Before delivery.Seq `env:"-" required:"" placeholder:"SEQ" help:"The number of the first notification that stays. One more than the newest: none stays."`
}

// Help says what the flags do not.
func (*trimCommand) Help() string {
	return "Those that somebody still waits for go, too, who then has a gap, which is recorded. Logs are trimmed by themselves (--keep-bytes, --keep-for of the hub): this is for what must not be delivered any more. " + sureHelp
}

// sureHelp is in the help of commands with sureFlags.
const sureHelp = "On a terminal it asks whether it is meant, unless --yes says so; elsewhere it needs --yes."

func (f *trimCommand) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		var topic operator.Topic
		if _, err := c.read(ctx, "/topic"+query("topic", f.URL), &topic); err != nil {
			return err
		}
		if topic.Head > 0 && f.Before > topic.Head+1 { // it was to be another number, or another topic
			return fmt.Errorf("--before %d is beyond the newest, which is %d: give %d at most", f.Before, topic.Head, topic.Head+1)
		}
		what := fmt.Sprintf("The notifications of %s with numbers below %d go (it has %d to %d; %s behind)",
			legible.Text(topic.Topic), f.Before, topic.First, topic.Head, count(topic.Behind, "subscription"))
		if err := f.sure(stdin, stderr, what); err != nil {
			return err
		}
		var done operator.TrimResult
		text, err := c.do(ctx, "POST", "/topic/trim", map[string]any{"topic": f.URL, "before_seq": f.Before}, &done)
		if err != nil {
			return err
		}
		tellCoverage(stderr, operator.Coverage{Trouble: done.Trouble})
		if f.JSON {
			return printJSON(stdout, text)
		}
		_, err = fmt.Fprintf(stdout, "hub trimmed %s: %s and %s went\n", legible.Text(topic.Topic), count(done.Notifications, "notification"), size(done.Bytes))
		return err
	})
}
