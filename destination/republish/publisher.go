package republish

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/await"
	"carillon/internal/legible"
	"carillon/internal/urlpath"
	"carillon/payload"
)

// Publisher hands over what waits in an Outbox.
type Publisher struct {
	cfg Config

	// The fields below belong to the goroutine of Run.
	atOnce   int // how many changes are handed over in one request
	accepted int // since the last line
	refused  int
	lines    int // about refusals, since the last line
	logged   time.Time
}

// New returns a publisher. The error names the setting that is wrong.
func New(cfg Config) (*Publisher, error) {
	if cfg.Outbox == nil {
		return nil, errors.New("there is no outbox")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Publisher{cfg: cfg.withDefaults(), atOnce: maxItems}, nil
}

// Run hands over what waits, and what comes, until ctx ends. It returns nil.
func (p *Publisher) Run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(p.cfg.RetryFirst),
		backoff.WithMaxInterval(p.cfg.RetryMax), backoff.WithMaxElapsedTime(0))
	p.logged = time.Now()
	defer p.close()
	collected := false
	for failures := 0; ctx.Err() == nil; {
		var more bool
		var err error
		if !collected {
			err = p.cfg.Outbox.Collect(ctx)
			collected = err == nil
		}
		if err == nil {
			more, err = p.step(ctx)
		}
		p.log(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			_ = await.For(ctx, p.failed(err, failures, pause.NextBackOff()))
		default:
			if failures > 0 && more {
				p.cfg.Logger.Info("changes are published again", "failures", failures)
				failures = 0
			}
			pause.Reset()
			if !more {
				_, _ = await.Until(ctx, logEvery, p.cfg.Outbox.Changed())
			}
		}
	}
	return nil
}

// step hands over one batch, or a part of it. It reports whether there may be more.
func (p *Publisher) step(ctx context.Context) (more bool, err error) {
	items, err := p.cfg.Outbox.Next(ctx, maxItems, maxBytes)
	if err != nil || len(items) == 0 {
		return false, err
	}
	n := min(p.atOnce, len(items))
	entries := make([]payload.Entry, n)
	for i := range entries {
		entries[i] = items[i].Entry
		entries[i].Loc = p.cfg.Base + urlpath.Escape(items[i].Path)
	}
	got := p.post(ctx, entries)
	switch {
	case got.accepted:
		p.atOnce = min(2*n, maxItems)
		return true, p.settle(ctx, n, "")
	case got.tooMuch:
		p.atOnce = n / 2
		return true, nil
	case got.refused > 1:
		p.atOnce = got.refused - 1 // those before it first
		return true, nil
	case got.refused == 1:
		p.aside(&entries[0], got)
		return true, p.settle(ctx, 1, got.reason)
	}
	return false, got
}

// settle records what the intake said, also when ctx has ended.
func (p *Publisher) settle(ctx context.Context, n int, refused string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	if err := p.cfg.Outbox.Settle(ctx, n, refused); err != nil {
		return err
	}
	if refused == "" {
		p.accepted += n
	} else {
		p.refused += n
	}
	return nil
}

// aside logs that a change is set aside.
func (p *Publisher) aside(e *payload.Entry, got *postResult) {
	if p.lines++; p.lines <= maxRefusals {
		p.cfg.Logger.Error("the intake refuses a change: it is set aside until the copy changes, or the next start",
			"loc", legible.Line(e.Loc), "change", string(e.Change), "status", got.status, "reason", got.reason)
	}
}

// failed logs what holds up the changes, and returns how long to wait.
func (p *Publisher) failed(err error, failures int, wait time.Duration) time.Duration {
	var got *postResult
	if !errors.As(err, &got) {
		p.cfg.Logger.Error("changes are not published for now: trouble with the own store",
			"error", err, "failures", failures, "retry_in", wait.String())
		return wait
	}
	if got.after > 0 {
		wait = min(got.after, p.cfg.RetryMax)
	}
	p.cfg.Logger.Warn("the intake did not take changes; they are handed over again",
		"failures", failures, "status", got.status, "reason", got.reason, "hint", got.hint(),
		"error", got.err, "retry_in", wait.String())
	return wait
}

// log says once a minute how much was handed over.
func (p *Publisher) log(ctx context.Context) {
	if time.Since(p.logged) < logEvery {
		return
	}
	p.logged = time.Now()
	waiting, err := p.cfg.Outbox.Waiting(ctx)
	if err != nil || p.accepted+p.refused+waiting == 0 {
		return
	}
	p.cfg.Logger.Info("changes were handed to the intake",
		"accepted", p.accepted, "refused", p.refused, "waiting", waiting)
	p.accepted, p.refused, p.lines = 0, 0, 0
}

func (p *Publisher) close() {
	if c, ok := p.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
