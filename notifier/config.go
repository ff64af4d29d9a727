package notifier

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/payload"
)

// Defaults of Config.
const (
	DefaultSet        = "default"
	DefaultMaxEntries = payload.MaxEntries
	DefaultMaxWait    = time.Second
	DefaultKeep       = 31 * 24 * time.Hour

	DefaultChangeListEntries = payload.MaxEntries
	DefaultChangeListFor     = 24 * time.Hour
	DefaultResourceListEvery = 24 * time.Hour
	DefaultArchiveEvery      = 30 * 24 * time.Hour
	DefaultArchiveFor        = 10 * 365 * 24 * time.Hour
)

// Config says what a notifier serves and how. Journal, URL and Hub must be set;
// the other fields have defaults.
type Config struct {
	// Journal keeps the events. Its Close is the caller's, after Run returned.
	Journal Store
	// URL is the base of every public URI: absolute, http or https, without query
	// and fragment. A path in it is a prefix of every public route; it ends with a
	// slash, which is added if it is not there.
	URL string
	// Hub is the hub URI that notifications are sent to and that the
	// documents name, verbatim.
	Hub string
	// Sets are the names of the sets of resources, each with a channel of its
	// own (CN §2): [A-Za-z0-9][A-Za-z0-9._-]{0,63}, at most 256 of them, none twice.
	// Default: one set named "default".
	Sets []string
	// Within names sets whose events come from within the process, by Notifier.Append: Intake
	// and ReadLines refuse those from outside. Default: none.
	Within []string
	// MaxEntries closes a notification by count, 1 to 50,000 (core §7).
	// Default 50,000. A POST may take 60 s: where the uplink cannot send a full
	// notification in that time (50 MB need 7 Mbit/s) this, or MaxBytes, must be
	// lower, or the same notification is repeated for ever.
	MaxEntries int
	// MaxBytes closes a notification by size, 2 MiB to 50,000,000 bytes.
	// Default 50,000,000.
	MaxBytes int
	// MaxWait closes a notification by time: how long its first event may
	// wait for others, over 0 to 1 h. Default 1 s.
	MaxWait time.Duration
	// Keep is how long Change Lists are kept after they were closed, and their events
	// in the journal, at least 0 (taken as the default). Events that are not
	// published yet stay for as long as it takes. Default 744 h (31 days, the longest lease of CN §4.2).
	Keep time.Duration
	// ChangeListEntries closes a Change List by count, 1 to 50,000 (core §7).
	// Default 50,000.
	ChangeListEntries int
	// ChangeListBytes closes a Change List by size, 2 MiB to 50,000,000 bytes.
	// Default 50,000,000.
	ChangeListBytes int
	// ChangeListFor closes a Change List by time: how long after its first entry,
	// over 0 to 744 h. A list without entries stays open. Default 24 h.
	ChangeListFor time.Duration
	// ResourceLists names sets whose events start from the beginning, so that they add
	// up to the set's resources: a set that had events before is refused, as its
	// resources can be known by an import only. Sets of Within are such sets, and so is one
	// that a snapshot was imported into. Resource Lists are made of them.
	ResourceLists []string
	// ResourceListDir is the directory where Resource Lists are put, made if it does not
	// exist; nothing else may be in it. Default: none are made.
	ResourceListDir string
	// ResourceListEvery is how often a Resource List is made, 1 min to 744 h; more often where
	// Keep is not twice as long, so that Change Lists reach back to it, and sooner
	// where there were as many events as it has resources. Default 24 h.
	ResourceListEvery time.Duration
	// ResourceListEntries is how many resources one Resource List has at most, 1 to 50,000
	// (core §7); beyond that there are several, and an Index. Default 50,000.
	ResourceListEntries int
	// ResourceListBytes is how large one may be, 2 MiB to 50,000,000 bytes.
	// Default 50,000,000.
	ResourceListBytes int
	// Archives names sets whose closed Change Lists, and Resource Lists now and then, are kept
	// at lasting addresses. Default: none.
	Archives []string
	// ArchiveDir is the directory where they are put, made if it does not exist, in one that does;
	// it must be on the file system of ResourceListDir. Required with Archives.
	ArchiveDir string
	// ArchiveEvery is how often a Resource List is archived, 1 min to 87,600 h. Default 720 h.
	ArchiveEvery time.Duration
	// ArchiveFor is how long archived documents are kept, at least Keep and ArchiveEvery.
	// Default 87,600 h (10 years).
	ArchiveFor time.Duration
	// ArchiveEntries is how many documents one archive document lists at most, 1 to 50,000
	// (core §7); beyond that there are several, and an Index. Default 50,000.
	ArchiveEntries int
	// HideChannels names sets whose Capability List does not tell of their change
	// notifications: for readers that refuse one which does. The topic is
	// served, and published, all the same.
	HideChannels []string
	// DescribedBy names documents about sets, by the name of the set, and under "" one about the
	// Source: absolute URIs. The Source Description (core §8) and the Capability Lists (core §9) link to
	// them. Default: none.
	DescribedBy map[string]string
	// LastmodAlways gives every entry of Change Lists and notifications a lastmod,
	// deletions too: where the event has none, the datetime of the change. For readers
	// of ResourceSync 2014, which had no datetime. A list that is closed stays as it is.
	LastmodAlways bool
	// Files is how many files are being sent at a time by what Serving has made, each of which
	// is open meanwhile: 503 beyond; one client has a quarter of them. Default 256.
	Files int
	// Tokens gives the token that the hub knows this Source by. Default: no token is sent.
	Tokens Tokens
	// Transport makes the requests to the hub. Default: one like
	// http.DefaultTransport, which no other part uses.
	Transport http.RoundTripper
	// UserAgent is sent to the hub. Default "Carillon".
	UserAgent string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger takes what an operator should know. Default: nowhere.
	Logger *slog.Logger
	// Registry takes the metrics and gives what /metrics shows. Default: a
	// new one.
	Registry *prometheus.Registry
}

