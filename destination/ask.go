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

// ErrRefused: the hub rejects the request, and would reject it again.
var ErrRefused = errors.New("the hub refuses the subscription")

// maxRetryAfter bounds how long a hub's Retry-After is obeyed.
const maxRetryAfter = time.Hour

// maxChangeMemory bounds the length of a change memory's address, bytes. A longer one is dropped.
const maxChangeMemory = 4096

// busyError is a temporary refusal, such as 429 or 5xx.
type busyError struct {
	status     string
	reason     string
	retryAfter time.Duration // 0: the hub gave none
}

func (e *busyError) Error() string {
	return strings.TrimSuffix("the hub answers "+e.status+": "+e.reason, ": ")
}

// relChangeMemory is the link relation of a hub's change memory (IANA: a collection of historical
// records).
const relChangeMemory = "archives"

// ask sends a subscribe or unsubscribe request (WebSub §5.1) and returns the address of the hub's
// change memory, if it has one. It follows redirects by 307 and 308 (WebSub §5.1.2), but not from
// https to http, as the request holds a secret.
func (a *asker) ask(ctx context.Context, hub string, form url.Values) (memory string, err error) {
	client := a.client() // it follows no redirect of a POST
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
			return changeMemoryURI(hub, resp.Header), err
		}
		if scheme(next) < scheme(hub) {
			return "", fmt.Errorf("the hub %s redirects from https to http: %s", hub, next)
		}
		hub = next
	}
	return "", fmt.Errorf("the hub redirects more than %d times", maxRedirects)
}

// changeMemoryURI returns the address of the hub's change memory. An address on another host does
// not count.
func changeMemoryURI(hub string, header http.Header) string {
	links, _ := weblink.Parse(header.Values("Link")) // a broken link does not spoil the others
	asked, err := url.Parse(hub)
	for _, l := range weblink.Find(weblink.Resolve(hub, links), relChangeMemory) {
		u, bad := url.Parse(l.URI)
		if err == nil && bad == nil && u.Scheme == asked.Scheme && u.Host == asked.Host && u.User == nil && len(l.URI) <= maxChangeMemory {
			return l.URI
		}
	}
	return ""
}

// outcome reads the hub's response: success, another hub to ask, or an error. WebSub requires 202;
// older hubs send 204.
func outcome(resp *http.Response) (next string, err error) {
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return "", nil
	case code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect:
		u, err := resp.Location()
		if err != nil || !fetch.Web(u) {
			return "", fmt.Errorf("the hub responded with %s without a usable Location", resp.Status)
		}
		return u.String(), nil
	case code/100 != 4 || code == http.StatusNotFound || code == http.StatusRequestTimeout ||
		code == http.StatusTooEarly || code == http.StatusTooManyRequests:
		return "", &busyError{
			resp.Status, reasonOf(resp),
			min(retryafter.Parse(resp.Header.Get("Retry-After"), time.Now()), maxRetryAfter),
		}
	default:
		return "", fmt.Errorf("%w: %s: %s", ErrRefused, resp.Status, reasonOf(resp))
	}
}

// reasonOf returns the hub's reason for a refusal (WebSub §5.1.2) as one printable line.
func reasonOf(resp *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	return legible.Line(string(text))
}
