package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Level says how bad a Finding is.
type Level string

// The levels. A broken must is an Error, a broken should or recommendation a Warning. A Note
// says what was not looked at, or what may be of use.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is one thing that is wrong, or a note.
type Finding struct {
	Level Level `json:"level"`
	// Clause is the document and section of the standard: "core 11.2", "CN 3", "archives 5",
	// "WebSub 4". It is "limits" where something was not looked at.
	Clause string `json:"clause"`
	// URI is the document, package or resource: an address, or the name of a file.
	URI string `json:"uri"`
	// Line is where the element begins, from 1; 0 where that is not known.
	Line int `json:"line,omitempty"`
	// Element is the element, such as "url[3]/rs:md/@hash"; empty for the whole document.
	Element string `json:"element,omitempty"`
	// What says what is wrong, and Mend what to do about it. Texts of strangers in them are
	// quoted and short.
	What string `json:"what"`
	Mend string `json:"mend,omitempty"`

	rule *ruleID // of this package, nil for others
}

// Place is where the finding is: the address or file, the line and the element.
func (f *Finding) Place() string {
	place := f.URI
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Element != "" {
		place += " " + f.Element
	}
	return place
}

// String is the finding as one line: level, clause, place, and what to do.
func (f *Finding) String() string {
	line := fmt.Sprintf("%s %s %s: %s", f.Level, f.Clause, f.Place(), f.What)
	if f.Mend != "" {
		line += "; " + f.Mend
	}
	return line
}

// Summary says what a Run has looked at.
type Summary struct {
	Documents int   `json:"documents"` // lists, indexes, manifests, notifications
	Packages  int   `json:"packages"`  // ZIP files that were read
	Resources int   `json:"resources"` // that were fetched and compared
	Requests  int   `json:"requests"`
	Bytes     int64 `json:"bytes"` // of the answers
	Errors    int   `json:"errors"`
	Warnings  int   `json:"warnings"`
	Notes     int   `json:"notes"`
	// Complete is false where a limit or Config.Allow kept the Run from looking at
	// something; notes say at what.
	Complete bool `json:"complete"`
}

// Limits bound what a Run may cost. Zero fields have the default.
type Limits struct {
	// Requests is how many requests are made, redirects among them; default 1,000.
	Requests int
	// Bytes is how much is read, from the network and from files; default 1 GiB.
	Bytes int64
	// Memory is how many bytes of what documents list are remembered, about, and of the URIs
	// that are compared as many again; default 64 MiB.
	Memory int
	// Time bounds the whole; default 10 m.
	Time time.Duration
	// Answer bounds one request, from its start to the last byte; default 1 m. A package
	// has Time.
	Answer time.Duration
	// Redirects from one address; default 5.
	Redirects int
	// Depth is how many links the walk follows from a place; default 10.
	Depth int
	// Unpacked is how many bytes are unpacked, of packages and gzip files together; default 4 GiB.
	Unpacked int64
}

// Config says how to check.
type Config struct {
	// Transport carries the requests. It must be set where a place is an address.
	Transport http.RoundTripper
	// Allow refuses an address with the reason, before anything is asked there; also that of
	// a redirect. Default: all are allowed.
	Allow func(*url.URL) error
	// AllowHub is Allow for the hubs that topics name, each of which is asked by one GET;
	// default Allow.
	AllowHub func(*url.URL) error
	// Files lets places be names of local files.
	Files bool
	// Sample is how many resources of the Resource Lists are fetched and compared, and how
	// many changes have the targets of their links looked at; default 0. They are chosen at random.
	Sample int
	// UserAgent of requests; default "Carillon-Check".
	UserAgent string
	// Dir is where packages are put while they are read; default the system's
	// directory for temporary files.
	Dir string
	// Limits bound what it may cost.
	Limits Limits
}

// Validate says which setting is wrong.
func (c *Config) Validate() error {
	l := &c.Limits
	if min(c.Sample, l.Requests, l.Memory, l.Redirects, l.Depth) < 0 ||
		min(l.Bytes, l.Unpacked) < 0 || min(l.Time, l.Answer) < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	l := c.Limits
	c.Limits = Limits{
		Requests: cmp.Or(l.Requests, 1000), Bytes: cmp.Or(l.Bytes, 1<<30),
		Memory: cmp.Or(l.Memory, 64<<20),
		Time:   cmp.Or(l.Time, 10*time.Minute), Answer: cmp.Or(l.Answer, time.Minute),
		Redirects: cmp.Or(l.Redirects, 5),
		Depth:     cmp.Or(l.Depth, 10), Unpacked: cmp.Or(l.Unpacked, 4<<30),
	}
	c.UserAgent = cmp.Or(c.UserAgent, "Carillon-Check")
	if c.AllowHub == nil {
		c.AllowHub = c.Allow
	}
	return c
}

// Run looks at places and at everything that the standards connect with them, and calls found
// for each finding, from the goroutine that called Run. A place is the address of a site, of a
// document, of a package or of a topic, or, with Config.Files, the name of a file.
//
// The error says which places could not be looked at at all, or that ctx has ended; the Summary
// holds what was looked at also beside an error. Findings are no error.
func Run(ctx context.Context, cfg Config, places []string, found func(Finding)) (Summary, error) {
	if err := cfg.Validate(); err != nil {
		return Summary{}, err
	}
	w := newWalk(cfg.withDefaults(), found)
	limited, cancel := context.WithTimeoutCause(ctx, w.cfg.Limits.Time, errTime)
	defer cancel()
	failed := w.walkFrom(limited, places)
	w.conclude(limited, places)
	w.sampleResources(limited)
	w.judgeClosed(limited)
	if err := ctx.Err(); err != nil {
		failed = append(failed, err)
	}
	return w.sum, errors.Join(failed...)
}

// isWebPlace reports whether a place is an address and not the name of a file.
func isWebPlace(place string) bool {
	scheme, _, found := strings.Cut(place, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
