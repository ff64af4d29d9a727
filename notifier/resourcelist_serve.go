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

	"carillon/notifier/moments"
	"carillon/payload"
)

func (l *resourceLists) url() string { return l.ch.n.uris.of(l.ch.set + "/resourcelist.xml") }

// partURL is where part n of the list of the moment at is, or its Index, 0, for as long as
// they are kept.
func (l *resourceLists) partURL(g *generation, n int) string {
	if n == 0 && g.Lasting {
		return l.ch.archives.resources.keptURL(g.At)
	}
	below, name := "/resourcelist/", "index"
	if g.Lasting {
		below = "/archive/resourcelist/"
	}
	if n > 0 {
		name = strconv.Itoa(n)
	}
	return l.ch.n.uris.of(l.ch.set + below + moments.Name(g.At) + "/" + name + ".xml")
}

// route adds the addresses of the Resource Lists of a set:
//
//	resourcelist.xml             what the Capability List names: the newest list, or its
//	                             Index where it has several parts, by its root (core §9, §10)
//	resourcelist/{at}/index.xml  the Index of the list of that moment
//	resourcelist/{at}/{n}.xml    a part of it
//	archive/resourcelist/{at}/…  the same of a list that was made to be archived; list.xml is the
//	                             Index, or the list itself where it has one part
func (l *resourceLists) route(router *mux.Router, prefix string) {
	router.Path(prefix + l.ch.set + "/resourcelist.xml").Handler(
		l.ch.n.docs.readDocument(kindResourceList, l.serveNewest),
	)
	router.Path(prefix + l.ch.set + "/resourcelist/{at:[0-9TZ.]+}/index.xml").Handler(
		l.ch.n.docs.readDocument(kindResourceListIndex, l.servePart),
	)
	router.Path(
		prefix + l.ch.set + "/resourcelist/{at:[0-9TZ.]+}/{n:[0-9]{1,5}}.xml",
	).Handler(l.ch.n.docs.readDocument(kindResourceList, l.servePart))
	router.Path(
		prefix + l.ch.set + "/archive/resourcelist/{at:[0-9TZ.]+}/list.xml",
	).Handler(l.ch.n.docs.readDocument(kindArchived, l.serveLasting))
	router.Path(
		prefix + l.ch.set + "/archive/resourcelist/{at:[0-9TZ.]+}/{n:[0-9]{1,5}}.xml",
	).Handler(l.ch.n.docs.readDocument(kindArchived, l.serveLasting))
}

func (l *resourceLists) serveNewest(w http.ResponseWriter, r *http.Request) error {
	g := l.newest()
	if g == nil {
		return refuse(
			http.StatusNotFound, "The set has no Resource List: its resources are not known, or there are none yet.",
		)
	}
	return l.ch.n.docs.serveDocument(w, r, l.document(g, g.whole(), false))
}

func (l *resourceLists) servePart(w http.ResponseWriter, r *http.Request) error {
	at, err := moments.Parse(mux.Vars(r)["at"])
	if err != nil {
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	}
	all := l.served()
	i, found := slices.BinarySearchFunc(all, at, func(g *generation, at time.Time) int { return g.At.Compare(at) })
	switch {
	case !found && i < len(all):
		return l.gone()
	case !found || all[i].Lasting: // which has its addresses elsewhere
		return refuse(http.StatusNotFound, "There is no Resource List of this time.")
	}
	return l.serveStored(w, r, all[i], 0)
}

// serveStored answers with the requested part of a list, or with the whole list.
func (l *resourceLists) serveStored(w http.ResponseWriter, r *http.Request, g *generation, whole int) error {
	n := whole
	if number, given := mux.Vars(r)["n"]; given {
		var err error
		if n, err = strconv.Atoi(number); err != nil || n == 0 || number != strconv.Itoa(n) {
			n = -1
		}
	}
	if n < 0 || g.stored(n) == nil {
		return refuse(http.StatusNotFound, "The Resource List has no such part.")
	}
	return l.ch.n.docs.serveDocument(w, r, l.document(g, n, true))
}

// serveLasting answers for a list that is archived, or will be.
func (l *resourceLists) serveLasting(w http.ResponseWriter, r *http.Request) error {
	at, err := moments.Parse(mux.Vars(r)["at"])
	if err != nil {
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	}
	g, err := l.lasting(at)
	if err != nil {
		return err
	}
	return l.serveStored(w, r, g, g.whole())
}

// lasting finds the list of a moment that is archived, or will be.
func (l *resourceLists) lasting(at time.Time) (*generation, error) {
	g := &generation{}
	for _, one := range l.served() {
		if one.Lasting && one.At.Equal(at) {
			*g = *one
		}
	}
	if l.ch.archives == nil {
		if g.Lasting {
			return g, nil
		}
		return nil, refuse(http.StatusNotFound, "The set has no archive.")
	}
	kept := l.ch.archives.resources
	_, path, found := kept.Find(at)
	switch {
	case !found && g.Lasting: // it is being archived
		return g, nil
	case !found:
		return nil, kept.missing(at)
	}
	if g.dir = path; g.Lasting { // its known facts need not be read again
		return g, nil
	}
	g, err := l.archived.Get(path, func(dir string) (*generation, error) {
		g := &generation{dir: dir}
		return g, g.load()
	})
	switch {
	case errors.Is(err, os.ErrNotExist): // it went this moment
		return nil, kept.gone()
	case err != nil:
		return nil, fmt.Errorf("an archived Resource List: %w", err)
	}
	return g, nil
}

// whole is the number of the document of the whole list.
func (g *generation) whole() int {
	if g.Index == nil {
		return 1
	}
	return 0
}

// gone refuses a list that was let go, or never was: there is a newer one.
func (l *resourceLists) gone() error {
	return &httpError{
		status: http.StatusGone,
		header: http.Header{
			"Link": l.ch.archives.linkHeader(payload.CapResourceList, "<"+l.url()+`>; rel="latest-version"`),
		},
		text: fmt.Sprintf("This Resource List is not kept any more. The newest is %s .", l.url()),
	}
}

// document is part n of a list, or its Index, 0.
func (l *resourceLists) document(g *generation, n int, lasting bool) document {
	d := document{
		kind: kindResourceList, lasting: lasting, modified: g.Completed,
		tag:    strconv.FormatInt(g.At.UnixMicro(), 36) + "-" + strconv.Itoa(n),
		stored: func() (*storedReader, error) { return l.open(g, n) },
	}
	if n == 0 {
		d.kind = kindResourceListIndex
	}
	return d
}

// open opens the file of a document.
func (l *resourceLists) open(g *generation, n int) (*storedReader, error) {
	file, err := os.Open(g.file(n))
	switch {
	case errors.Is(err, os.ErrNotExist) && l.newest() != g: // it went this moment
		return nil, l.gone()
	case err != nil:
		return nil, fmt.Errorf("a Resource List: %w", err)
	}
	stored := g.stored(n)
	return &storedReader{File: file, size: stored.Size, packed: stored.Packed}, nil
}

// capability is the entry of the Resource Lists in the Capability List, if there is a list.
func (l *resourceLists) capability() (payload.Capability, bool) {
	return payload.Capability{Loc: l.url(), Capability: payload.CapResourceList}, l.newest() != nil
}
