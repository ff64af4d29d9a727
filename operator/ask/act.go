package ask

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/legible"
	"carillon/operator"
	"carillon/operator/api"
)

// Retry makes the next attempt of a subscription now.
type Retry struct {
	ID uuid.UUID `arg:"" help:"The subscription's ID."`
}

// Run implements Command.
func (f *Retry) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		text, err := c.do(ctx, http.MethodPost, "/subscriptions/"+f.ID.String()+"/retry", nil, nil)
		return call.say(text, err, "hub tries %s again%s", f.ID, c.when())
	})
}

// Replay delivers a stretch of a log to one subscription once more.
type Replay struct {
	ID   uuid.UUID    `arg:"" help:"The subscription's ID."`
	From delivery.Seq `env:"-" required:"" placeholder:"SEQ" help:"The number of the first notification that is delivered once more. hub topic URL has the numbers."`
	To   delivery.Seq `env:"-" placeholder:"SEQ" help:"The number of the last. Default: the newest."`
}

// Validate refuses numbers that no stretch has.
func (f *Replay) Validate() error {
	switch {
	case f.From == 0:
		return errors.New("--from is the number of a notification: 1 or more")
	case f.To != 0 && f.To < f.From:
		return fmt.Errorf("--to %d comes before --from %d", f.To, f.From)
	}
	return nil
}

// Help says what the flags do not.
func (*Replay) Help() string {
	return "In order, with the same X-Hub-Notification-Id; new publications come after it. Gaps that are filled by it count as delivered."
}

// Run implements Command.
func (f *Replay) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		var r operator.Replay
		text, err := c.do(
			ctx, http.MethodPost, "/subscriptions/"+f.ID.String()+"/replay",
			api.ReplayRequest{From: f.From, Last: f.To}, &r,
		)
		return call.say(text, err, "hub delivers %d to %d to %s once more%s", r.Next, r.Last, f.ID, c.when())
	})
}

// Remove ends a subscription.
type Remove struct {
	sureFlags

	ID     uuid.UUID `arg:"" help:"The subscription's ID."`
	Reason string    `env:"-" placeholder:"TEXT" help:"Reason that the callback gets, in one line."`
}

// Help says what the flags do not.
func (*Remove) Help() string {
	return "A running hub sends the callback hub.mode=denied with the reason (WebSub §5.2). Its owner may subscribe again. " + sureHelp
}

// Run implements Command.
func (f *Remove) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		path := "/subscriptions/" + f.ID.String()
		var s operator.SubscriptionDetail
		if _, err := c.read(ctx, path, &s); err != nil {
			return err
		}
		what := fmt.Sprintf("The subscription of %s to %s ends", legible.Text(s.Callback), legible.Text(s.Topic))
		if err := f.sure(call, what); err != nil {
			return err
		}
		text, err := c.do(ctx, http.MethodDelete, path+query("reason", f.Reason), nil, nil)
		return call.say(text, err, "hub removed %s", f.ID)
	})
}

// Trim removes the oldest notifications of a topic.
type Trim struct {
	sureFlags

	URL    string       `arg:"" help:"The topic's URL."`
	Before delivery.Seq `env:"-" required:"" placeholder:"SEQ" help:"The number of the first notification that stays. One more than the newest: none stays."`
}

// Help says what the flags do not.
func (*Trim) Help() string {
	return "Those that a subscription still waits for go, too; it then has a recorded gap. Logs are trimmed by themselves (--keep-bytes, --keep-for of the hub): this is for notifications that must not be delivered any more. " + sureHelp
}

// Run implements Command.
func (f *Trim) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Everything, func(c *Client) error {
		var topic operator.Topic
		if _, err := c.read(ctx, "/topic"+query("topic", f.URL), &topic); err != nil {
			return err
		}
		if topic.Head > 0 && f.Before > topic.Head+1 { // it was to be another number, or another topic
			return fmt.Errorf(
				"--before %d is beyond the newest, which is %d: give %d at most", f.Before, topic.Head, topic.Head+1,
			)
		}
		what := fmt.Sprintf("The notifications of %s with numbers below %d go (it has %d to %d; %s behind)",
			legible.Text(topic.Topic), f.Before, topic.First, topic.Head, count(topic.Behind, "subscription"))
		if err := f.sure(call, what); err != nil {
			return err
		}
		var done operator.TrimResult
		text, err := c.do(ctx, http.MethodPost, "/topic/trim", api.TrimRequest{Topic: f.URL, Before: f.Before}, &done)
		if err != nil {
			return err
		}
		printCoverage(call.Stderr, operator.Coverage{Trouble: done.Trouble})
		return call.say(
			text, nil, "hub trimmed %s: %s and %s went", legible.Text(topic.Topic),
			count(done.Notifications, "notification"), size(done.Bytes),
		)
	})
}

// LogLevel asks for the level of a running hub's log lines, or changes it.
type LogLevel struct {
	Level string `arg:"" optional:"" enum:"debug,info,warn,error," default:"" help:"The least level of log lines from now on: debug, info, warn or error. Without it the level is printed."`
}

// Help says what the flags do not.
func (*LogLevel) Help() string {
	return "It counts until the hub ends. Of several hubs on a Redis each has its own: --admin-url says which."
}

// Run implements Command.
func (f *LogLevel) Run(ctx context.Context, call Call) error {
	return call.with(ctx, Settings, func(c *Client) error {
		switch {
		case c.shared:
			return errors.New(
				"of the hubs on a Redis each has its own: say which with --admin-url URL, the URL of its operator's listener (--admin)",
			)
		case !c.Online:
			return errors.New(
				"no hub works on the store: start one, or name one elsewhere with --admin-url URL, the URL of its operator's listener (--admin)",
			)
		}
		var answer api.LevelResponse
		method, wish := http.MethodGet, any(nil)
		if f.Level != "" {
			method, wish = http.MethodPut, api.LevelResponse{Level: f.Level}
		}
		text, err := c.do(ctx, method, "/log-level", wish, &answer)
		return call.say(text, err, "%s", legible.Text(answer.Level))
	})
}
