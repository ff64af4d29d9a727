package notifier

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/gorilla/mux"

	"carillon/notifier/archive"
	"carillon/notifier/moments"
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
	// Sparse: only the newest document is archived, Config.ArchiveEvery after the one before.
	Sparse bool
	// Waiting returns the documents, oldest first. Those that do not follow the newest archived one,
	// or are not due, are skipped.
	Waiting func(ctx context.Context) ([]Archiving, error)
	// Kept is called when one of them is in the archive. Nil: nothing is.
	Kept func()
	// Serve answers a request for a file of an archived document: name is below its address. An
	// error that is fs.ErrNotExist says that it has just gone; others are as in Route.
	Serve func(w http.ResponseWriter, r *http.Request, one ArchivedFiles, name string) error
}

// Archiving is a document that waits for the archive.
type Archiving struct {
	// Kept is its interval, or when its making began and ended.
	archive.Kept
	// Write makes the document at a path, a directory with its files, best by hard links, and leaves
	// it durable.
	Write func(ctx context.Context, path string) error
}

// ArchivedFiles is an archived document.
type ArchivedFiles struct {
	archive.Kept
	// Dir is the directory that Write has made.
	Dir string
	// URI is the lasting address of a file by its name, which must have no slash.
	URI func(name string) string
	// Links are those of the document: to the Capability List and to the archive.
	Links []payload.Link
}

// Archive makes the archives of a set ask for what waits.
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
		if _, err := a.open(context.Background(), one, "%s/"+one.Document, ""); err != nil {
			return err
		}
	}
	return nil
}

// serveOther answers for a document of a companion.
func (k *keeping) serveOther(w http.ResponseWriter, r *http.Request) error {
	begin, err := moments.Parse(mux.Vars(r)["begin"])
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
			return k.ch.n.uris.of(
				k.ch.set + "/archive/" + k.own.Capability + "/" + moments.Name(begin) + "/" + name)
		},
		Links: k.ch.archives.links([]payload.Link{{Rel: payload.RelUp, Href: k.ch.up}}, k.own.Capability),
	}, mux.Vars(r)["name"])
	if errors.Is(err, fs.ErrNotExist) { // it was dropped just now
		return k.gone()
	}
	return err
}

// capabilities returns the entries of the archives in the Capability List (archives §2.1).
func (a *archives) capabilities() (all []payload.Capability) {
	for _, k := range a.each() {
		if k.Len() > 0 {
			all = append(all, payload.Capability{Loc: k.url(), Capability: k.capability})
		}
	}
	return all
}
