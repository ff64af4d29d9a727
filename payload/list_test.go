package payload_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

var up = payload.Link{Rel: "up", Href: museumUp}

// put appends what add gives, which must not fail.
func put(t testing.TB, doc []byte, add func([]byte) ([]byte, error)) []byte {
	t.Helper()
	longer, err := add(doc)
	if err != nil {
		t.Fatal(err)
	}
	return longer
}

func TestChangeListAsWritten(t *testing.T) {
	doc := put(t, nil, func(dst []byte) ([]byte, error) {
		return payload.AppendHead(dst, payload.Head{
			Capability: payload.CapChangeList, From: museum.From, Until: museum.Until,
			Links: []payload.Link{up, {Rel: "index", Href: "https://source.example/museum/changelist-index.xml"}},
		})
	})
	all := museumEntries()
	for _, e := range []payload.Entry{all[0], all[2]} {
		doc = put(t, doc, func(dst []byte) ([]byte, error) { return payload.AppendEntry(dst, &e) })
	}
	doc = payload.AppendTail(doc, false)
	if want := document(t, "changelist.xml"); string(doc) != string(want) {
		t.Errorf("got\n%s", doc)
	}
}

func TestResourceListAsWritten(t *testing.T) {
	doc := put(t, nil, func(dst []byte) ([]byte, error) {
		return payload.AppendHead(dst, payload.Head{
			Capability: payload.CapResourceList, At: museum.From, Completed: museum.Until, Links: []payload.Link{up},
		})
	})
	bare := payload.Entry{Loc: "https://source.example/objects/bell-1548", Datetime: start}
	for _, e := range []payload.Entry{museumEntries()[1], bare} {
		e.Change = ""
		if len(e.Links) > 0 {
			e.Links = e.Links[:2] // the third is a patch
		}
		doc = put(t, doc, func(dst []byte) ([]byte, error) { return payload.AppendResource(dst, &e) })
	}
	doc = payload.AppendTail(doc, false)
	if want := document(t, "resourcelist.xml"); string(doc) != string(want) {
		t.Errorf("got\n%s", doc)
	}
}

func TestResourceListIndexAsWritten(t *testing.T) {
	doc := put(t, nil, func(dst []byte) ([]byte, error) {
		return payload.AppendHead(dst, payload.Head{
			Index: true, Capability: payload.CapResourceList, At: museum.From, Links: []payload.Link{up},
		})
	})
	for _, p := range []payload.Part{
		{Loc: "https://source.example/museum/resourcelist/1.xml", LastMod: "2026-03-01T09:00:01Z", At: museum.From, Completed: museum.Until},
		{Loc: "https://source.example/museum/resourcelist/2.xml"},
	} {
		doc = put(t, doc, func(dst []byte) ([]byte, error) { return payload.AppendPart(dst, &p) })
	}
	doc = payload.AppendTail(doc, true)
	if want := document(t, "resourcelist-index.xml"); string(doc) != string(want) {
		t.Errorf("got\n%s", doc)
	}
}

