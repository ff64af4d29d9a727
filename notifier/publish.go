package notifier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"carillon/internal/await"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/internal/retryafter"
	"carillon/payload"
)

// Times and limits of a POST to the hub.
const (
	// postTimeout is how long a POST may take from dial to the last byte of the
	// answer: it stops a hub that hangs.
	postTimeout = 60 * time.Second
	// postGrace is how long a POST that is under way may go on when the notifier stops. One that is cut
	// off is sent again at the next start.
	postGrace = 5 * time.Second
	// answerLimit is how much of the hub's answer is read: so that the
	// connection can be used again, and no more.
	answerLimit = 64 << 10
	// maxReason is how much of the hub's reason for a refusal is logged, bytes.
	maxReason = 500
)

// answer is what the hub said to a POST.
type answer struct {
	outcome    outcome
	status     int
	reason     string        // what the hub said to a refusal, one printable line
	retryAfter time.Duration // 0 if the hub did not say
	sent       Token         // with the POST
	err        error         // where there was no answer
}

// publish sends the outstanding notification until the hub accepts it, and
// records that. It returns early when ctx ends; its errors are the journal's.
func (ch *channel) publish(ctx context.Context, note Notification) error {
	pause := newBackOff()
	tried := false // the last POST went with a token that was new
	for failures := 1; ; failures++ {
		got, err := ch.post(ctx, note)
		if err != nil {
			return err
		}
		ch.metrics.posts[got.outcome].Inc()
		if got.outcome == outcomeAccepted {
			return ch.accept(ctx, note, failures)
		}
		if ctx.Err() != nil {
			return nil
		}
		if tried = !tried && ch.renewed(got); tried {
			ch.log.Info("the hub refused the token, and there is another: it is tried at once")
			continue
		}
		wait := min(pause.NextBackOff(), longestRetry)
		if got.retryAfter > 0 {
			wait = min(got.retryAfter, longestRetry)
		}
		ch.metrics.failures.Set(float64(failures))
		ch.log.Warn("the hub did not accept a notification; it will be sent again",
			"failures", failures, "status", got.status, "reason", got.reason, "hint", got.hint(), "error", got.err, "retry_in", wait.String(),
			"until", payload.FormatDatetime(note.Until), "bytes", note.Size)
		if await.For(ctx, wait) != nil {
			return nil
		}
	}
}

// post sends the notification once. Its error is the journal's.
func (ch *channel) post(ctx context.Context, note Notification) (answer, error) {
	body, err := ch.n.cfg.Journal.Body(ctx, note)
	if err != nil {
		return answer{}, err
	}
	post, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(postGrace, cancel) })()
	req, err := http.NewRequestWithContext(post, http.MethodPost, ch.n.cfg.Hub, body)
	if err != nil {
		return answer{}, errors.Join(err, body.Close())
	}
	req.Header = ch.header.Clone()
	token := ch.n.cfg.token()
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+string(token))
	}
	req.ContentLength = note.Size
	// For a connection that turns out to be closed before anything was sent.
	req.GetBody = func() (io.ReadCloser, error) { return ch.n.cfg.Journal.Body(post, note) }
	// Not through a http.Client: it would follow redirects, and it opens the body even for those that it
	// must not follow.
	resp, err := fetch.RoundTrip(ch.n.cfg.Transport, req)
	if err != nil {
		return answer{outcome: outcomeNoAnswer, err: err, sent: token}, nil
	}
	defer resp.Body.Close()
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_, _ = io.CopyN(io.Discard, resp.Body, answerLimit) // the status has said what counts
	return answer{
		outcome: outcomeOf(resp.StatusCode), status: resp.StatusCode, reason: legible.Line(string(reason)),
		retryAfter: retryafter.Parse(resp.Header.Get("Retry-After"), ch.n.cfg.Now()), sent: token,
	}, nil
}

// accept records that the hub has taken the notification.
func (ch *channel) accept(ctx context.Context, note Notification, attempts int) error {
	// First, because the journal lets the one before go while Accept is still
	// waiting for the disk. The bytes of this one are there all the time.
	ch.setAccepted(&note)
	// Also when the notifier is stopping: an accepted notification need not be sent again at the next
	// start.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), postGrace)
	defer cancel()
	err := ch.n.cfg.Journal.Accept(bounded, note, ch.n.clock.Now().Add(-ch.n.cfg.Keep))
	if err != nil {
		return fmt.Errorf("note that the hub accepted a notification: %w", err)
	}
	ch.state.Sealed, ch.state.Accepted = nil, &note
	ch.metrics.failures.Set(0)
	ch.metrics.notifications.Inc()
	ch.metrics.entries.Add(float64(note.Entries))
	ch.metrics.until.Set(float64(note.Until.UnixMicro()) / 1e6)
	ch.log.Info("the hub accepted a notification", "entries", note.Entries, "bytes", note.Size,
		"from", payload.FormatDatetime(note.From), "until", payload.FormatDatetime(note.Until), "attempts", attempts)
	return nil
}

// renewed reports whether there is another token to try after one was refused.
func (ch *channel) renewed(got answer) bool {
	if ch.n.cfg.Tokens == nil || got.status != http.StatusUnauthorized {
		return false
	}
	token, err := ch.n.cfg.Tokens.Renew(got.sent)
	if err != nil {
		ch.log.Error("the token for the hub cannot be read again; the one of before stays", "error", err)
		return false
	}
	return token != got.sent
}

// hint says what to do about a refusal; "" where the hub's reason says it all.
func (got answer) hint() string {
	switch {
	case got.status == http.StatusUnauthorized && got.sent == "":
		return "the hub takes registered Sources only: its operator makes a token (hub source add), for the file of --hub-token-file or for NOTIFIER_HUB_TOKEN"
	case got.status == http.StatusUnauthorized:
		return "the hub does not know the token: it was revoked, or rotated. Put the one that its operator gives you where that was: the file of --hub-token-file is read again, NOTIFIER_HUB_TOKEN needs a restart"
	case got.status == http.StatusForbidden && got.sent != "":
		return "the token may not be for this topic: the operator of the hub can register a prefix that covers it"
	}
	return ""
}
