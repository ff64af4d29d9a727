package notifier

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"carillon/notifier/moments"
	"carillon/payload"
)

func (c *changeLists) url() string { return c.ch.n.uris.of(c.ch.set + "/changelist.xml") }

func (c *changeLists) indexURL() string {
	return c.ch.n.uris.of(c.ch.set + "/changelist-index.xml")
}

// listURL is where the list from from is for as long as it is kept.
func (c *changeLists) listURL(from time.Time) string {
	return c.ch.n.uris.of(c.ch.set + "/changelist/" + moments.Name(from) + ".xml")
}

// route adds the addresses of the Change Lists of a set:
//
//	changelist.xml           what the Capability List names: the open list while there is
//	                         only one, else the Index, by its root (core §9, §12)
//	changelist-index.xml     the Index, where there is more than one list
//	changelist/open.xml      the open list
//	changelist/{from}.xml    a list; also the open one, so that its poller sees
//	                         it closed and goes on from there (core §12.1)
func (c *changeLists) route(router *mux.Router, prefix string) {
	router.Path(prefix + c.ch.set + "/changelist.xml").Handler(c.ch.n.docs.readDocument(kindChangeList, c.serve))
	router.Path(prefix + c.ch.set + "/changelist-index.xml").Handler(
		c.ch.n.docs.readDocument(kindChangeListIndex, c.serveIndex),
	)
	router.Path(prefix + c.ch.set + "/changelist/open.xml").Handler(
		c.ch.n.docs.readDocument(kindChangeList, c.serveOpenList),
	)
	router.Path(prefix + c.ch.set + "/changelist/{from:[0-9TZ.]+}.xml").Handler(
		c.ch.n.docs.readDocument(kindChangeList, c.serveListFrom),
	)
}

func (c *changeLists) serve(w http.ResponseWriter, r *http.Request) error {
	v, err := c.view(r.Context())
	if err != nil {
		return err
	}
	if len(v.lists) > 1 {
		return c.ch.n.docs.serveDocument(w, r, c.indexDocument(v))
	}
	return c.ch.n.docs.serveDocument(w, r, c.openDocument(v))
}

func (c *changeLists) serveOpenList(w http.ResponseWriter, r *http.Request) error {
	v, err := c.view(r.Context())
	if err != nil {
		return err
	}
	return c.ch.n.docs.serveDocument(w, r, c.openDocument(v))
}

func (c *changeLists) serveIndex(w http.ResponseWriter, r *http.Request) error {
	v, err := c.view(r.Context())
	if err != nil {
		return err
	}
	if len(v.lists) == 1 {
		return refuse(http.StatusNotFound, "There is one Change List only, and so no Index: it is "+c.url()+" .")
	}
	return c.ch.n.docs.serveDocument(w, r, c.indexDocument(v))
}

func (c *changeLists) serveListFrom(w http.ResponseWriter, r *http.Request) error {
	from, err := moments.Parse(mux.Vars(r)["from"])
	if err != nil {
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	}
	v, err := c.view(r.Context())
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(
		v.lists, from, func(l ChangeList, from time.Time) int { return l.From.Compare(from) },
	)
	switch {
	case found && i == len(v.lists)-1:
		return c.ch.n.docs.serveDocument(w, r, c.openDocument(v))
	case found:
		return c.ch.n.docs.serveDocument(w, r, c.closedDocument(v.lists[i]))
	case i == 0 && c.ch.archives.hasChanges(from):
		return c.ch.archives.changes.moved(from)
	case i == 0:
		return c.gone(v)
	}
	return refuse(http.StatusNotFound, "No Change List begins at this time.")
}

// gone refuses a list that was let go.
func (c *changeLists) gone(v listView) error {
	where := c.url()
	if len(v.lists) > 1 {
		where = c.indexURL()
	}
	return &httpError{
		status: http.StatusGone, header: http.Header{
			"Link": c.ch.archives.linkHeader(payload.CapChangeList, "<"+where+`>; rel="index"`),
		},
		text: fmt.Sprintf("There are no Change Lists from before %s, or none any more. Those that there are: %s .",
			payload.FormatDatetime(v.lists[0].From), where),
	}
}

// listHead is the beginning of a Change List's document.
func (c *changeLists) listHead(l ChangeList, indexed bool) []byte {
	var links []payload.Link
	if indexed {
		links = append(links, payload.Link{Rel: payload.RelIndex, Href: c.indexURL()})
	}
	if l.Until.IsZero() { // a closed one stays as it is
		links = c.ch.archives.links(links, payload.CapChangeList)
	}
	return c.headWith(l, links)
}

