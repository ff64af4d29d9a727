package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/legible"
	"carillon/operator"
	"carillon/operator/api"
)

// retryCommand makes the next attempt of a subscription now.
type retryCommand struct {
	askFlags

	ID uuid.UUID `arg:"" help:"The subscription's ID."`
}

func (f *retryCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, _ io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		text, err := c.do(ctx, http.MethodPost, "/subscriptions/"+f.ID.String()+"/retry", nil, nil)
		return f.show(stdout, text, err, func() error {
			_, err := fmt.Fprintf(stdout, "hub tries %s again%s\n", f.ID, c.when())
			return err
		})
	})
}

// when is from when on something is done.
func (c *control) when() string {
	if c.Online || c.shared {
		return " now"
	}
	return ", when it runs"
}

// replayCommand delivers a stretch of a log to one subscription once more.
type replayCommand struct {
	askFlags

	ID   uuid.UUID    `arg:"" help:"The subscription's ID."`
	From delivery.Seq `env:"-" required:"" placeholder:"SEQ" help:"The number of the first notification that is delivered once more. hub topic URL has the numbers."`
	To   delivery.Seq `env:"-" placeholder:"SEQ" help:"The number of the last. Default: the newest."`
}

// Validate refuses numbers that no stretch has.
func (f *replayCommand) Validate() error {
	switch {
	case f.From == 0:
		return errors.New("--from is the number of a notification: 1 or more")
	case f.To != 0 && f.To < f.From:
		return fmt.Errorf("--to %d comes before --from %d", f.To, f.From)
	}
	return f.askFlags.Validate()
}

// Help says what the flags do not.
func (*replayCommand) Help() string {
	return "In order, with the same X-Hub-Notification-Id; what is published meanwhile comes after it. Gaps that are filled by it count as delivered."
}

func (f *replayCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, _ io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		var r operator.Replay
		text, err := c.do(ctx, http.MethodPost, "/subscriptions/"+f.ID.String()+"/replay", api.ReplayWish{From: f.From, Last: f.To}, &r)
		return f.show(stdout, text, err, func() error {
			_, err := fmt.Fprintf(stdout, "hub delivers %d to %d to %s once more%s\n", r.Next, r.Last, f.ID, c.when())
			return err
		})
	})
}

// removeCommand ends a subscription.
type removeCommand struct {
	askFlags
	sureFlags

	ID     uuid.UUID `arg:"" help:"The subscription's ID."`
	Reason string    `env:"-" placeholder:"TEXT" help:"What the callback is told, in one line."`
}

// Help says what the flags do not.
func (*removeCommand) Help() string {
	return "A hub that runs tells the callback hub.mode=denied with the reason (WebSub §5.2). Its owner may subscribe again. " + sureHelp
}

func (f *removeCommand) run(ctx context.Context, logger *slog.Logger, stdin io.Reader, stdout, stderr io.Writer) error {
	return f.with(ctx, logger, func(c *control) error {
		path := "/subscriptions/" + f.ID.String()
		var s operator.SubscriptionDetail
		if _, err := c.read(ctx, path, &s); err != nil {
			return err
		}
		what := fmt.Sprintf("The subscription of %s to %s ends", legible.Text(s.Callback), legible.Text(s.Topic))
		if err := f.sure(stdin, stderr, what); err != nil {
			return err
		}
		text, err := c.do(ctx, http.MethodDelete, path+query("reason", f.Reason), nil, nil)
		return f.show(stdout, text, err, func() error {
			_, err := fmt.Fprintf(stdout, "hub removed %s\n", f.ID)
			return err
		})
	})
}

// logLevelCommand asks for the level of a running hub's log lines, or changes it.
type logLevelCommand struct {
	askFlags

	Level string `arg:"" optional:"" enum:"debug,info,warn,error," default:"" help:"The least level of log lines from now on: debug, info, warn or error. Without it the level is printed."`
}

// Help says what the flags do not.
func (*logLevelCommand) Help() string {
	return "It counts until the hub ends. Of several hubs on a Redis each has its own: --ask says which."
}

func (f *logLevelCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, _ io.Writer) (err error) {
	open := f.open
	if f.Ask == "" { // the subscriptions are of no interest
		open = func(ctx context.Context, logger *slog.Logger) (*control, error) {
			if err := f.refuseNothing(); err != nil {
				return nil, err
			}
			return openControl(ctx, f.storeFlags, logger)
		}
	}
	c, err := open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	switch {
	case c.shared:
		return errors.New("of the hubs on a Redis each has its own: say which with --ask URL, the URL of its operator's listener (--admin)")
	case !c.Online:
		return errors.New("no hub works on the store: start one, or name one elsewhere with --ask URL, the URL of its operator's listener (--admin)")
	}
	var answer api.LevelAnswer
	method, wish := http.MethodGet, any(nil)
	if f.Level != "" {
		method, wish = http.MethodPut, api.LevelAnswer{Level: f.Level}
	}
	text, err := c.do(ctx, method, "/log-level", wish, &answer)
	return f.show(stdout, text, err, func() error {
		_, err := fmt.Fprintln(stdout, legible.Text(answer.Level))
		return err
	})
}
