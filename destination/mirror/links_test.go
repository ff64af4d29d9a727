package mirror_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"carillon/destination/mirror"
	"carillon/payload"
)

// An origin's description of its resource becomes the via link; of other links those stay that are
// true of a copy (core 14). A via link that is there already is kept as it is (core 14.8, example 33).
func TestLinksOfCopies(t *testing.T) {
	first := payload.Link{
		Rel: "via", Href: "http://original.test/1", Modified: "2013-01-03T07:00:00Z",
		Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6", Length: "8876", Type: "text/html",
	}
	described := payload.Link{Rel: "describedby", Href: "http://a.test/1.xml", Type: "application/xml"}
	own := payload.Link{
		Rel: "via", Href: "http://a.test/1", Modified: "2026-01-02T03:04:05Z",
		Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6", Length: "5", Type: "text/plain",
	}
	long := "http://original.test/" + strings.Repeat("x", 1900)
	entry := func(links ...payload.Link) payload.Entry {
		return payload.Entry{Loc: "http://a.test/1", LastMod: own.Modified, Hash: own.Hash, Length: own.Length, Type: own.Type, Links: links}
	}
	odd := entry()
	odd.Hash, odd.Type = "no hash", "no type"
	for name, tc := range map[string]struct {
		entry payload.Entry
		via   payload.Link
		other []payload.Link
	}{
		"an original":        {entry(), own, nil},
		"a loc with spaces":  {payload.Entry{Loc: "http://a.test/a b/\u00e4"}, payload.Link{Rel: "via", Href: "http://a.test/a%20b/%C3%A4"}, nil},
		"an odd original":    {odd, payload.Link{Rel: "via", Href: own.Href}, nil},
		"of an aggregator":   {entry(first), first, nil},
		"two of them":        {entry(first, payload.Link{Rel: "via", Href: "http://b.test/"}), first, nil},
		"in capitals":        {entry(payload.Link{Rel: "VIA", Href: first.Href}), payload.Link{Rel: "via", Href: first.Href}, nil},
		"one that is broken": {entry(payload.Link{Rel: "via", Href: "not a uri", Hash: first.Hash}), own, nil},
		"one with odd parts": {entry(payload.Link{Rel: "via", Href: first.Href, Hash: "odd"}), payload.Link{Rel: "via", Href: first.Href}, nil},
		"too long altogether": {entry(
			payload.Link{Rel: "via", Href: long, Type: "text/html"}, described,
			payload.Link{Rel: "profile", Href: long},
		), payload.Link{Rel: "via", Href: long}, nil},
		"relations of core 14": {
			entry(
				payload.Link{Rel: "duplicate", Href: "http://b.test/", Pri: "1"}, payload.Link{Rel: "alternate", Href: "http://b.test/"},
				payload.Link{Rel: "canonical", Href: "http://b.test/"}, payload.Link{
					Rel: "http://www.openarchives.org/rs/terms/patch", Href: "http://b.test/", Type: "a/b",
				},
				payload.Link{Rel: "memento", Href: "http://b.test/"}, payload.Link{Rel: "timegate", Href: "http://b.test/"},
				payload.Link{Rel: "timemap", Href: "http://b.test/"}, payload.Link{Rel: "collection", Href: "http://b.test/"},
				payload.Link{Rel: "describedby", Href: described.Href, Type: described.Type, Hash: first.Hash, Length: "7", Modified: "2026-01-02"},
				payload.Link{Rel: "describes", Href: "http://a.test/2"}, payload.Link{Rel: "profile", Href: "http://purl.test/"},
				payload.Link{Rel: "http://strange.test/rel", Href: "http://b.test/"},
			),
			own,
			[]payload.Link{described, {Rel: "describes", Href: "http://a.test/2"}, {Rel: "profile", Href: "http://purl.test/"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := mirror.Copy{Loc: tc.entry.Loc, Described: mirror.ResourceOf(&tc.entry).Described}
			via, other := c.Via()
			if via != tc.via || !reflect.DeepEqual(other, tc.other) {
				t.Errorf("via %+v\nwant %+v\nothers %+v\nwant %+v", via, tc.via, other, tc.other)
			}
			kept := payload.Entry{Loc: tc.entry.Loc, Links: mirror.KeptLinks(tc.entry.Links)}
			again := mirror.ResourceOf(&kept)
			if again.Links != c.Described.Links {
				t.Errorf("kept once more they are %s, and were %s", again.Links, c.Described.Links)
			}
		})
	}
}

// The origin of a copy that is kept although its Source has deleted it stays known.
func TestLinksOfKeptCopies(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	change := s.put("/a", "one")
	change.Links = []payload.Link{{Rel: "via", Href: "http://original.test/a"}}
	c.handle(change, s.put("/b", "two"))
	c.handle(s.delete("/a"))
	kept := c.is(change.Loc, mirror.Gone, "")
	if via, _ := kept.Via(); via != change.Links[0] {
		t.Errorf("%+v", via)
	}
}

// Links come from changes and from Resource Lists, and stay while the copy is as it was.
func TestLinksAreRecorded(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	change, listed := s.put("/a", "one"), s.put("/b", "two")
	change.Links = []payload.Link{{Rel: "via", Href: "http://original.test/a"}}
	listed.Links = []payload.Link{{Rel: "via", Href: "http://original.test/b"}, {Rel: "canonical", Href: "http://a.test/"}}
	s.described["/b"] = listed.Entry
	c.handle(change)
	taken := c.is(change.Loc, mirror.Whole, "")
	if via, _ := taken.Via(); via != change.Links[0] {
		t.Errorf("%+v", via)
	}
	if _, err := c.Baseline(t.Context(), s.list(), everything); err != nil {
		t.Fatal(err)
	}
	got := c.is(listed.Loc, mirror.Whole, "")
	if via, other := got.Via(); via != listed.Links[0] || len(other) > 0 {
		t.Errorf("%+v %+v", via, other)
	}
}

// A crash may come between a file and its record. If the Source deletes the resource then, and the copy is
// kept, the record is of the file that is there.
func TestKeptAfterCrash(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	change := s.put("/a", "one")
	c.handle(change)
	at := filepath.Join(c.dir, c.host, "a")
	if err := os.WriteFile(at, []byte("later"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.handle(s.delete("/a"))
	if got := c.is(change.Loc, mirror.Gone, ""); got.File == nil || got.File.Size != 5 || got.File.SHA256 != sha256.Sum256([]byte("later")) {
		t.Errorf("%+v", got.File)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	c.handle(s.delete("/a"))
	if _, err := c.store.Mirrored().Copy(t.Context(), change.Loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("a copy without a file is left: %v", err)
	}
}
