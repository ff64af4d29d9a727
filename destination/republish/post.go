package republish

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"carillon/destination"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/internal/retryafter"
	"carillon/payload"
)

// tooLarge is the reason for a change that the intake answers 413 by itself.
const tooLarge = "the intake, or a proxy before it, finds this change too large (413): " +
	"allow requests of 1 MB there"

// postResult is what the intake said to a request. It is the error of one that took nothing.
type postResult struct {
	accepted bool
	// refused is the number, from 1, of the change that the intake refuses by itself; 0: none.
	refused int
	// tooMuch: fewer changes may pass.
	tooMuch bool
	status  int
	reason  string        // one printable line
	after   time.Duration // how long the intake asks to be left alone
	err     error         // why there is no answer
}

func (a *postResult) Error() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("the intake answers %d: %s", a.status, a.reason)
}

// hint says what the operator can do; empty where waiting helps.
func (a *postResult) hint() string {
	switch {
	case a.err != nil || a.status >= http.StatusInternalServerError,
		a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout:
		return ""
	case a.status == http.StatusNotFound:
		return "the notifier has no such set: name it by its --set, or correct --publish"
	case a.status == http.StatusForbidden:
		return "a watched set takes no events: name another set by --publish"
	}
	return "what --publish names is no intake of a notifier: it answers 202 and how many events it took"
}

// post hands over changes once.
func (p *Publisher) post(ctx context.Context, entries []payload.Entry) *postResult {
	var body []byte
	for i := range entries {
		body = destination.AppendEvent(body, &entries[i])
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(postGrace, cancel) })()
	req, err := http.NewRequestWithContext(within, http.MethodPost, p.cfg.Intake, bytes.NewReader(body))
	if err != nil {
		return &postResult{err: err}
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", p.cfg.UserAgent)
	// Not through a http.Client, which would follow redirects.
	resp, err := fetch.RoundTrip(p.cfg.Transport, req)
	if err != nil {
		return &postResult{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resultOf(resp, text, err, len(entries))
}

// resultOf judges an answer. Only that of an intake counts as acceptance: any server may say 200.
func resultOf(resp *http.Response, text []byte, broken error, sent int) *postResult {
	a := &postResult{
		status: resp.StatusCode, reason: legible.Line(string(text[:min(len(text), maxReason)])),
		after: retryafter.Parse(resp.Header.Get("Retry-After"), time.Now()),
	}
	switch a.status {
	case http.StatusAccepted:
		if broken != nil {
			return &postResult{status: a.status, err: broken}
		}
		var took struct {
			Accepted *int `json:"accepted"`
		}
		a.accepted = json.Unmarshal(text, &took) == nil && took.Accepted != nil && *took.Accepted == sent
	case http.StatusRequestEntityTooLarge:
		a.tooMuch = sent > 1
		if sent == 1 { // the next ones may be smaller
			a.refused, a.reason = 1, tooLarge
		}
	case http.StatusBadRequest:
		// An intake names the line. Any other 400 is about the request, such as that of a TLS listener
		// that is asked without TLS.
		if n := 0; scanLine(a.reason, &n) && n <= sent {
			a.refused = n
		}
	}
	return a
}

// scanLine reads which line of the body an intake refuses.
func scanLine(reason string, n *int) bool {
	_, err := fmt.Sscanf(reason, "line %d:", n)
	return err == nil && *n > 0
}
