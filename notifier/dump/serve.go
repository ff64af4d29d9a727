package dump

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/internal/await"
	"carillon/notifier"
	"carillon/notifier/archive"
	"carillon/notifier/moments"
	"carillon/payload"
)

// Names of the documents in the metrics.
const (
	kindResourceDump = "resource_dump"
	kindChangeDump   = "change_dump"
	kindPackage      = "dump_package"
)

// progressEvery is how often a request for a dump is answered with how far that has come.
const progressEvery = time.Second

// site serves the dumps of a set, and informs their makers of requests.
type site struct {
	*shelf
	resources *resourceDump
	changes   *changeDump
	archived  archive.Loaded[*generation]
}

var _ notifier.Companion = (*site)(nil)

// Arrived implements notifier.Companion.
func (s *site) Arrived(int) { s.resources.arrived() }

// ListsChanged implements notifier.Companion.
func (s *site) ListsChanged() { await.Wake(s.changes.wake) }

func (s *site) resourceDumpURL() string {
	return s.d.cfg.Notifier.PublicURL(s.name + "/resourcedump.xml")
}

func (s *site) changeDumpURL() string { return s.d.cfg.Notifier.PublicURL(s.name + "/changedump.xml") }

func folder(kind Kind) string { return string(kind) + "dump/" }

// uri is where package n of a generation is for as long as that is kept.
func (s *site) uri(g *generation, n int) string {
	return s.d.cfg.Notifier.PublicURL(s.name + "/" + folder(g.Kind) + g.Name() + "/" + packageName(n))
}

// manifestURI is where a copy of its manifest is.
func (s *site) manifestURI(g *generation, n int) string {
	return s.d.cfg.Notifier.PublicURL(s.name + "/" + folder(g.Kind) + g.Name() + "/" + strconv.Itoa(n) + ".xml")
}

// Routes implements notifier.Companion:
//
//	resourcedump.xml            the newest Resource Dump (core §11.1)
//	resourcedump/{at}/{n}.zip   a package of it; {n}.xml is a copy of its manifest
//	changedump.xml              the Change Dump (core §13.1)
//	changedump/{from}/{n}.zip   a package of it; {n}.xml as above
//
// and on the intake listener POST /sets/NAME/dump, which makes a Resource Dump.
func (s *site) Routes() []notifier.Route {
	return []notifier.Route{
		{Path: "resourcedump.xml", Kind: kindResourceDump, Serve: s.serveResourceDump},
		{Path: "changedump.xml", Kind: kindChangeDump, Serve: s.serveChangeDump},
		{Path: folder(Resources), Kind: kindPackage, Serve: s.serveFilesOf(Resources)},
		{Path: folder(Changes), Kind: kindPackage, Serve: s.serveFilesOf(Changes)},
		{Path: "dump", Intake: true, Methods: []string{http.MethodPost}, Serve: s.serveAsked},
	}
}

// Capabilities implements notifier.Companion.
func (s *site) Capabilities() (all []payload.Capability) {
	if s.newest() != nil {
		all = append(all, payload.Capability{Loc: s.resourceDumpURL(), Capability: payload.CapResourceDump})
	}
	if len(s.of(Changes)) > 0 {
		all = append(all, payload.Capability{Loc: s.changeDumpURL(), Capability: payload.CapChangeDump})
	}
	return all
}

func (s *site) serveResourceDump(w http.ResponseWriter, r *http.Request) error {
	modified, g := s.modified(Resources), s.newest()
	if g == nil {
		return notifier.Refuse(http.StatusNotFound, "The set has no Resource Dump yet.", nil)
	}
	archives := s.d.cfg.Notifier.ArchiveLinks(s.name, payload.CapResourceDump)
	head := g.resourceHead(append([]payload.Link{{Rel: payload.RelUp, Href: s.up}}, archives...))
	return s.d.cfg.Notifier.ServeEntries(w, r, kindResourceDump, modified, false,
		document(head, []*generation{g}, s.uri, s.manifestURI))
}

// serveChangeDump answers with the Change Dump of all parts (core §13.1). It has no until, as further
// packages follow.
func (s *site) serveChangeDump(w http.ResponseWriter, r *http.Request) error {
	modified, all := s.modified(Changes), s.of(Changes)
	if len(all) == 0 {
		return notifier.Refuse(http.StatusNotFound,
			"The set has no Change Dump yet: it begins with the first Change List that is closed.", nil)
	}
	archives := s.d.cfg.Notifier.ArchiveLinks(s.name, payload.CapChangeDump)
	head := payload.Head{
		Capability: payload.CapChangeDump, From: all[0].From,
		Links: append([]payload.Link{{Rel: payload.RelUp, Href: s.up}}, archives...),
	}
	return s.d.cfg.Notifier.ServeEntries(w, r, kindChangeDump, modified, false,
		document(head, all, s.uri, s.manifestURI))
}

