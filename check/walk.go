package check

import (
	"context"
	"net/http"
	"slices"
)

// walk is one Run. It is for one goroutine.
type walk struct {
	*reporter
	*round
	frontier
	*reader
	packages packageReader
	topics   topics
	samples  *samples

	former map[string]*document // what the round before has read and is unchanged
}

func newWalk(cfg Config, found func(Finding)) *walk {
	rep, rd := newReporter(cfg, found), newRound()
	v := &visitor{reporter: rep}
	sm := newSamples(v, &rd)
	read := &reader{visitor: v, samples: sm}
	return &walk{
		reporter: rep, round: &rd, reader: read, samples: sm,
		frontier: frontier{reporter: rep, round: &rd},
		packages: packageReader{read, &rd},
		topics:   topics{read, map[string]bool{}},
	}
}

// run follows what is queued: documents first, then what is large.
func (w *walk) run(ctx context.Context) {
	for {
		l, more := w.next()
		if !more {
			return
		}
		w.arrive(ctx, &l)
	}
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
	d := &document{served: served{uri: l.to.String(), base: l.to}}
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
		w.topics.readTopic(d, a, l)
		a.close() // the connection is needed for what follows
		if l.role == roleTopic || d.isChannel() {
			w.topics.lookAtTopic(ctx, d)
		} else {
			w.topics.lookAtOther(ctx, d)
		}
	case d.status != http.StatusOK:
	case a.isPackage() || l.role == rolePackage:
		w.packages.readPackage(ctx, d, a, l)
		if m := d.pack.manifest; m != nil && m.whole {
			w.expand(m, l)
		}
	default:
		w.readDocument(d, a, l)
		if l.role == roleStart && !d.known && d.isTopic() {
			a.close()
			w.topics.lookAtOther(ctx, d) // by links of its own
		}
	}
}

// stopped reports whether a limit, or Config.Allow, has kept the walk from the target, and
// records that.
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

// reuse takes a document of the round before into this one.
func (w *walk) reuse(d *document, l *lead) {
	w.seen[l.to.String()] = d
	if slices.Contains(w.documents, d) {
		return // another address of it
	}
	w.seen[d.base.String()] = d
	w.restore(d, l)
	if d.pack != nil && d.pack.manifest != nil {
		w.restore(d.pack.manifest, l)
	}
}

// restore follows a document of the round before as if it had been read now.
func (w *walk) restore(d *document, l *lead) {
	w.documents = append(w.documents, d)
	d.roles, d.channelOf = 0, nil
	if d.known {
		d.set = setOf(d, l)
	}
	w.expand(d, l)
}
