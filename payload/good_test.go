package payload_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// at returns a time of the good documents: hours after start.
func at(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }

// goodDocuments are documents that break no rule and lack nothing recommended, by the names of
// their kinds. The writers of this package write them, but the index of descriptions, which
// they do not know.
func goodDocuments(t testing.TB) map[string]string {
	docs := map[string]string{
		"description index": "<?xml version=\"1.0\"?>\n" + index(`<rs:ln rel="describedby" href="https://source.example/about.html"/>`+
			`<rs:md capability="description"/><sitemap><loc>https://source.example/description1.xml</loc></sitemap>`),
	}
	contents := []payload.Link{{Rel: payload.RelContents, Href: "https://source.example/manifest.xml", Type: "application/xml"}}
	for name, capability := range map[string]string{
		"resourcelist": payload.CapResourceList, "resourcedump": payload.CapResourceDump, "resourcedump-manifest": payload.CapResourceDumpManifest,
		"changelist": payload.CapChangeList, "changedump": payload.CapChangeDump, "changedump-manifest": payload.CapChangeDumpManifest,
		"resourcelist-archive": payload.CapResourceListArchive, "resourcedump-archive": payload.CapResourceDumpArchive,
		"changelist-archive": payload.CapChangeListArchive, "changedump-archive": payload.CapChangeDumpArchive,
	} {
		h := payload.Head{Capability: capability, Links: []payload.Link{up}}
		first := payload.Part{Loc: "https://source.example/1", LastMod: "2026-03-01T12:00:00Z"}
		second := payload.Part{Loc: "https://source.example/2"}
		changes := strings.HasPrefix(name, "change")
		if changes {
			first.From, first.Until, second.From, second.Until = at(0), at(1), at(1), at(2)
		} else {
			first.At, first.Completed, second.At = at(0), at(1), at(1)
		}
		switch archive := strings.HasSuffix(name, "-archive"); {
		case archive:
		case changes:
			h.From, h.Until = at(0), at(2)
		default:
			h.At, h.Completed = at(0), at(2)
		}
		packages := []payload.Part{first, second}
		for n := range packages {
			if strings.HasSuffix(name, "dump") {
				p := &packages[n]
				p.Type, p.Length, p.Hash, p.Links = "application/zip", "4765", md5, contents
			}
		}
		doc := put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendHead(dst, h) })
		switch {
		case name == "resourcelist" || name == "changelist" || strings.HasSuffix(name, "-manifest"):
			doc = goodEntries(t, doc, name)
		default:
			for _, p := range packages {
				doc = put(t, doc, func(dst []byte) ([]byte, error) { return payload.AppendListed(dst, &p) })
			}
		}
		docs[name] = string(payload.AppendTail(doc, false))
		if strings.HasSuffix(name, "-manifest") {
			continue
		}
		h.Index = true
		if doc = put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendHead(dst, h) }); strings.HasSuffix(name, "-archive") {
			first, second = payload.Part{Loc: first.Loc}, payload.Part{Loc: second.Loc}
		}
		for _, p := range []payload.Part{first, second} {
			doc = put(t, doc, func(dst []byte) ([]byte, error) { return payload.AppendPart(dst, &p) })
		}
		docs[name+" index"] = string(payload.AppendTail(doc, true))
	}
	var list, description, notification bytes.Buffer
	all, capabilities := sourceDescription(), museumCapabilities()
	all.CapabilityLists[1].DescribedBy = "https://source.example/archive/about.html"
	if err := payload.WriteSourceDescription(&description, all); err != nil {
		t.Fatal(err)
	}
	capabilities.DescribedBy = "https://source.example/museum/about.html"
	if err := payload.WriteCapabilityList(&list, capabilities); err != nil {
		t.Fatal(err)
	}
	w, err := payload.NewNotificationWriter(&notification, payload.Interval{From: at(0), Until: at(2)}, museumUp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range goodChanges() {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	docs["description"], docs["capabilitylist"], docs["change-notification"] = description.String(), list.String(), notification.String()
	return docs
}

// goodChanges are changes with each kind of link.
func goodChanges() []payload.Entry {
	link := func(rel string) payload.Link { return payload.Link{Rel: rel, Href: "https://other.example/" + rel} }
	duplicate, alternate, patch, memento := link("duplicate"), link("alternate"), link("patch"), link("memento")
	duplicate.Pri, duplicate.Modified = "1", "2026-03-01T08:00:00Z"
	alternate.Type = "text/html"
	patch.Rel, patch.Type = payload.RelPatch, "application/json-patch+json"
	memento.Modified = "2026-03-01T08:00:00Z"
	return []payload.Entry{
		{
			Loc: "https://source.example/a", Change: payload.Updated, Datetime: at(0).Add(time.Minute), LastMod: "2026-03-01T08:00:00Z",
			Hash: md5 + " " + sha256, Length: "8876", Type: "text/html", Encoding: "gzip",
			Links: []payload.Link{
				duplicate, alternate, link("canonical"), patch, link("describedby"), link("describes"), link("profile"), memento,
				link("timegate"), link("timemap"), link("collection"), link("via"),
			},
		},
		{Loc: "https://source.example/b", Change: payload.Deleted, Datetime: at(1)},
	}
}

// goodEntries appends the changes, or the resources, as the kind of document has them.
func goodEntries(t testing.TB, doc []byte, name string) []byte {
	for _, e := range goodChanges() {
		write := payload.AppendEntry
		switch resource := !strings.HasPrefix(name, "change"); {
		case resource:
			e.Change, write = "", payload.AppendResource
			if len(e.Links) > 0 {
				e.Links = append(e.Links[:3:3], e.Links[4:]...) // without the patch
			}
		case strings.HasSuffix(name, "-manifest") && len(e.Links) > 0:
			e.Links[3].Path = "/patches/a"
		}
		if strings.HasSuffix(name, "-manifest") {
			write = payload.AppendBitstream
			if e.Change != payload.Deleted {
				e.Path, e.Type = "/content/"+e.Loc[len(e.Loc)-1:], "text/html"
			}
		}
		doc = put(t, doc, func(dst []byte) ([]byte, error) { return write(dst, &e) })
	}
	return doc
}

// TestGoodDocuments: the Inspector finds nothing in them.
func TestGoodDocuments(t *testing.T) {
	docs := goodDocuments(t)
	if len(docs) != 22 {
		t.Fatalf("%d documents", len(docs))
	}
	for name, doc := range docs {
		for _, want := range []string{"", strings.TrimSuffix(name, " index")} {
			i := payload.NewInspector(want)
			if _, entries, err := inspect(strings.NewReader(doc), i); err != nil || len(i.Violations()) > 0 || len(entries) == 0 {
				t.Errorf("%s: %v, %v\n%s", name, i.Violations(), err, doc)
			}
		}
	}
}

// TestRecognizeGoodDocuments: of the documents of ResourceSync only a Change List resembles a
// change notification.
func TestRecognizeGoodDocuments(t *testing.T) {
	for name, doc := range goodDocuments(t) {
		want := payload.Unlike
		switch strings.TrimSuffix(name, " index") {
		case payload.ChangeNotification:
			want = payload.Notification
		case payload.CapChangeList:
			want = payload.Lookalike
		}
		if got, miss := payload.Recognize([]byte(doc)); got != want {
			t.Errorf("%s is recognized as %d (%v), want %d", name, got, miss, want)
		}
	}
}