// longestHead is the longest that a Change List's document can ever begin with.
func (c *changeLists) longestHead(from time.Time) []byte {
	links := []payload.Link{{Rel: payload.RelIndex, Href: c.indexURL()}}
	if c.ch.archives != nil {
		links = append(links, payload.Link{Rel: payload.RelArchives, Href: c.ch.archives.changes.url()})
	}
	return c.headWith(ChangeList{From: from, Until: from}, links)
}

func (c *changeLists) headWith(l ChangeList, links []payload.Link) []byte {
	return mustHead(payload.Head{
		Capability: payload.CapChangeList, From: l.From, Until: l.Until,
		Links: append([]payload.Link{{Rel: payload.RelUp, Href: c.ch.up}}, links...),
	})
}

// mustHead writes a head whose parts were looked at before, at a start or in the journal.
func mustHead(h payload.Head) []byte {
	head, err := payload.AppendHead(nil, h)
	if err != nil {
		panic(fmt.Sprintf("the head of a list: %v", err))
	}
	return head
}

// openDocument is the open list as far as it was counted.
func (c *changeLists) openDocument(v listView) document {
	l := v.lists[len(v.lists)-1]
	return c.listDocument(l, listRange{
		head: c.listHead(l, len(v.lists) > 1), from: l.From, end: v.open.next, entries: v.open.entries,
		lastmods: c.ch.n.cfg.LastmodAlways,
	}, v.touched, v.listed)
}

// closedDocument is a closed list. It counts as modified in the second after it was closed,
// so that no date of when it was open is its own.
func (c *changeLists) closedDocument(l ChangeList) document {
	return c.listDocument(l, listRange{
		head: c.listHead(l, true), from: l.From, end: l.Until, entries: l.Entries,
		lastmods: l.Lastmods,
	}, l.Closed.Truncate(time.Second).Add(time.Second))
}

func (c *changeLists) listDocument(l ChangeList, has listRange, changes ...time.Time) document {
	has.ch = c.ch
	return document{
		kind: kindChangeList, lasting: !l.Until.IsZero(),
		tag:      tagFrom(has.head, has.end.UnixMicro(), has.lastmods),
		modified: slices.MaxFunc(changes, time.Time.Compare),
		write:    has.write,
	}
}

// listRange is what a Change List's document has.
type listRange struct {
	ch        *channel
	head      []byte
	from, end time.Time // of the events
	entries   int
	lastmods  bool // each entry has one
}

// write hands the document on. It opens the journal for each piece anew.
func (l *listRange) write(ctx context.Context, emit func([]byte) error) error {
	piece := append(make([]byte, 0, min(pieceBytes+len(l.head), (l.entries+2)*1024)), l.head...)
	next, left := l.from, l.entries
	for left > 0 {
		had := left
		for event, err := range l.ch.n.cfg.Journal.Events(ctx, l.ch.set, next) {
			if err != nil {
				return err
			}
			if !event.Datetime.Before(l.end) {
				break
			}
			if l.lastmods {
				giveLastmod(&event)
			}
			if piece, err = payload.AppendEntry(piece, &event.Entry); err != nil {
				return err
			}
			next = nextMicro(event.Datetime)
			if left--; left == 0 || len(piece) >= pieceBytes {
				break
			}
		}
		if left == had { // its events were let go meanwhile
			return errChanged
		}
		if left == 0 {
			break
		}
		if err := emit(piece); err != nil {
			return err
		}
		piece = piece[:0]
	}
	return emit(payload.AppendTail(piece, false))
}

// indexDocument is the Change List Index (core §12.2).
func (c *changeLists) indexDocument(v listView) document {
	head := mustHead(payload.Head{
		Index: true, Capability: payload.CapChangeList, From: v.lists[0].From,
		Links: c.ch.archives.links([]payload.Link{{Rel: "up", Href: c.ch.up}}, payload.CapChangeList),
	})
	newest := v.lists[len(v.lists)-1]
	return document{
		kind: kindChangeListIndex, modified: v.listed,
		// The part between the first and the last does not change.
		tag: tagFrom(head, newest.From.UnixMicro(), " ", len(v.lists)),
		write: pieces(head, len(v.lists), true, func(dst []byte, i int) ([]byte, error) {
			l := &v.lists[i]
			return payload.AppendPart(dst, &payload.Part{Loc: c.listURL(l.From), From: l.From, Until: l.Until})
		}),
	}
}