const (
	minMaxBytes = 2 << 20 // room for the largest entry and the markup around it
	longestWait = time.Hour
	longestList = DefaultKeep // so that a list is closed before its first events are due to go
	// shortestEvery keeps the making of Resource Lists from being all that is done.
	shortestEvery = time.Minute
	longestURL    = 1024 // so that topic URIs stay far under 2,048 characters
)

var setName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c Config) withDefaults() Config {
	if len(c.Sets) == 0 {
		c.Sets = []string{DefaultSet}
	}
	c.MaxEntries = cmp.Or(c.MaxEntries, DefaultMaxEntries)
	c.MaxBytes = cmp.Or(c.MaxBytes, payload.MaxBytes)
	c.MaxWait = cmp.Or(c.MaxWait, DefaultMaxWait)
	c.Keep = cmp.Or(c.Keep, DefaultKeep)
	c.Files = cmp.Or(c.Files, defaultFiles)
	c.ChangeListEntries = cmp.Or(c.ChangeListEntries, DefaultChangeListEntries)
	c.ChangeListBytes = cmp.Or(c.ChangeListBytes, payload.MaxBytes)
	c.ChangeListFor = cmp.Or(c.ChangeListFor, DefaultChangeListFor)
	c.ResourceListEvery = cmp.Or(c.ResourceListEvery, DefaultResourceListEvery)
	c.ResourceListEntries = cmp.Or(c.ResourceListEntries, payload.MaxEntries)
	c.ResourceListBytes = cmp.Or(c.ResourceListBytes, payload.MaxBytes)
	c.ArchiveEvery = cmp.Or(c.ArchiveEvery, DefaultArchiveEvery)
	c.ArchiveFor = cmp.Or(c.ArchiveFor, DefaultArchiveFor)
	c.ArchiveEntries = cmp.Or(c.ArchiveEntries, payload.MaxEntries)
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon")
	if c.Transport == nil {
		if shared, ok := http.DefaultTransport.(*http.Transport); ok {
			c.Transport = shared.Clone()
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if !strings.HasSuffix(c.URL, "/") {
		c.URL += "/"
	}
	return c
}

// Validate returns an error, of one line, for settings that New will not take; a zero field counts as
// its default.
func (c Config) Validate() error {
	c = c.withDefaults()
	const most, bytes = payload.MaxEntries, payload.MaxBytes
	return cmp.Or(
		within("max-entries", c.MaxEntries, 1, most),
		within("MaxBytes", c.MaxBytes, minMaxBytes, bytes),
		overZero("max-wait", c.MaxWait, longestWait),
		c.validateLeast(),
		within("changelist-entries", c.ChangeListEntries, 1, most),
		within("ChangeListBytes", c.ChangeListBytes, minMaxBytes, bytes),
		overZero("changelist-for", c.ChangeListFor, longestList),
		within("resource-list-every", c.ResourceListEvery, shortestEvery, longestList),
		within("ResourceListEntries", c.ResourceListEntries, 1, most),
		within("ResourceListBytes", c.ResourceListBytes, minMaxBytes, bytes),
		c.validateSets(),
		c.known("hide-channel", c.HideChannels),
		c.validateDescriptions(),
		c.known("resource-list", c.ResourceLists),
		c.known("archive", c.Archives),
		c.validateArchives(),
		checkURL("url", c.URL),
		checkURL("hub", c.Hub),
	)
}

// within returns an error for a setting out of its range.
func within[T cmp.Ordered](name string, got, least, most T) error {
	if got < least || got > most {
		return fmt.Errorf("%s must be %v to %v, not %v", name, least, most, got)
	}
	return nil
}

func overZero(name string, got, most time.Duration) error {
	if got < 0 || got > most {
		return fmt.Errorf("%s must be over 0 and at most %s, not %s", name, most, got)
	}
	return nil
}

func (c *Config) validateLeast() error {
	switch {
	case c.Keep < 0:
		return fmt.Errorf("keep must not be negative, as %s is", c.Keep)
	case c.Files < 0:
		return fmt.Errorf("files must be 1 or more, not %d", c.Files)
	}
	return nil
}

func (c *Config) validateSets() error {
	if len(c.Sets) > maxSets {
		return fmt.Errorf("set: there may be %d sets, not %d", maxSets, len(c.Sets))
	}
	for i, name := range c.Sets {
		if !setName.MatchString(name) {
			return fmt.Errorf("set: %q is not a name of letters, digits, dots, underscores and hyphens "+
				"that begins with a letter or a digit and has at most 64 characters", name)
		}
		if slices.Contains(c.Sets[:i], name) {
			return fmt.Errorf("set: %q is there twice", name)
		}
	}
	return nil
}

// known returns an error for a setting that names other sets than Sets.
func (c *Config) known(setting string, names []string) error {
	for _, name := range names {
		if !slices.Contains(c.Sets, name) {
			return fmt.Errorf("%s: %q is no set here", setting, shown(name))
		}
	}
	return nil
}

func (c *Config) validateDescriptions() error {
	for set, uri := range c.DescribedBy {
		if set != "" {
			if err := c.known("describedby", []string{set}); err != nil {
				return err
			}
		}
		err := payload.WriteSourceDescription(io.Discard, payload.SourceDescription{DescribedBy: uri})
		if field, is := errors.AsType[*payload.FieldError](err); is {
			return fmt.Errorf("describedby: %q %s", shown(uri), field.Reason)
		}
		if uri == "" {
			return errors.New("describedby: the address is missing")
		}
	}
	return nil
}

func (c *Config) validateArchives() error {
	switch {
	case len(c.Archives) == 0:
		return nil
	case c.ArchiveEvery < shortestEvery || c.ArchiveEvery > DefaultArchiveFor:
		return fmt.Errorf("archive-every must be %s to %s, not %s", shortestEvery, DefaultArchiveFor, c.ArchiveEvery)
	case c.ArchiveFor < c.Keep:
		return fmt.Errorf("archive-for must be at least keep, which is %s, not %s", c.Keep, c.ArchiveFor)
	case c.ArchiveFor < c.ArchiveEvery:
		return fmt.Errorf(
			"archive-for must be at least archive-every, which is %s, not %s", c.ArchiveEvery, c.ArchiveFor,
		)
	case c.ArchiveEntries < 1 || c.ArchiveEntries > payload.MaxEntries:
		return fmt.Errorf("ArchiveEntries must be 1 to %d, not %d", payload.MaxEntries, c.ArchiveEntries)
	case c.ArchiveDir == "":
		return errors.New("archive: there is no ArchiveDir")
	}
	return nil
}

func checkURL(name, raw string) error {
	u, err := url.Parse(raw)
	var problem string
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		problem = "is not an absolute http or https URL"
	case u.User != nil || u.Fragment != "" || strings.Contains(raw, "#"):
		problem = "must have no user and no fragment"
	case name == "url" && (u.RawQuery != "" || u.ForceQuery):
		problem = "must have no query"
	case len(raw) > longestURL:
		problem = fmt.Sprintf("has more than %d characters", longestURL)
	case strings.ContainsFunc(
		raw, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\^{|}`+"`", r) },
	):
		problem = "has characters that a URL must have escaped"
	case name == "url" && strings.ContainsAny(u.Path, "{}"):
		problem = "must have no braces in its path, escaped or not"
	case !validHost(u):
		problem = "has no valid host and port"
	default:
		return nil
	}
	return fmt.Errorf("%s: %q %s", name, shown(raw), problem)
}

func validHost(u *url.URL) bool {
	if u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && port > 0
}
