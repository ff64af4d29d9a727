package republish

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"carillon/payload"
)

const (
	// maxItems is how many changes are handed over in one request, and maxBytes how large they are
	// about. An intake reads larger requests one at a time.
	maxItems = 1000
	maxBytes = 512 << 10
	// postTimeout bounds one request. An intake waits for its journal for 20 s.
	postTimeout = time.Minute
	// postGrace is how long a request may go on when the publisher stops.
	postGrace = 5 * time.Second
	// storeWithin bounds the recording of what was accepted when the publisher stops.
	storeWithin = 10 * time.Second
	// tellEvery is how often the log says how much was handed over.
	logEvery = time.Minute
	// maxAnswer is how much of an answer is read, bytes; maxReason how much of it is kept.
	maxAnswer = 64 << 10
	maxReason = 500
	// maxRefusals is how many refusals a minute are logged one by one.
	maxRefusals = 100
)

// Config says what is published, and where.
type Config struct {
	// Outbox has what is to be handed over. It must be open for the Target.
	Outbox Outbox
	// Target is the intake of one set of a notifier, and the address of the mirror's directory.
	Target
	// TLS is for an intake with https; default what the machine trusts.
	TLS *tls.Config
	// Transport carries the requests; default one of its own, without a proxy: the
	// intake is the operator's own.
	Transport http.RoundTripper
	// UserAgent of requests.
	UserAgent string
	// Logger gets failures, refusals, and a line a minute. Default: none.
	Logger *slog.Logger
	// RetryFirst and RetryMax are the first and the longest wait after the intake failed;
	// defaults 1 s and 1 min.
	RetryFirst, RetryMax time.Duration
}

// eventsPath is how the path of an intake ends.
var eventsPath = regexp.MustCompile(`/sets/[^/]+/events$`)

// Validate names the setting that is wrong, by the flag that it comes from.
func (t Target) Validate() error {
	u, err := url.Parse(t.Intake)
	var all []error
	if err != nil || !plainURL(u) || !eventsPath.MatchString(u.EscapedPath()) {
		all = append(all, fmt.Errorf("publish: %.200q is not where a notifier takes the events of a set; "+
			"give http://HOST:PORT/sets/NAME/events, with the notifier's --intake as HOST:PORT", t.Intake))
	}
	return errors.Join(append(all, checkBase(t.Base))...)
}

// checkBase refuses a base that copies cannot have their addresses below.
func checkBase(base string) error {
	const example = "give the address at which the directory of --mirror is served, " +
		"such as https://copies.example.org/"
	u, err := url.Parse(base)
	switch {
	case base == "":
		return errors.New("as: is missing; " + example)
	case err != nil || !plainURL(u):
		return fmt.Errorf("as: %.200q is not an absolute http or https URL "+
			"without user name, query and fragment; %s", base, example)
	case !strings.HasSuffix(base, "/"):
		return fmt.Errorf("as: %.200q does not end in a slash, so that paths cannot follow it; give %.200q",
			base, base+"/")
	}
	probe := payload.Entry{Loc: base + "a", Change: payload.Updated}
	if err := probe.Validate(); err != nil {
		return fmt.Errorf("as: %.200q is no address of a resource: %w", base, err)
	}
	return nil
}

// plainURL reports whether a URL is one of http or https with a host and a path alone.
func plainURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == "" &&
		u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && !strings.HasSuffix(u.String(), "#")
}

func (c Config) withDefaults() Config {
	c.RetryFirst = cmp.Or(c.RetryFirst, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy: nil, TLSClientConfig: c.TLS, MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
			IdleConnTimeout: time.Minute, DisableCompression: true,
		}
	}
	return c
}
