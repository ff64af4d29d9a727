package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"carillon/internal/legible"
	"carillon/internal/retryafter"
)

// Kind is what went wrong with a request.
type Kind string

// The kinds. Slow, Busy and Unreachable are trouble of the host; the others of the resource.
const (
	// Missing: 404 or 410.
	Missing Kind = "missing"
	// Refused: another status, or a redirect that is not followed. It will not pass by itself.
	Refused Kind = "refused"
	// Busy: 408, 425, 429 or 5xx.
	Busy Kind = "busy"
	// Unreachable: there is no response.
	Unreachable Kind = "unreachable"
	// Slow: less came than must in Client.Window.
	Slow Kind = "slow"
	// Broken: the response ended in the middle.
	Broken Kind = "broken"
	// Paused: the host is not asked for a time (Host.Enter).
	Paused Kind = "paused"
	// TooLong: Client.Timeout was over.
	TooLong Kind = "too long"
)

// ErrRedirects is in the Trouble of a request that was redirected more often than Client.Redirects.
var ErrRedirects = errors.New("it redirects")

// maxText is how much of an error a Trouble repeats, bytes.
const maxText = 500

// Trouble is why a resource was not fetched.
type Trouble struct {
	Kind Kind
	// After is how long the server asks to be left alone (Retry-After); 0: it does not.
	After time.Duration
	Err   error
}

// Error returns one printable line of bounded length. Err may quote all that a server sent.
func (t *Trouble) Error() string {
	begin := ""
	switch t.Kind {
	case Unreachable:
		begin = "its server cannot be asked: "
	case Slow:
		begin = "its server is too slow: "
	case Broken:
		begin = "its server broke off: "
	}
	text := t.Err.Error()
	return begin + legible.Line(text[:min(len(text), maxText)])
}

// Unwrap returns Err.
func (t *Trouble) Unwrap() error { return t.Err }

// OfHost reports whether other resources of the host are likely to have the same trouble.
func (t *Trouble) OfHost() bool {
	return t != nil && (t.Kind == Busy || t.Kind == Unreachable || t.Kind == Slow)
}

// Judge says what a status means; nil for those that the caller wants.
func Judge(resp *http.Response, want ...int) *Trouble {
	code := resp.StatusCode
	if slices.Contains(want, code) {
		return nil
	}
	t := &Trouble{Kind: Refused, Err: fmt.Errorf("its server answers %s", Status(code))}
	switch {
	case code == http.StatusNotFound || code == http.StatusGone:
		t.Kind = Missing
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests ||
		code == http.StatusRequestTimeout || code == http.StatusTooEarly:
		t.Kind, t.After = Busy, retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())
	}
	return t
}

// Status returns a status code with its name, where it has one: "404 Not Found".
func Status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}
