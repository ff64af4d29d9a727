package dump

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"carillon/notifier"
	"carillon/notifier/archive"
	"carillon/payload"
)

// archivedName is the document of an archived dump, below its address; its packages are beside it.
const archivedName = "dump.xml"

// Archives implements notifier.Archiver: each Resource Dump, and each part of the Change Dump, can
// be kept as a dump of its own.
func (s *site) Archives() []notifier.Archivable {
	of := func(kind Kind, capability string) notifier.Archivable {
		return notifier.Archivable{
			Capability: capability, Document: archivedName, Sparse: kind == Resources,
			Kept: func() { s.touch(kind) },
			Waiting: func(context.Context) (all []notifier.Archiving, _ error) {
				for _, g := range s.of(kind) {
					all = append(all, notifier.Archiving{Kept: g.covers(), Write: g.linkTo})
				}
				return all, nil
			},
			Serve: func(w http.ResponseWriter, r *http.Request, one notifier.ArchivedFiles, name string) error {
				return s.serveArchived(w, r, kind, one, name)
			},
		}
	}
	return []notifier.Archivable{
		of(Resources, payload.CapResourceDump),
		of(Changes, payload.CapChangeDump),
	}
}

// covers is the time of a generation, in the form of an archive.
func (g *generation) covers() archive.Kept {
	if g.Kind == Changes {
		return archive.Kept{Begin: g.From, End: g.Until}
	}
	return archive.Kept{Begin: g.At, End: g.Completed}
}

// linkTo makes a directory with the same files.
func (g *generation) linkTo(ctx context.Context, dir string) error {
	names := []string{generationName}
	for n := range g.Packages {
		names = append(names, packageName(n+1))
	}
	return archive.Link(ctx, dir, g.dir, names...)
}

// serveArchived answers with an archived dump, a package of it, or a copy of a manifest.
func (s *site) serveArchived(
	w http.ResponseWriter, r *http.Request, kind Kind, one notifier.ArchivedFiles, name string,
) error {
	g, err := s.archived.Get(one.Dir, func(dir string) (*generation, error) {
		g := &generation{dir: dir}
		return g, g.load()
	})
	if err != nil {
		return err
	}
	if name == archivedName {
		return s.d.cfg.Notifier.ServeEntries(w, r, string(kind)+"_dump", g.Completed, true, g.archivedDocument(one))
	}
	number, suffix, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(number)
	if err != nil || strconv.Itoa(n) != number || n < 1 || n > len(g.Packages) ||
		suffix != "zip" && suffix != "xml" {
		return notifier.Refuse(http.StatusNotFound, "The dump has no such package.", nil)
	}
	return send(s.d.cfg.Notifier, w, r, g.File(n), &g.Packages[n-1], suffix == "xml")
}

// archivedDocument is the document of an archived dump. That of changes is complete: later changes are
// in another.
func (g *generation) archivedDocument(one notifier.ArchivedFiles) notifier.Entries {
	head := g.resourceHead(one.Links)
	if g.Kind == Changes {
		head = payload.Head{
			Capability: payload.CapChangeDump, From: g.From, Until: g.Until, Links: one.Links,
		}
	}
	return document(head, []*generation{g},
		func(_ *generation, n int) string { return one.URI(packageName(n)) },
		func(_ *generation, n int) string { return one.URI(strconv.Itoa(n) + ".xml") })
}
