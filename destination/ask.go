package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/internal/retryafter"
	"carillon/internal/weblink"
)

// ErrRefused: the hub refuses the request itself, and would do so again.
var ErrRefused = errors.New("the hub refuses the subscription")

// maxRetryAfter is how far a hub's Retry-After is heeded.
const maxRetryAfter = time.Hour

// maxMemory is how long the address of a change memory may be that is kept, bytes.
const maxMemory = 4096

// busyError is a refusal that may pass: 429, 5xx and the like.
type busyError struct {
	status     string
	reason     string
	retryAfter time.Duration // 0 if the hub named none
}

func (e *busyError) Error() string {
	return strings.TrimSuffix("the hub answers "+e.status+": "+e.reason, ": ")
}

// relMemory is the relation by which a hub that accepts a subscription names its change
// memory: a document of what it relayed before (IANA: a collection of records of the past).
const relMemory = "archives"

// ask sends a subscribe or unsubscribe request (WebSub §5.1). A hub may send us
// on to another with 307 or 308 (WebSub §5.1.2); the request holds a secret, so it
// does not follow from https to http. Where the hub that accepted has a change memory,
// its address comes back.
func (a *asker) ask(ctx context.Context, hub string, form url.Values) (memory string, err error) {
	client := a.client() // which follows no redirect of a POST
	for range maxRedirects + 1 {
		req, err := a.request(ctx, http.MethodPost, hub, form)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		next, err := outcome(resp)
		if err != nil || next == "" {
			return memoryOf(hub, resp.Header), err
		}
		if scheme(next) < scheme(hub) {
			return "", fmt.Errorf("the hub %s sends us from https to http: %s", hub, next)
		}
		hub = next
	}
	return "", fmt.Errorf("the hub sends us on more than %d times", maxRedirects)
}

// memoryOf reads where a hub has its change memory. It is the hub's own: an address
// of anybody else does not count.
func memoryOf(hub string, header http.Header) string {
	links, _ := weblink.Parse(header.Values("Link")) // what is broken does not spoil the rest
	asked, err := url.Parse(hub)
	for _, l := range weblink.Find(weblink.Resolve(hub, links), relMemory) {
		u, bad := url.Parse(l.URI)
		if err == nil && bad == nil && u.Scheme == asked.Scheme && u.Host == asked.Host && u.User == nil && len(l.URI) <= maxMemory {
			return l.URI
		}
	}
	return ""
}

// outcome reads the hub's answer: done, or the hub to go on to, or an error. 202
// is what WebSub asks for; older hubs answer 204.
func outcome(resp *http.Response) (next string, err error) {
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return "", nil
	case code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect:
		u, err := resp.Location()
		if err != nil || !fetch.Web(u) {
			return "", fmt.Errorf("the hub answers %s without a usable Location", resp.Status)
		}
		return u.String(), nil
	case code/100 != 4 || code == http.StatusNotFound || code == http.StatusRequestTimeout ||
		code == http.StatusTooEarly || code == http.StatusTooManyRequests:
		return "", &busyError{resp.Status, reasonOf(resp), min(retryafter.Parse(resp.Header.Get("Retry-After"), time.Now()), maxRetryAfter)}
	default:
		return "", fmt.Errorf("%w: %s: %s", ErrRefused, resp.Status, reasonOf(resp))
	}
}

// reasonOf reads what a hub says in the body of a refusal (WebSub §5.1.2), as
// one printable line.
func reasonOf(resp *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	return legible.Line(string(text))
}
