package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// museum is a Source that keeps all its documents in archives: its Resource Lists, its closed Change
// Lists, and dumps of both if it makes some. Package payload writes all of them.
type museum struct {
	*httptest.Server
	t     *testing.T
	dumps bool
	// onlyDumps: there are no lists. unhashed: lists tell no hashes.
	onlyDumps, unhashed bool
	clock               time.Time
	files               map[string]string // as they are now
	docs                map[string][]byte // documents and packages, by path

	open     []payload.Entry // changes of the open Change List
	packed   []payload.Entry // the same, with paths
	contents map[string]string
	from     time.Time // of the open Change List

	// The entries of the archives and of the open Change Dump.
	lists, resourceDumps, changes, changeDumps []payload.Part
	// past is what there was at each moment.
	past map[time.Time]map[string]string
}

func newMuseum(t *testing.T, dumps bool) *museum {
	m := &museum{
		t: t, dumps: dumps, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), files: map[string]string{},
		docs: map[string][]byte{}, contents: map[string]string{}, past: map[time.Time]map[string]string{},
	}
	m.from = m.clock
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, is := m.docs[r.URL.Path]
		if text, file := m.files[r.URL.Path]; file && !is {
			doc, is = []byte(text), true
		}
		if !is {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(doc)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(doc))
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *museum) tick() time.Time {
	m.clock = m.clock.Add(time.Minute)
	return m.clock
}

func (m *museum) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// put changes a resource; "" deletes it.
func (m *museum) put(path, text string) {
	m.t.Helper()
	e := payload.Entry{Loc: m.URL + path, Change: payload.Deleted, Datetime: m.tick()}
	packed := e
	if text == "" {
		delete(m.files, path)
	} else {
		m.files[path] = text
		e.Change, e.Hash, e.Length = payload.Updated, fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))), fmt.Sprint(len(text))
		e.LastMod = payload.FormatDatetime(m.clock)
		packed = e
		packed.Path = fmt.Sprintf("/resources/%d", len(m.contents))
		m.contents[packed.Path] = text
	}
	if m.unhashed {
		e.Hash = ""
	}
	m.open, m.packed = append(m.open, e), append(m.packed, packed)
}

// remember records what there is, and returns the moment.
func (m *museum) remember() time.Time {
	at := m.tick()
	m.past[at] = maps.Clone(m.files)
	return at
}

func (m *museum) up(more ...payload.Link) []payload.Link {
	return append([]payload.Link{{Rel: payload.RelUp, Href: m.URL + "/caps.xml"}}, more...)
}

// document writes a document below the site, of entries or of parts.
func document[E any](m *museum, path string, head payload.Head, entries []E, add func([]byte, *E) ([]byte, error)) {
	m.t.Helper()
	if head.Links == nil {
		head.Links = m.up()
	}
	doc, err := payload.AppendHead(nil, head)
	m.must(err)
	for i := range entries {
		doc, err = add(doc, &entries[i])
		m.must(err)
	}
	m.docs[path] = payload.AppendTail(doc, head.Index)
}

// snapshot writes a Resource List and archives it, and a Resource Dump with it. Only the last one is live.
func (m *museum) snapshot(live bool) {
	m.t.Helper()
	at := m.remember()
	var listed, packed []payload.Entry
	contents := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(m.files)) {
		text := m.files[path]
		e := payload.Entry{
			Loc: m.URL + path, Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))), Length: fmt.Sprint(len(text)),
			LastMod: payload.FormatDatetime(at.Add(-time.Hour)),
		}
		listed = append(listed, e)
		e.Path = fmt.Sprintf("/resources/%d", i)
		packed, contents[e.Path] = append(packed, e), text
	}
	if m.unhashed {
		for i := range listed {
			listed[i].Hash = ""
		}
	}
	head := payload.Head{Capability: payload.CapResourceList, At: at}
	address := fmt.Sprintf("/archive/resources-%d.xml", at.Unix())
	document(m, address, head, listed, payload.AppendResource)
	m.lists = append(m.lists, payload.Part{Loc: m.URL + address, At: at})
	if live {
		head.Links = m.up(payload.Link{Rel: payload.RelArchives, Href: m.URL + "/resource-archive.xml"})
		document(m, "/resources.xml", head, listed, payload.AppendResource)
	}
	if !m.dumps {
		return
	}
	part := m.pack(
		fmt.Sprintf("/archive/resources-%d.zip", at.Unix()),
		payload.Head{Capability: payload.CapResourceDumpManifest, At: at}, packed, contents,
	)
	part.At = at
	address = fmt.Sprintf("/archive/dump-%d.xml", at.Unix())
	document(m, address, payload.Head{Capability: payload.CapResourceDump, At: at}, []payload.Part{part}, payload.AppendListed)
	m.resourceDumps = append(m.resourceDumps, payload.Part{Loc: m.URL + address, At: at})
}

// pack writes a package.
func (m *museum) pack(path string, head payload.Head, entries []payload.Entry, contents map[string]string) payload.Part {
	m.t.Helper()
	document(m, "/manifest", head, entries, payload.AppendBitstream)
	manifest := m.docs["/manifest"]
	delete(m.docs, "/manifest")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	write := func(name string, content []byte) {
		w, err := z.Create(name)
		m.must(err)
		_, err = w.Write(content)
		m.must(err)
	}
	write("manifest.xml", manifest)
	for i := range entries {
		if p := entries[i].Path; p != "" {
			write(strings.TrimPrefix(p, "/"), []byte(contents[p]))
		}
	}
	m.must(z.Close())
	m.docs[path] = b.Bytes()
	return payload.Part{
		Loc: m.URL + path, Type: "application/zip", Length: fmt.Sprint(b.Len()), Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256(b.Bytes())),
	}
}

