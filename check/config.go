package check

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"
)

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
