package check

import (
	"fmt"

	"carillon/internal/weblink"
	"carillon/payload"
)

// relResourceSync leads from a resource to the Capability List that covers it (core 6.3.3).
const relResourceSync = "resourcesync"

// maxLed is how many links of one relation are followed from a document.
const maxLed = 20

// expand queues where a document leads.
func (w *walk) expand(d *document, l *lead) {
	for n, link := range weblink.Find(d.links, relResourceSync) {
		if n == maxLed {
			w.leftOutLinks(d, relResourceSync)
			break
		}
		next := w.lead(d, roleLinked, link.URI, d.place("link[rel=resourcesync]"), l)
		if next != nil {
			w.push(*next)
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
				w.leftOutLinks(d, of.rel)
				break
			}
			next := w.lead(d, of.role, link.Href, d.place(fmt.Sprintf("rs:ln[%d]", i+1)), l)
			if next != nil {
				next.link = link
				w.push(*next)
			}
		}
	}
	w.expandEntries(d, l)
}

func (w *walk) leftOutLinks(d *document, rel string) {
	w.leftOut("links "+d.uri, d.place(""),
		fmt.Sprintf("not everything was looked at: it has more than %d links with rel=%s", maxLed,
			rel), "")
}

// expandEntries queues what a document lists. Topics come first: what they have must be in the
// Change List that is read after them.
func (w *walk) expandEntries(d *document, l *lead) {
	var rest []lead
	for i := range d.entries {
		e := &d.entries[i]
		r, ok := d.lists(e)
		if !ok {
			continue
		}
		next := w.lead(d, r, e.Loc, d.of(e, "/loc"), l)
		if next == nil {
			continue
		}
		next.entry = e
		if r == roleTopic {
			w.push(*next)
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
			if contents := w.lead(d, roleContents, e.Links[n].Href,
				d.of(e, fmt.Sprintf("/rs:ln[%d]", n+1)), l); contents != nil {
				contents.entry, contents.link = e, &e.Links[n]
				rest = append(rest, *contents)
			}
		}
	}
	for i := range rest {
		w.push(rest[i])
	}
}

// lists says what an entry of the document is; ok is false where it is none that leads on.
func (d *document) lists(e *listed) (r role, ok bool) {
	switch capability := d.head.Capability; {
	case d.isIndex():
		return rolePart, true
	case capability == payload.CapDescription:
		return roleSet, true
	case capability == payload.CapCapabilityList && e.Capability == payload.ChangeNotification:
		return roleTopic, true
	case capability == payload.CapCapabilityList:
		return roleCapability, true
	case capability == payload.CapResourceDump, capability == payload.CapChangeDump:
		return rolePackage, true
	}
	if _, is := payload.Archived(d.head.Capability); is {
		return roleArchived, true
	}
	return 0, false
}