// seal closes the open Change List and archives it, and its Change Dump.
func (m *museum) seal() {
	m.t.Helper()
	until := m.tick()
	address := fmt.Sprintf("/archive/changes-%d.xml", until.Unix())
	document(m, address, payload.Head{Capability: payload.CapChangeList, From: m.from, Until: until}, m.open, payload.AppendEntry)
	m.changes = append(m.changes, payload.Part{Loc: m.URL + address, From: m.from, Until: until})
	if m.dumps {
		part := m.pack(fmt.Sprintf("/archive/changes-%d.zip", until.Unix()),
			payload.Head{Capability: payload.CapChangeDumpManifest, From: m.from, Until: until}, m.packed, m.contents)
		part.From, part.Until = m.from, until
		address := fmt.Sprintf("/archive/changedump-%d.xml", until.Unix())
		document(m, address, payload.Head{Capability: payload.CapChangeDump, From: m.from, Until: until}, []payload.Part{part}, payload.AppendListed)
		m.changeDumps = append(m.changeDumps, payload.Part{Loc: m.URL + address, From: m.from, Until: until})
	}
	m.from, m.open, m.packed = until, nil, nil
}

// publish writes the live documents and the archives.
func (m *museum) publish() {
	m.t.Helper()
	offers := []payload.Capability{
		{Loc: m.URL + "/resources.xml", Capability: payload.CapResourceList},
		{Loc: m.URL + "/changes.xml", Capability: payload.CapChangeList},
		{Loc: m.URL + "/change-archive.xml", Capability: payload.CapChangeListArchive},
	}
	if m.onlyDumps {
		offers = nil
	}
	document(m, "/changes.xml", payload.Head{Capability: payload.CapChangeList, From: m.from}, m.open, payload.AppendEntry)
	document(m, "/resource-archive.xml", payload.Head{Capability: payload.CapResourceListArchive}, m.lists, payload.AppendListed)
	document(m, "/change-archive.xml", payload.Head{Capability: payload.CapChangeListArchive}, m.changes, payload.AppendListed)
	if m.dumps {
		for address, of := range map[string]struct {
			capability string
			parts      []payload.Part
		}{
			"/resourcedump-archive.xml": {payload.CapResourceDumpArchive, m.resourceDumps},
			"/changedump-archive.xml":   {payload.CapChangeDumpArchive, m.changeDumps},
		} {
			document(m, address, payload.Head{Capability: of.capability}, of.parts, payload.AppendListed)
			offers = append(offers, payload.Capability{Loc: m.URL + address, Capability: of.capability})
		}
		part := m.pack("/open.zip", payload.Head{Capability: payload.CapChangeDumpManifest, From: m.from}, m.packed, m.contents)
		part.From = m.from
		document(m, "/changedump.xml", payload.Head{Capability: payload.CapChangeDump, From: m.from}, []payload.Part{part}, payload.AppendListed)
		offers = append(offers, payload.Capability{Loc: m.URL + "/changedump.xml", Capability: payload.CapChangeDump})
	}
	var b bytes.Buffer
	m.must(payload.WriteCapabilityList(&b, payload.CapabilityList{Up: m.URL + "/.well-known/resourcesync", Capabilities: offers}))
	m.docs["/caps.xml"] = bytes.Clone(b.Bytes())
	b.Reset()
	m.must(payload.WriteSourceDescription(&b, payload.SourceDescription{CapabilityLists: []payload.CapabilityListRef{{Loc: m.URL + "/caps.xml"}}}))
	m.docs["/.well-known/resourcesync"] = b.Bytes()
}

// record plays a history: it returns five moments of it.
func (m *museum) record() (moments []time.Time) {
	m.t.Helper()
	for i := range 20 {
		m.put(fmt.Sprintf("/d%d/f%d", i%3, i), fmt.Sprintf("first %d", i))
	}
	m.seal()
	m.snapshot(false)
	moments = append(moments, m.clock) // of the list itself
	m.put("/d0/f0", "second 0")
	m.put("/d1/f1", "")
	m.put("/new", "new")
	moments = append(moments, m.remember())
	m.put("/d0/f0", "third 0")
	m.put("/new", "newer")
	m.seal()
	m.put("/d1/f1", "it is back")
	m.put("/d2/f2", "second 2")
	moments = append(moments, m.remember())
	m.put("/d2/f2", "first 2") // as it was
	m.seal()
	m.snapshot(false)
	m.put("/d0/f3", "")
	m.put("/new", "")
	moments = append(moments, m.remember())
	m.put("/new", "newest")
	m.seal()
	m.snapshot(true)
	m.put("/d1/f4", "second 4")
	moments = append(moments, m.remember())
	m.put("/d1/f4", "third 4")
	m.put("/d0/f0", "")
	m.publish()
	return moments
}

// mirror is a mirror of the museum.
func (m *museum) mirror() *mirrored {
	dir := m.t.TempDir()
	return &mirrored{m.t, &shelf{Server: m.Server}, filepath.Join(dir, "copies"), filepath.Join(dir, "data")}
}

// same compares a mirror with what there was, byte for byte, but for what is given.
func (m *museum) same(r *mirrored, was map[string]string, but ...string) {
	m.t.Helper()
	host := filepath.Join(r.dir, strings.Replace(strings.TrimPrefix(m.URL, "http://"), ":", "+", 1))
	got := map[string]string{}
	err := fs.WalkDir(os.DirFS(host), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(filepath.Join(host, name))
			got["/"+name] = string(text)
		}
		return err
	})
	m.must(err)
	was = maps.Clone(was)
	for _, path := range but {
		delete(was, path)
		delete(got, path)
	}
	if !maps.Equal(got, was) {
		m.t.Errorf("the mirror has %q\nand there was %q", got, was)
	}
}
