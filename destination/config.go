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

// Config describes the subscription.
type Config struct {
	// Topic is the URL at which discovery begins: absolute, http or https. The Destination
	// subscribes to the rel=self that it finds there (WebSub §4).
	Topic string
	// URL is the base of the callback: absolute, http or https, and reachable by the hub. A slash
	// and an unguessable name are appended to its path.
	URL string
	// Data is the directory of the state. New creates it if it is missing. It belongs to one topic
	// and one process. On Unix a lock rejects a second process; on other systems the caller must
	// prevent it.
	Data string
	// Lease is the lease to request, in whole seconds; 0 leaves it to the hub. The hub may grant
	// another one (CN §4.2).
	Lease time.Duration
	// Sink receives the notifications.
	Sink Sink
	// Stay keeps the subscription when Run's context ends. The hub then keeps new notifications, as
	// long as its log and the lease allow.
	Stay bool
	// SinkSeesGaps turns off warnings about gaps, as the Sink checks the intervals of notifications
	// itself.
	SinkSeesGaps bool
	// Logger receives log lines, with gaps as warnings. Default: none.
	Logger *slog.Logger

	// MaxBody is the size limit of a delivery, bytes; default 52,428,800. A larger one gets 413.
	MaxBody int64
	// VerifyWithin is the time from accepting a request to its verification; default 2 m. Then the
	// request is repeated.
	VerifyWithin time.Duration
	// StopWithin bounds unsubscribing when Run's context ends; default 10 s.
	StopWithin time.Duration
	// RetryFirst and RetryMax bound the wait between attempts to subscribe, half of it random;
	// defaults 1 s and 1 m.
	RetryFirst, RetryMax time.Duration
	// UserAgent is sent with requests; default "Carillon-Destination".
	UserAgent string
	// Transport carries requests to the topic and the hub. The default has its own limits and uses
	// the proxy of the environment.
	Transport http.RoundTripper
}

// Validate returns an error that names the wrong setting by its flag.
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
		return errors.New("lease: must be whole seconds, or 0 for the hub's choice")
	case c.Sink == nil:
		return errors.New("a sink is missing")
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
		return fmt.Errorf("%s: %q is not an absolute http or https URL without user name and fragment", name, raw)
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
	// maxHeader bounds the header of a response, bytes.
	maxHeader = 64 << 10
	// maxRedirects bounds the redirects from a topic or a hub.
	maxRedirects = 5
)

// Sink receives notifications. Accept gets one at a time, in the order of acceptance; the delivery
// is acknowledged after it returns. ErrNotNow makes the hub retry later. Any other error ends Run,
// and the hub retries the notification when the process runs again.
type Sink interface {
	Accept(n *Notification) error
}

// ErrNotNow is returned, wrapped, by a Sink that has no space at the moment.
var ErrNotNow = errors.New("not now")
