package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/payload"
)

// walk is one Run. It is for one goroutine.
type walk struct {
	cfg   Config
	found func(Finding)
	sum   Summary
	roles [roleCount]handling

	// queue is what is to be looked at, in the order of its distance; later is what comes
	// after all documents: packages, then resources.
	queue, later []lead
	round
	former   map[string]*document // what the round before has read and is unchanged
	hubs     map[string]bool      // hubs that were asked
	told     map[string]bool      // limit notes, by subject
	counts   map[countKey]int     // findings of a rule in a document
	reported map[string]bool      // findings, as lines
	kept     int                  // bytes of listed entries that are remembered
	compared int                  // bytes of URIs that are remembered
	sample   reservoir[sampled]   // of resources
	changes  reservoir[sampled]   // of changes with links

	unpackedBytes int64
	cut           bool // a limit has kept something of this round from being read
}

// lead is where a document, or the caller, leads.
type lead struct {
	to   *url.URL
	role role
	from *document // nil at a start
	// entry is what lists the target, if an entry does; link is the link that leads there.
	entry *listed
	link  *payload.Link
	// at is where in from the lead is.
	at    place
	depth int
	// archived: an archive leads there, so that it tells of another time.
	archived bool
	set      string // the Capability List of the target's set, empty if that is unknown
}

// place is where something is: a document and an element of it.
type place struct {
	uri     string
	line    int
	element string
}

func newWalk(cfg Config, found func(Finding)) *walk {
	return &walk{
		cfg: cfg, found: found, sum: Summary{Complete: true}, roles: handlings(),
		round: newRound(), hubs: map[string]bool{}, told: map[string]bool{},
		reported: map[string]bool{},
		counts:   map[countKey]int{},
		sample:   reservoir[sampled]{size: cfg.Sample}, changes: reservoir[sampled]{size: cfg.Sample},
	}
}

// start looks at a place that the caller named, and at all that follows from it. The error says
// why the place could not be looked at.
func (w *walk) start(ctx context.Context, at string) error {
	if !isWebPlace(at) {
		if !w.cfg.Files {
			return fmt.Errorf("%s is not an absolute http or https address", quote(at))
		}
		return w.startFile(ctx, at)
	}
	u, err := url.Parse(at)
	if err != nil || !fetch.Web(u) {
		return fmt.Errorf("%s is not an absolute http or https address without a user name",
			quote(at))
	}
	u = plain(u)
	if u.Path == "/" {
		err = w.site(ctx, u)
	} else {
		err = w.startAt(ctx, u)
	}
	w.run(ctx)
	return err
}

// startAt looks at an address, whatever is there.
func (w *walk) startAt(ctx context.Context, u *url.URL) error {
	l := lead{to: u, role: roleStart}
	d := w.arrive(ctx, &l)
	switch {
	case d.isHub():
		return fmt.Errorf("%s: it is a hub; begin at a topic, or at what a Source serves", u)
	case d.status != http.StatusOK && !(d.status/100 == 2 && d.isTopic()):
		return unread(d)
	}
	return nil
}

// unread returns why a place could not be looked at, and what helps.
func unread(d *document) error {
	answered := fmt.Sprintf("%s: it is answered %d %s", d.uri, d.status, http.StatusText(d.status))
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](d.err)
	switch {
	case untrusted:
		return fmt.Errorf("%s: %w; renew the server's certificate, or name its issuers with SSL_CERT_FILE", d.uri, d.err)
	case d.err != nil:
		return fmt.Errorf("%s: %w", d.uri, d.err)
	case d.status/100 == 5:
		return errors.New(answered + "; see that the server runs, and check again")
	}
	return errors.New(answered + "; correct the address, or begin at the site, " + d.base.ResolveReference(&url.URL{Path: "/"}).String())
}

// startFile looks at a local file.
func (w *walk) startFile(ctx context.Context, name string) error {
	a, err := w.openFile(name)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "://") {
		return fmt.Errorf("%s is no http or https address, and there is no such file", quote(name))
	}
	if err != nil {
		return err
	}
	defer a.close()
	d := &document{uri: name, local: true, status: http.StatusOK}
	w.documents = append(w.documents, d)
	l := &lead{role: roleStart}
	w.read(ctx, d, a, l)
	w.expand(d, l)
	w.run(ctx)
	return nil
}

// run follows what is queued: documents first, then what is large.
func (w *walk) run(ctx context.Context) {
	for {
		var l lead
		switch {
		case len(w.queue) > 0:
			l, w.queue = w.queue[0], w.queue[1:]
		case len(w.later) > 0:
			l, w.later = w.later[0], w.later[1:]
		default:
			return
		}
		w.arrive(ctx, &l)
	}
}

// push queues a lead, if the walk may go so far.
func (w *walk) push(l lead) {
	switch {
	case l.depth > w.cfg.Limits.Depth:
		w.breaks(l.set)
		w.leftOut("depth", l.at, fmt.Sprintf("links are followed %d times from a place, and %s is further", w.cfg.Limits.Depth, quote(l.to.String())),
			"begin there, or allow more depth")
	case l.role == rolePackage:
		w.later = append(w.later, l)
	default:
		w.queue = append(w.queue, l)
	}
}

// lead queues where ref in a document leads. What is no web address is passed over: the document
// rules judge it.
func (w *walk) lead(d *document, r role, ref string, at place, from *lead) *lead {
	to := d.resolve(ref)
	if to == nil {
		return nil
	}
	inherits := r == rolePart || r == rolePackage || r == roleContents
	next := &lead{
		to: to, role: r, from: d, at: at, depth: from.depth + 1,
		archived: r == roleArchived || inherits && from.archived,
	}
	if inherits || r == roleCapability || r == roleTopic {
		next.set = d.set
	}
	return next
}

