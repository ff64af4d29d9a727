package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// The contestants read the same list, and find the same in it.
func TestLists(t *testing.T) {
	const entries = 10
	d := newDocument(entries)
	for _, capability := range []string{payload.CapChangeList, payload.CapResourceList} {
		var doc bytes.Buffer
		if err := list(&doc, capability, d); err != nil {
			t.Fatal(err)
		}
		for name, contestant := range map[string]func(io.Reader) (int, error){
			roleReader: readEntries, roleInspected: inspectEntries, roleUnmarshal: unmarshalEntries,
		} {
			if n, err := contestant(bytes.NewReader(doc.Bytes())); n != entries || err != nil {
				t.Errorf("%s of a %s: %d entries, %v", name, capability, n, err)
			}
		}
		set, err := unmarshal(bytes.NewReader(doc.Bytes()))
		if err != nil || set.MD.Capability != capability || len(set.Links) != 1 || len(set.URLs) != entries {
			t.Fatalf("%s: %+v, %v", capability, set, err)
		}
		for i, want := range d.entries {
			if capability == payload.CapResourceList {
				want.Change, want.Datetime = "", time.Time{}
			}
			if got := set.URLs[i].entry(); got.Loc != want.Loc || got.LastMod != want.LastMod || got.Change != want.Change ||
				!got.Datetime.Equal(want.Datetime) || got.Hash != want.Hash || got.Length != want.Length || got.Type != want.Type {
				t.Errorf("%s, entry %d: %+v, want %+v", capability, i, got, want)
			}
		}
	}
}

func (u readURL) entry() payload.Entry {
	return payload.Entry{
		Loc: u.Loc, LastMod: u.LastMod, Change: payload.Change(u.MD.Change), Datetime: u.MD.Datetime,
		Hash: u.MD.Hash, Length: u.MD.Length, Type: u.MD.Type,
	}
}

// A contestant that stops early, or is not told the truth, fails.
func TestReadersRefuse(t *testing.T) {
	for _, doc := range []string{"", "<urlset/>", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url/></urlset>`} {
		for name, contestant := range map[string]func(io.Reader) (int, error){roleReader: readEntries, roleInspected: inspectEntries} {
			if _, err := contestant(strings.NewReader(doc)); err == nil {
				t.Errorf("%s accepts %q", name, doc)
			}
		}
	}
}