func TestAppendHeadRefuses(t *testing.T) {
	changes := payload.Head{Capability: payload.CapChangeList, From: start, Links: []payload.Link{up}}
	resources := payload.Head{Capability: payload.CapResourceList, At: start, Links: []payload.Link{up}}
	index := payload.Link{Rel: "index", Href: "https://source.example/index.xml"}
	archives := payload.Link{Rel: payload.RelArchives, Href: "https://source.example/archive.xml"}
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		head  payload.Head
		field string
		spoil func(*payload.Head)
	}{
		"another capability":    {changes, "capability", func(h *payload.Head) { h.Capability = payload.CapCapabilityList }},
		"a notification":        {changes, "capability", func(h *payload.Head) { h.Capability = payload.ChangeNotification }},
		"an index of manifests": {changes, "capability", func(h *payload.Head) { h.Capability, h.Index = payload.CapChangeDumpManifest, true }},
		"a manifest with an index": {changes, "ln", func(h *payload.Head) {
			h.Capability, h.Links = payload.CapChangeDumpManifest, []payload.Link{up, index}
		}},
		"a Change Dump with at":     {changes, "at", func(h *payload.Head) { h.Capability, h.At = payload.CapChangeDump, start }},
		"a Change Dump, no from":    {changes, "from", func(h *payload.Head) { h.Capability, h.From = payload.CapChangeDump, time.Time{} }},
		"a manifest without from":   {changes, "from", func(h *payload.Head) { h.Capability, h.From = payload.CapChangeDumpManifest, time.Time{} }},
		"a Resource Dump with from": {resources, "from", func(h *payload.Head) { h.Capability, h.From = payload.CapResourceDump, start }},
		"a Resource Dump, no at":    {resources, "at", func(h *payload.Head) { h.Capability, h.At = payload.CapResourceDump, time.Time{} }},
		"a manifest without at":     {resources, "at", func(h *payload.Head) { h.Capability, h.At = payload.CapResourceDumpManifest, time.Time{} }},
		"an archive with at":        {resources, "at", func(h *payload.Head) { h.Capability = payload.CapResourceListArchive }},
		"an archive with from":      {changes, "at", func(h *payload.Head) { h.Capability = payload.CapChangeDumpArchive }},
		"an archive of an archive": {changes, "ln", func(h *payload.Head) {
			h.Capability, h.From, h.Links = payload.CapChangeListArchive, time.Time{}, []payload.Link{up, archives}
		}},
		"two archives": {changes, "ln", func(h *payload.Head) { h.Links = []payload.Link{up, archives, archives} }},
		"a patch of a list": {changes, "ln[1].rel", func(h *payload.Head) {
			h.Links = []payload.Link{up, {Rel: payload.RelPatch, Href: museumUp, Type: "a/b"}}
		}},
		"no capability":           {changes, "capability", func(h *payload.Head) { h.Capability = "" }},
		"no from":                 {changes, "from", func(h *payload.Head) { h.From = time.Time{} }},
		"until before from":       {changes, "until", func(h *payload.Head) { h.Until = start.Add(-time.Microsecond) }},
		"at of changes":           {changes, "at", func(h *payload.Head) { h.At = start }},
		"completed of changes":    {changes, "at", func(h *payload.Head) { h.Completed = start }},
		"no at":                   {resources, "at", func(h *payload.Head) { h.At = time.Time{} }},
		"completed before at":     {resources, "completed", func(h *payload.Head) { h.Completed = start.Add(-time.Second) }},
		"until of resources":      {resources, "from", func(h *payload.Head) { h.Until = start }},
		"year 10000":              {resources, "completed", func(h *payload.Head) { h.Completed = late }},
		"no up":                   {changes, "ln", func(h *payload.Head) { h.Links = nil }},
		"two ups":                 {changes, "ln", func(h *payload.Head) { h.Links = []payload.Link{up, up} }},
		"two ups of an orphan":    {changes, "ln", func(h *payload.Head) { h.Links, h.Orphan = []payload.Link{up, up}, true }},
		"two indexes":             {changes, "ln", func(h *payload.Head) { h.Links = []payload.Link{up, index, index} }},
		"an index of an index":    {changes, "ln", func(h *payload.Head) { h.Links, h.Index = []payload.Link{up, index}, true }},
		"a relative up":           {changes, "ln[1].href", func(h *payload.Head) { h.Links = []payload.Link{index, {Rel: "up", Href: "/up"}} }},
		"too many links":          {changes, "ln", func(h *payload.Head) { h.Links = make([]payload.Link, payload.MaxLinks+1) }},
		"links that fill it":      {changes, "ln", func(h *payload.Head) { h.Links = many(up, 2000) }},
		"a broken media type":     {changes, "ln[0].type", func(h *payload.Head) { h.Links[0].Type = "xml" }},
		"what XML does not carry": {changes, "ln[0].href", func(h *payload.Head) { h.Links[0].Href = "https://a.example/\x00" }},
	} {
		h := tt.head
		h.Links = append([]payload.Link(nil), h.Links...)
		tt.spoil(&h)
		got, err := payload.AppendHead([]byte("before"), h)
		wantFieldError(t, err, tt.field)
		if string(got) != "before" {
			t.Errorf("%s: wrote %q", name, got)
		}
	}
}

// many returns n links like l, as long as they may be, but one as it is.
func many(l payload.Link, n int) []payload.Link {
	long := payload.Link{Rel: "describedby", Href: "https://a.example/" + strings.Repeat("a", 2000)}
	links := []payload.Link{l}
	for range n {
		links = append(links, long)
	}
	return links
}

