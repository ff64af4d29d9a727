package destination

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/fetch"
)

// Defaults of Config.
const (
	DefaultMaxBody      = 52_428_800
	DefaultVerifyWithin = 2 * time.Minute
	DefaultStopWithin   = 10 * time.Second
	DefaultRetryFirst   = time.Second
	DefaultRetryMax     = time.Minute
)

// Config says what to subscribe to, and how.
type Config struct {
	// Topic is the URL at which discovery begins: absolute, http or https. What
	// is subscribed to is the rel=self that it shows (WebSub §4).
	Topic string
	// URL is the base of the callback: absolute, http or https, reachable by
	// the hub. A slash and an unguessable name are appended to its path.
	URL string
	// Data is the directory that holds the state. It is made if it is
	// missing, and belongs to one topic and one process. On Unix a second
	// process is refused; elsewhere there is no lock, and the caller sees to it.
	Data string
	// Lease is the lease to ask for, in whole seconds; 0 leaves it to the hub. The
	// hub grants what it likes (CN §4.2), and that counts.
	Lease time.Duration
	// Sink takes what is delivered.
	Sink Sink
	// Stay keeps the subscription when Run's context ends: what is published
	// meanwhile waits at the hub, for as long as that keeps it and the lease lasts.
	Stay bool
	// SinkSeesGaps: the Sink looks at the intervals of notifications itself, and may know
	// from elsewhere what was missing. There are no warnings of them here then.
	SinkSeesGaps bool
	// Logger tells what happens; gaps are told as warnings. Default: nowhere.
	Logger *slog.Logger

	// MaxBody is how large a delivery may be, bytes; default 52,428,800. A
	// larger one is answered 413.
	MaxBody int64
	// VerifyWithin is how long the hub may take from accepting a request to
	// verifying it; default 2 m. Then the request is made again.
	VerifyWithin time.Duration
	// StopWithin bounds unsubscribing when Run's context ends; default 10 s.
	StopWithin time.Duration
	// RetryFirst and RetryMax are the first and the longest wait between
	// attempts to subscribe, half of it random; default 1 s and 1 m.
	RetryFirst, RetryMax time.Duration
	// UserAgent of requests; default "Carillon-Destination".
	UserAgent string
	// Transport carries requests to the topic and the hub; default a transport
	// with limits of its own and the proxy of the environment.
	Transport http.RoundTripper
}

// Validate names the setting that is wrong, by the flag that it comes from.
func (c *Config) Validate() error {
	if err := webURL("topic", c.Topic); err != nil {
		return err
	}
	if err := webURL("url", c.URL); err != nil {
		return err
	}
	switch {
	case strings.Contains(c.URL, "?"):
		return errors.New("url: must not have a query")
	case c.Data == "":
		return errors.New("data: must name a directory")
	case c.Lease < 0 || c.Lease%time.Second != 0:
		return errors.New("lease: must be whole seconds, or 0")
	case c.Sink == nil:
		return errors.New("there is no sink")
	case c.MaxBody < 0 || c.VerifyWithin < 0 || c.StopWithin < 0 || c.RetryFirst < 0 || c.RetryMax < 0:
		return errors.New("a limit is negative")
	}
	return nil
}

func webURL(name, raw string) error {
	if raw == "" {
		return fmt.Errorf("%s: is missing", name)
	}
	u, err := url.Parse(raw)
	if err != nil || !fetch.Web(u) || strings.ContainsAny(raw, " #") {
		return fmt.Errorf("%s: %q is not an absolute http or https URL, without user name and fragment", name, raw)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.VerifyWithin = cmp.Or(c.VerifyWithin, DefaultVerifyWithin)
	c.StopWithin = cmp.Or(c.StopWithin, DefaultStopWithin)
	c.RetryFirst = cmp.Or(c.RetryFirst, DefaultRetryFirst)
	c.RetryMax = cmp.Or(c.RetryMax, DefaultRetryMax)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon-Destination")
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSHandshakeTimeout:    requestTimeout,
			MaxResponseHeaderBytes: maxHeader,
			IdleConnTimeout:        time.Minute,
		}
	}
	return c
}

const (
	// requestTimeout bounds one request to the topic or the hub.
	requestTimeout = 30 * time.Second
	// maxHeader bounds the header of an answer, bytes.
	maxHeader = 64 << 10
	// maxRedirects bounds the redirects that are followed from a topic or a hub.
	maxRedirects = 5
)

// Sink takes notifications. Take is called for one at a time, in the order of
// their acceptance, and the delivery is answered when it has returned. An error
// ends Run: the notification comes again when the process does. But with ErrNotNow the
// hub is only asked to come again later.
type Sink interface {
	Take(n *Notification) error
}

// ErrNotNow is what a Sink returns, wrapped, that has no room at the moment.
var ErrNotNow = errors.New("not now")
