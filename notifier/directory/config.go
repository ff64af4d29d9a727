package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/notifier"
)

// Defaults of Config.
const (
	DefaultSettle = 2 * time.Second
	DefaultRescan = 15 * time.Minute
)

// Bounds of Config.
const (
	longestSettle  = time.Hour
	shortestRescan = time.Second
	longestBase    = 1024 // so that there is room for the names
)

// ReplaceMarker is the name of a file in the directory by which its owner says that what
// the set has had may be announced as deleted, even if nothing of it is there any more.
// It is not in what is mounted there when that is away.
const ReplaceMarker = ".carillon-replace"

// Sink takes events: a notifier.Notifier.
type Sink interface {
	// Append makes the events durable, all or none. ErrUnavailable (of package
	// notifier) where the same call may succeed later.
	Append(ctx context.Context, events []notifier.Event) error
}

// Config says which directory is which set. Set, Dir, Base, Sink and State must be set.
type Config struct {
	// Set is the name of the set. Its events must all come from here: a resource of the set
	// that the directory has not is announced as deleted.
	Set string
	// Dir is the directory. It need not be there at the start.
	Dir string
	// Base is the URI that the names follow: absolute, http or https, ending with a slash,
	// without query and fragment.
	Base string
	// Settle is how long a file's size and time must stay as they are before it is
	// announced, over 0 to 1 h. Default 2 s.
	Settle time.Duration
	// Rescan is how often the whole directory is looked through, in case that something
	// was missed, at least 1 s. Default 15 min.
	Rescan time.Duration
	// CapabilityList is the URI that Files gives with each file as Link rel=resourcesync (core §6.3.3).
	// Default: no link.
	CapabilityList string
	// Sink takes the events.
	Sink Sink
	// State reports what the set has. It must be whole, and at least as new as what
	// Sink has taken when it is asked.
	State notifier.Resources
	// NewWatcher watches directories. Default: NewFSWatcher.
	NewWatcher func() (Watcher, error)
	// Logger takes what an operator should know. Default: nowhere.
	Logger *slog.Logger
	// Registry takes the metrics. Default: a new one.
	Registry prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Settle == 0 {
		c.Settle = DefaultSettle
	}
	if c.Rescan == 0 {
		c.Rescan = DefaultRescan
	}
	if c.NewWatcher == nil {
		c.NewWatcher = NewFSWatcher
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// Validate returns an error, of one line, for settings that New will not take, except Sink and State;
// a zero field counts as its default.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Set == "":
		return errors.New("the set has no name")
	case c.Dir == "":
		return errors.New("the directory has no name")
	case c.Settle < 0 || c.Settle > longestSettle:
		return fmt.Errorf("watch-settle must be over 0 and at most %s, not %s", longestSettle, c.Settle)
	case c.Rescan < shortestRescan:
		return fmt.Errorf("watch-rescan must be %s or more, not %s", shortestRescan, c.Rescan)
	}
	if info, err := os.Stat(c.Dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%q is not a directory", c.Dir)
	}
	return checkBase(c.Base)
}

func checkBase(base string) error {
	u, err := url.Parse(base)
	var problem string
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		problem = "is not an absolute http or https URL"
	case u.User != nil || strings.ContainsAny(base, "?#"):
		problem = "must have no user, query and fragment"
	case !strings.HasSuffix(base, "/"):
		problem = "must end with a slash"
	case len(base) > longestBase:
		problem = fmt.Sprintf("has more than %d characters", longestBase)
	case strings.ContainsFunc(
		base, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\^{|}`+"`", r) },
	):
		problem = "has characters that a URL must have escaped"
	case hasDotSegment(u.Path):
		problem = "must have no . and .. in its path"
	default:
		return nil
	}
	return fmt.Errorf("%q %s", cut(base), problem)
}

func hasDotSegment(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// cut bounds what a message shows of a text.
func cut(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
