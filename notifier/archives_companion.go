package notifier

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"carillon/notifier/archive"
	"carillon/payload"
)

// Archiver is a Companion whose documents are archived, if those of its set are.
type Archiver interface {
	// Archives returns what there is to archive. It is called once.
	Archives() []Archivable
}

// Archivable is the documents of one capability, such as Resource Dumps. Its functions may be
// called from any goroutine. The archive asks for what waits when Notifier.Archive says so, and
// now and then.
type Archivable struct {
	// Capability is that of the documents, such as payload.CapResourceDump.
	Capability string
	// Document is the name of the document below its address, such as "dump.xml".
	Document string
	// Waiting returns what there is, oldest first. What ends before the newest archived one, or what
	// is not due, is passed over.
	Waiting func() []Archiving
	// Kept is called when one of them is in the archive.
	Kept func()
	// Serve answers a request for a file of an archived document: name is below its address. An
	// error that is fs.ErrNotExist says that it has just gone; others are as in Route.
	Serve func(w http.ResponseWriter, r *http.Request, one ArchivedFiles, name string) error
}

// Archiving is a document that can be archived.
type Archiving struct {
	// Kept is its interval, or when its making began and ended.
	archive.Kept
	// Write makes a directory at a path with the document's files, best by hard links, and leaves it
	// durable.
	Write func(path string) error
}

// ArchivedFiles is a document that is in the archive.
type ArchivedFiles struct {
	archive.Kept
	// Dir has the files that Write has made.
	Dir string
	// URI is the lasting address of a file by its name, which must have no slash.
	URI func(name string) string
	// Links are those of the document: to the Capability List and to the archive.
	Links []payload.Link
}

// Archive has the archive of a set look at what is to be archived.
func (n *Notifier) Archive(set string) {
	if ch := n.byName[set]; ch != nil {
		ch.archives.poke()
	}
}

// ArchiveLinks returns the links of a live document of a capability to its archive: none while
// there is no archive, or nothing in it.
func (n *Notifier) ArchiveLinks(set, capability string) []payload.Link {
	if ch := n.byName[set]; ch != nil {
		return ch.archives.links(nil, capability)
	}
	return nil
}

// attach opens the archives of a companion.
func (a *archives) attach(c Archiver) error {
	for _, one := range c.Archives() {
		k, err := a.ch.newKeeping(one.Capability, "%s/"+one.Document, "")
		if err != nil {
			return err
		}
		k.own = one
		if err := a.continued(context.Background(), k); err != nil {
			return err
		}
		a.others = append(a.others, k)
	}
	return nil
}

// keepWaiting archives what a companion has: all that covers intervals, and of moments one every
// Config.ArchiveEvery.
func (k *keeping) keepWaiting(expired time.Time) error {
	waiting := k.own.Waiting()
	if !k.ofChanges() && len(waiting) > 0 {
		waiting = waiting[len(waiting)-1:]
	}
	for _, one := range waiting {
		_, newest, some := k.Ends()
		switch {
		case !one.End.After(expired), some && one.Begin.Before(newest.End):
			continue
		case some && !k.ofChanges() && one.Begin.Sub(newest.Begin) < k.ch.n.cfg.ArchiveEvery:
			continue
		}
		if err := k.Add(one.Kept, one.Write); err != nil {
			return err
		}
		k.changed()
		k.ch.log.Info("a dump was archived", "archive", k.capability, "from", payload.FormatDatetime(one.Begin))
		k.own.Kept()
	}
	return nil
}

// serveOther answers for a document of a companion.
func (k *keeping) serveOther(w http.ResponseWriter, r *http.Request) error {
	begin, err := time.Parse(listAddress, mux.Vars(r)["begin"])
	if err != nil {
		return refuse(http.StatusNotFound, "There is nothing at this path.")
	}
	one, dir, found := k.Find(begin)
	if !found {
		return k.missing(begin)
	}
	err = k.own.Serve(w, r, ArchivedFiles{
		Kept: one, Dir: dir,
		URI: func(name string) string {
			return k.ch.n.publicURL(k.ch.set + "/archive/" + k.of + "/" + begin.UTC().Format(listAddress) + "/" + name)
		},
		Links: slices.Concat([]payload.Link{{Rel: payload.RelUp, Href: k.ch.up}}, k.ch.archives.links(nil, k.of)),
	}, mux.Vars(r)["name"])
	if errors.Is(err, fs.ErrNotExist) { // it went this moment
		return k.gone()
	}
	return err
}