// mostPackages returns how many packages a dump of the set can list, live or archived, by the bytes
// of the longest entry.
func (s *site) mostPackages() (int, error) {
	long := &generation{Kind: Changes, Packages: make([]zipFile, payload.MaxEntries)}
	n := len(long.Packages)
	long.Packages[n-1] = zipFile{
		Bytes: math.MaxInt64, Hash: fmt.Sprintf("sha-256:%x", [sha256.Size]byte{}),
	}
	part := long.listed(n, s.uri(long, n), s.manifestURI(long, n))
	part.From, part.Until = s.started, s.started
	entry, err := payload.AppendListed(nil, &part)
	const (
		head     = 16 << 10
		archived = 2 * len("archive/resource") // an archived dump has longer addresses
	)
	return min(s.d.cfg.Packages, (payload.MaxBytes-head)/(len(entry)+archived)), err
}

func (s *site) serveFilesOf(kind Kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error { return s.serveFile(w, r, kind) }
}

// serveFile answers with a package, or with a copy of its manifest.
func (s *site) serveFile(w http.ResponseWriter, r *http.Request, kind Kind) error {
	nothing := notifier.Refuse(http.StatusNotFound, "There is nothing at this path.", nil)
	dir, file := path.Split(r.URL.Path)
	at, err := moments.Parse(path.Base(dir))
	number, suffix, _ := strings.Cut(file, ".")
	n, numberErr := strconv.Atoi(number)
	if err != nil || numberErr != nil || strconv.Itoa(n) != number || suffix != "zip" && suffix != "xml" ||
		!strings.HasSuffix(dir, "/"+s.name+"/"+folder(kind)+path.Base(dir)+"/") {
		return nothing
	}
	all := s.of(kind)
	i, found := slices.BinarySearchFunc(all, at, func(g *generation, at time.Time) int {
		return g.begins().Compare(at)
	})
	switch {
	case !found && i < len(all):
		return s.gone(kind)
	case !found || n < 1 || n > len(all[i].Packages):
		return nothing
	}
	g := all[i]
	err = send(s.d.cfg.Notifier, w, r, g.File(n), &g.Packages[n-1], suffix == "xml")
	if errors.Is(err, fs.ErrNotExist) { // it went this moment
		return s.gone(kind)
	}
	return err
}

// gone refuses a package that was dropped, or never was: there are newer ones.
func (s *site) gone(kind Kind) error {
	where := s.resourceDumpURL()
	if kind == Changes {
		where = s.changeDumpURL()
	}
	text := fmt.Sprintf("This package is not kept any more. What there is: %s .", where)
	return notifier.Refuse(http.StatusGone, text,
		http.Header{"Link": {"<" + where + `>; rel="latest-version"`}})
}

// send answers with the file of a package, or with the manifest in it: conditions, ranges of
// packages, within what n sends at a time. The error is fs.ErrNotExist where the file is not there.
func send(
	n *notifier.Notifier, w http.ResponseWriter, r *http.Request, file string, p *zipFile, manifest bool,
) error {
	tag := strings.TrimPrefix(p.Hash, "sha-256:")
	if manifest {
		return n.ServeReader(w, r, kindPackage, tag+"-manifest", p.Completed, true, func() (io.ReadCloser, error) {
			return openManifest(file, p.Manifest)
		})
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	header := w.Header()
	header.Set("Cache-Control", "public, max-age=2592000, immutable")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("ETag", strconv.Quote(tag))
	header.Set("Content-Type", mediaZip)
	return n.SendFile(w, r, p.Completed, f)
}

// serveAsked makes a Resource Dump that begins after the request. It answers with NDJSON: a Progress
// each second, and an Answer at the end. GET answers with the Progress of what is being made.
func (s *site) serveAsked(w http.ResponseWriter, r *http.Request) error {
	out := json.NewEncoder(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method != http.MethodPost {
		if now, making := s.resources.progress.look(); making {
			_ = out.Encode(now) // a client that has gone needs no answer
		}
		return nil
	}
	request := s.resources.ask()
	control := http.NewResponseController(w)
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		// Not every writer has deadlines; each line has its own time.
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute))
		select {
		case o := <-request:
			_ = out.Encode(answerOf(o)) // as above
			return nil
		case <-r.Context().Done(): // the dump is made all the same
			return nil
		case <-ticker.C:
			now, making := s.resources.progress.look()
			if !making {
				now = Progress{} // not that of the dump before
			}
			now.Earlier = making && s.resources.waits(request)
			if out.Encode(now) != nil {
				return nil
			}
			_ = control.Flush() // nor can every writer flush
		}
	}
}
