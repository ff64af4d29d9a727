package check

import (
	"fmt"

	"carillon/internal/weblink"
	"carillon/payload"
)

// maxLed is how many links of one relation are followed from a document.
const maxLed = 20

// frontier holds the leads that are yet to be followed.
type frontier struct {
	*reporter
	*round
	// queue is what is to be looked at, in the order of its distance; later is what comes
	// after all documents: packages, then resources.
	queue, later []lead
}

// next returns the lead to follow next: documents first, then what is large.
func (f *frontier) next() (l lead, more bool) {
	switch {
	case len(f.queue) > 0:
		l, f.queue = f.queue[0], f.queue[1:]
	case len(f.later) > 0:
		l, f.later = f.later[0], f.later[1:]
	default:
		return l, false
	}
	return l, true
}

// expand queues where a document leads.
func (f *frontier) expand(d *document, l *lead) {
	for n, link := range weblink.Find(d.links, relResourceSync) {
		if n == maxLed {
			f.leftOutLinks(d, relResourceSync)
			break
		}
		next := f.lead(d, roleLinked, link.URI, d.place("link[rel=resourcesync]"), l)
		if next != nil {
			f.push(*next)
		}
	}
	if !d.known || isPlainSitemap(d, l) {
		return
	}
	for _, of := range [...]struct {
		rel  string
		role role
	}{{payload.RelUp, roleUp}, {payload.RelIndex, roleIndex}, {payload.RelArchives, roleArchives}} {
		led := 0
		for i := range d.head.Links {
			link := &d.head.Links[i]
			if link.Rel != of.rel {
				continue
			}
			if led++; led > maxLed {
				f.leftOutLinks(d, of.rel)
				break
			}
			next := f.lead(d, of.role, link.Href, d.place(fmt.Sprintf("rs:ln[%d]", i+1)), l)
			if next != nil {
				next.link = link
				f.push(*next)
			}
		}
	}
	f.expandEntries(d, l)
}

func (f *frontier) leftOutLinks(d *document, rel string) {
	f.leftOut("links "+d.uri, d.place(""),
		fmt.Sprintf("not everything was looked at: it has more than %d links with rel=%s", maxLed,
			rel), "")
}

// expandEntries queues the entries of a document. Topics come first: their changes must be in the
// Change List that is read after them.
func (f *frontier) expandEntries(d *document, l *lead) {
	var rest []lead
	for i := range d.entries {
		e := &d.entries[i]
		r, ok := d.lists(e)
		if !ok {
			continue
		}
		next := f.lead(d, r, e.Loc, d.of(e, "/loc"), l)
		if next == nil {
			continue
		}
		next.entry = e
		if r == roleTopic {
			f.push(*next)
		} else {
			rest = append(rest, *next)
		}
		if r != rolePackage {
			continue
		}
		for n := range e.Links {
			if e.Links[n].Rel != payload.RelContents {
				continue
			}
			if contents := f.lead(d, roleContents, e.Links[n].Href,
				d.of(e, fmt.Sprintf("/rs:ln[%d]", n+1)), l); contents != nil {
				contents.entry, contents.link = e, &e.Links[n]
				rest = append(rest, *contents)
			}
		}
	}
	for i := range rest {
		f.push(rest[i])
	}
}

// push queues a lead, if the walk may go so far.
func (f *frontier) push(l lead) {
	switch {
	case l.depth > f.cfg.Limits.Depth:
		f.breaks(l.set)
		f.leftOut("depth", l.at, fmt.Sprintf(
			"links are followed %d times from a place, and %s is further", f.cfg.Limits.Depth, quote(l.to.String()),
		),
			"begin there, or allow more depth")
	case l.role == rolePackage:
		f.later = append(f.later, l)
	default:
		f.queue = append(f.queue, l)
	}
}

// lead queues the target of ref in a document. Anything but a web address is passed over: the document
// rules judge it.
func (f *frontier) lead(d *document, r role, ref string, at place, from *lead) *lead {
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