// arrive reads the target of a lead, if this round has not read it yet, and remembers the lead
// for judge.
func (w *walk) arrive(ctx context.Context, l *lead) *document {
	d := w.seen[l.to.String()]
	if d == nil {
		d = w.visit(ctx, l)
	}
	d.roles |= 1 << l.role
	if w.stopped(l, d) {
		w.breaks(l.set)
	} else {
		w.arrivals = append(w.arrivals, arrival{*l, d})
	}
	return d
}

// visit asks for an address, and reads what is there.
func (w *walk) visit(ctx context.Context, l *lead) *document {
	if d := w.former[l.to.String()]; d.serves(l) {
		w.reuse(d, l)
		return d
	}
	d := &document{uri: l.to.String(), base: l.to}
	w.seen[d.uri] = d
	within := w.cfg.Limits.Answer
	if l.role == rolePackage {
		within = w.cfg.Limits.Time
	}
	a, err := w.get(ctx, http.MethodGet, l.to, within)
	if err != nil {
		w.documents = append(w.documents, d)
		d.err = err
		return d
	}
	defer a.close()
	d.base, d.status, d.header = a.uri, a.status, a.header
	if to := a.uri.String(); to != d.uri {
		if known := w.seen[to]; known != nil {
			w.seen[d.uri] = known // one more address of it
			return known
		}
		w.seen[to] = d
	}
	w.documents = append(w.documents, d)
	d.readLinks()
	if a.status/100 == 2 {
		w.read(ctx, d, a, l)
	}
	d.forget()
	w.expand(d, l)
	return d
}

// read reads what is at an address, or in a file.
func (w *walk) read(ctx context.Context, d *document, a *answer, l *lead) {
	switch {
	case l.role == roleTopic || l.role == roleStart && d.isTopic():
		w.readTopic(d, a, l)
		a.close() // the connection is needed for what follows
		if l.role == roleTopic || d.isChannel() {
			w.lookAtTopic(ctx, d)
		} else {
			w.lookAtOther(ctx, d)
		}
	case d.status != http.StatusOK:
	case a.isPackage() || l.role == rolePackage:
		w.readPackage(ctx, d, a, l)
	default:
		w.readDocument(d, a, l)
		if l.role == roleStart && !d.known && d.isTopic() {
			a.close()
			w.lookAtOther(ctx, d) // by links of its own
		}
	}
}

// stopped reports whether a limit, or Config.Allow, has kept the walk from the target, and
// notes that.
func (w *walk) stopped(l *lead, d *document) bool {
	if d.err == nil {
		return false
	}
	at := l.at
	if at.uri == "" {
		at.uri = l.to.String()
	}
	return w.limited(d.err, at, l.to)
}

// limited notes that something was not looked at, if err says so.
func (w *walk) limited(err error, at place, to *url.URL) bool {
	switch {
	case errors.Is(err, errNotAllowed):
		w.leftOut("host "+to.Host, at,
			fmt.Sprintf("%s was not looked at: %s", quote(to.String()), reason(err)), "")
		return true
	case errors.Is(err, errTime):
		w.leftOut("time", at, fmt.Sprintf("not everything was looked at: %v (%s)", errTime,
			w.cfg.Limits.Time), "allow more time")
	case errors.Is(err, errRequests):
		w.leftOut("requests", at, fmt.Sprintf("not everything was looked at: %v (%d)", errRequests,
			w.cfg.Limits.Requests), "allow more requests")
	case errors.Is(err, errBytes):
		w.leftOut("bytes", at, fmt.Sprintf("not everything was looked at: %v (%d)", errBytes,
			w.cfg.Limits.Bytes), "allow more bytes")
	case errors.Is(err, errUnpacked):
		w.leftOut("unpacked", at, fmt.Sprintf("not everything was looked at: %v (%d)", errUnpacked,
			w.cfg.Limits.Unpacked), "allow more unpacked bytes")
	case errors.Is(err, errNoFile):
		w.leftOut("packages", at, "packages were not looked at: "+reason(err),
			"see that the directory for temporary files (TMPDIR) can be written, and has space")
	case errors.Is(err, context.Canceled):
		w.sum.Complete = false // the caller knows
	default:
		return false
	}
	w.cut = true
	return true
}

// isThere reports whether there is something at the target, and what is wrong if not.
func (w *walk) isThere(l *lead, d *document) bool {
	const mend = "serve it there, or take the link away"
	switch {
	case d.err != nil:
		w.report(w.roles[l.role].missing, l.at, l.from, mend, "%s cannot be read: %s", w.says(l),
			reason(d.err))
	case d.status != http.StatusOK && !(d.status/100 == 2 && l.role == roleTopic):
		w.report(w.roles[l.role].missing, l.at, l.from, mend, "%s is answered %d %s", w.says(l),
			d.status, http.StatusText(d.status))
	default:
		return true
	}
	return false
}

// says names the lead and its target.
func (w *walk) says(l *lead) string { return w.roles[l.role].name + " " + quote(l.to.String()) }

// finite is a time of a document, zero for none.
func finite(told string) time.Time {
	at, err := payload.ParseDatetime(strings.TrimSpace(told))
	if told == "" || err != nil {
		return time.Time{}
	}
	return at
}