// An empty list is legal, and a head need not name an unknown Capability List.
func TestAppendHeadAccepts(t *testing.T) {
	for name, h := range map[string]payload.Head{
		"empty":  {Capability: payload.CapChangeList, From: start, Until: start, Links: []payload.Link{up}},
		"orphan": {Capability: payload.CapChangeList, From: start, Orphan: true},
		// The written forms are compared.
		"below a microsecond": {Capability: payload.CapChangeList, From: start.Add(9), Until: start.Add(1), Links: []payload.Link{up}},
	} {
		doc, err := payload.AppendHead(nil, h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, entries, err := readAll(string(payload.AppendTail(doc, false)), payload.Limits{})
		if err != nil || len(entries) > 0 || !got.FromTime.Equal(start) || len(got.Links) != len(h.Links) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAppendPartRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		field string
		part  payload.Part
	}{
		"no loc":              {"loc", payload.Part{}},
		"a relative loc":      {"loc", payload.Part{Loc: "changelist-1.xml"}},
		"lastmod":             {"lastmod", payload.Part{Loc: museumUp, LastMod: "yesterday"}},
		"until alone":         {"from", payload.Part{Loc: museumUp, Until: start}},
		"completed alone":     {"at", payload.Part{Loc: museumUp, Completed: start}},
		"until before from":   {"until", payload.Part{Loc: museumUp, From: start, Until: start.Add(-1e9)}},
		"completed before at": {"completed", payload.Part{Loc: museumUp, At: start, Completed: start.Add(-1e9)}},
		"both kinds":          {"at", payload.Part{Loc: museumUp, From: start, At: start}},
		"hash":                {"hash", payload.Part{Loc: museumUp, Hash: "crc:00"}},
		"length":              {"length", payload.Part{Loc: museumUp, Length: "1 MB"}},
		"type":                {"type", payload.Part{Loc: museumUp, Type: "zip"}},
		"a relative link":     {"ln[0].href", payload.Part{Loc: museumUp, Links: []payload.Link{{Rel: "alternate", Href: "/a"}}}},
		"endless links":       {"ln", payload.Part{Loc: museumUp, Links: many(up, 2000)}},
		"before year 0":       {"from", payload.Part{Loc: museumUp, From: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		got, err := payload.AppendPart([]byte("before"), &tt.part)
		wantFieldError(t, err, tt.field)
		if string(got) != "before" {
			t.Errorf("%s: wrote %q", name, got)
		}
	}
}

// One attribute alone makes an rs:md.
func TestAppendResourceWritesEach(t *testing.T) {
	for _, want := range []payload.Entry{
		{Hash: md5},
		{Length: "0"},
		{Type: "text/html"},
		{Encoding: "gzip"},
		{LastMod: "2026-03-01T08:59:58Z"},
	} {
		want.Loc = museumUp
		doc := put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendResource(dst, &want) })
		_, got, err := readAll(urlset(string(doc)), payload.Limits{})
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	}
}

func TestAppendResourceRefuses(t *testing.T) {
	for field, e := range map[string]payload.Entry{
		"change":     {Loc: museumUp, Change: payload.Updated},
		"loc":        {Loc: "a"},
		"hash":       {Loc: museumUp, Hash: "crc:00"},
		"ln[0].href": {Loc: museumUp, Links: []payload.Link{{Rel: "up"}}},
	} {
		got, err := payload.AppendResource([]byte("before"), &e)
		wantFieldError(t, err, field)
		if string(got) != "before" {
			t.Errorf("%s: wrote %q", field, got)
		}
	}
}

// asRead is the read form of t.
func asRead(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return payload.FormatDatetime(t)
}

// A written document reads back the same, for every kind; an Inspector has no findings in it, and
// encoding/xml finds it well-formed.
func TestListRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHead(t)
		doc, err := payload.AppendHead(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		var want []payload.Entry
		switch h.Capability {
		case payload.CapResourceList, payload.CapChangeList, payload.CapResourceDumpManifest, payload.CapChangeDumpManifest:
			if !h.Index {
				doc, want = drawEntries(t, h, doc)
				break
			}
			fallthrough
		default:
			doc, want = drawParts(t, h, doc)
		}
		doc = payload.AppendTail(doc, h.Index)
		i := payload.NewInspector(h.Capability)
		got, entries, err := inspect(iotest.HalfReader(bytes.NewReader(doc)), i)
		if err != nil || len(entries) != len(want) || len(want) > 0 && !reflect.DeepEqual(entries, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v\n%s", err, entries, want, doc)
		}
		if got.Capability != h.Capability || got.From != asRead(h.From) || got.Until != asRead(h.Until) || got.At != asRead(h.At) ||
			got.Completed != asRead(h.Completed) || (got.Root == payload.RootSitemapIndex) != h.Index || !reflect.DeepEqual(got.Links, h.Links) {
			t.Fatalf("head %+v of\n%s", got, doc)
		}
		if odd := i.Violations(); len(odd) > 0 {
			t.Fatalf("odd: %v\n%s", odd, doc)
		}
		if err := xml.Unmarshal(doc, new(struct{})); err != nil {
			t.Fatalf("encoding/xml: %v\n%s", err, doc)
		}
	})
}

// utc is the datetime as core §7 recommends it, or nothing.
func utc(told string) string {
	at, err := payload.ParseDatetime(told)
	if err != nil {
		return ""
	}
	return payload.FormatDatetime(at)
}

// inspect reads a document to its end beside an Inspector.
func inspect(r io.Reader, i *payload.Inspector) (payload.Header, []payload.Entry, error) {
	reader := payload.NewReader(r, payload.Limits{})
	h, err := reader.Header()
	if err != nil {
		return h, nil, err
	}
	i.Head(h)
	var entries []payload.Entry
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			h, err = reader.Header()
			i.End(h)
			return h, entries, err
		}
		if err != nil {
			return h, entries, err
		}
		i.Entry(&e)
		entries = append(entries, unlined(e))
	}
}
