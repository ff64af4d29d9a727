package notifier

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"carillon/notifier/archive"
	"carillon/notifier/moments"
	"carillon/payload"
)

// route adds the addresses of the archives of a set:
//
//	changelist-archive.xml           the archive named in the Capability List, or the Index of
//	                                 its parts where it has several, by its root (archives §3)
//	changelist-archive/{first}.xml   a part: the address stays while the part has a document
//	archive/changelist/{from}.xml    an archived Change List
//
// and the same with resourcelist. The documents of an archived Resource List are with its own
// (resourceLists.route).
func (a *archives) route(router *mux.Router, prefix string) {
	for _, k := range a.each() {
		router.Path(prefix + k.ch.set + "/" + k.capability + ".xml").
			Handler(k.ch.n.docs.readDocument(kindArchive, k.serve))
		router.Path(prefix + k.ch.set + "/" + k.capability + "/{first:[0-9TZ.]+}.xml").
			Handler(k.ch.n.docs.readDocument(kindArchive, k.servePart))
		if k.own.Serve != nil {
			router.Path(prefix + k.ch.set + "/archive/" + k.own.Capability + "/{begin:[0-9TZ.]+}/{name}").
				Handler(k.ch.n.docs.readDocument(kindArchived, k.serveOther))
		}
	}
	if a != nil {
		router.Path(prefix + a.ch.set + "/archive/changelist/{begin:[0-9TZ.]+}.xml").
			Handler(a.ch.n.docs.readDocument(kindArchived, a.serveChanges))
	}
}

func (k *keeping) serve(w http.ResponseWriter, r *http.Request) error {
	parts := k.Parts()
	switch len(parts) {
	case 0:
		return refuse(http.StatusNotFound, "Nothing was archived yet, or it has gone again.")
	case 1:
		return k.ch.n.docs.serveDocument(w, r, k.document(parts[0], false))
	}
	return k.ch.n.docs.serveDocument(w, r, k.index(parts))
}

func (k *keeping) servePart(w http.ResponseWriter, r *http.Request) error {
	first, err := moments.Parse(mux.Vars(r)["first"])
	parts := k.Parts()
	i, found := slices.BinarySearchFunc(parts, first, func(p archive.Part, first time.Time) int {
		return p.First.Compare(first)
	})
	switch {
	case err != nil:
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	case !found:
		return k.missing(first)
	}
	return k.ch.n.docs.serveDocument(w, r, k.document(parts[i], len(parts) > 1))
}

// gone returns the error for a document that the archive has dropped.
func (k *keeping) gone() error {
	return &httpError{
		status: http.StatusGone, header: http.Header{"Link": {"<" + k.url() + `>; rel="archives"`}},
		text: fmt.Sprintf("The archive does not reach back so far any more. It is %s .", k.url()),
	}
}

// moved sends the reader of what is not kept here any more to the archive. The status is 301, as
// some readers do not know 308.
func (k *keeping) moved(begin time.Time) error {
	at := k.keptURL(begin)
	return &httpError{
		status: http.StatusMovedPermanently,
		header: http.Header{"Location": {at}, "Link": {"<" + k.url() + `>; rel="archives"`}},
		text:   "This is in the archive now: " + at + " .",
	}
}

// document is a part of the archive, or all of it.
func (k *keeping) document(part archive.Part, indexed bool) document {
	h := payload.Head{Capability: k.capability, Links: []payload.Link{{Rel: payload.RelUp, Href: k.ch.up}}}
	if indexed {
		h.Links = append(h.Links, payload.Link{Rel: payload.RelIndex, Href: k.url()})
	}
	head := mustHead(h)
	// The part between the oldest and the newest does not change.
	return document{
		kind: kindArchive, modified: k.modified(),
		tag: tagFrom(head, part.At(0).Begin.UnixMicro(), " ", part.At(part.Len()-1).End.UnixMicro(), " ", part.Len()),
		write: pieces(head, part.Len(), false, func(dst []byte, i int) ([]byte, error) {
			return k.appendEntry(dst, part.At(i))
		}),
	}
}

// index is the Index of the archive (archives §3.1).
func (k *keeping) index(parts []archive.Part) document {
	head := mustHead(payload.Head{
		Index: true, Capability: k.capability,
		Links: []payload.Link{{Rel: payload.RelUp, Href: k.ch.up}},
	})
	return document{
		kind: kindArchive, modified: k.modified(),
		tag: tagFrom(head, parts[0].First.UnixMicro(), " ", parts[len(parts)-1].First.UnixMicro(), " ", len(parts)),
		write: pieces(head, len(parts), true, func(dst []byte, i int) ([]byte, error) {
			return payload.AppendPart(dst, &payload.Part{Loc: k.partURL(parts[i])})
		}),
	}
}

// archivedDocument returns a Change List as the archive has it: the same entries, at an address of its
// own. It does not link to the Index, which lists it for Config.Keep only.
func (c *changeLists) archivedDocument(l ChangeList) document {
	head := c.headWith(l, []payload.Link{{Rel: payload.RelArchives, Href: c.ch.archives.changes.url()}})
	return c.listDocument(l, listRange{
		head: head, from: l.From, end: l.Until, entries: l.Entries, lastmods: l.Lastmods,
	}, l.Closed)
}

func (a *archives) serveChanges(w http.ResponseWriter, r *http.Request) error {
	from, err := moments.Parse(mux.Vars(r)["begin"])
	if err != nil {
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	}
	one, path, found := a.changes.Find(from)
	if !found {
		return a.changes.missing(from)
	}
	return a.ch.n.docs.serveDocument(w, r, document{
		kind: kindArchived, lasting: true, modified: one.End,
		tag: strconv.FormatInt(one.Begin.UnixMicro(), 36) + "-" +
			strconv.FormatInt(one.End.UnixMicro(), 36),
		stored: func() (*storedReader, error) {
			stored, err := openPacked(path)
			if errors.Is(err, os.ErrNotExist) { // it was dropped just now
				return nil, a.changes.gone()
			}
			return stored, err
		},
	})
}

// missing returns the error for a document that is not in the archive.
func (k *keeping) missing(begin time.Time) error {
	expired := k.ch.n.clock.Now().Add(-k.ch.n.cfg.ArchiveFor)
	if oldest, _, some := k.Ends(); some && begin.Before(oldest.Begin) || begin.Before(expired) {
		return k.gone()
	}
	return refuse(http.StatusNotFound, "The archive has nothing that begins at this time. It is "+k.url()+" .")
}
