package payload_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

// Generators of valid fields. Optional ones may be empty.
var (
	genLoc      = rapid.StringMatching(`https?://[a-z]{1,9}(:[0-9]{1,4})?(/[a-zA-Z0-9&"';%é☃🔔_~-]{0,9}){0,3}(\?[a-z=&;+]{0,9})?(#[a-z]?)?`)
	genChange   = rapid.SampledFrom([]payload.Change{payload.Created, payload.Updated, payload.Deleted})
	genDatetime = rapid.StringMatching(`|20[0-9]{2}(-0[1-9](-[0-2][1-8](T[0-1][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?(Z|[+-]0[0-9]:30))?)?)?`)
	genHash     = rapid.StringMatching(`|md5:[0-9a-fA-F]{32}( sha-1:[0-9a-f]{40})?( sha-256:[0-9a-f]{64})?`)
	genLength   = rapid.StringMatching(`|0|[1-9][0-9]{0,30}`)
	genType     = rapid.StringMatching(`|[a-z]{1,9}/[a-z.+-]{1,9}(; ?charset=("[ -!#-\[\]-~é<&>]{0,9}"|utf-8))?`)
	genEncoding = rapid.StringMatching(`|gzip|br|gzip, br`)
	genRel      = rapid.StringMatching(`up|related|p3pv1|next-archive|latest-version|http://h/[a-z&]{0,5}`)
	genHref     = rapid.OneOf(genLoc, rapid.StringMatching(`urn:[a-z]{1,5}:[a-z0-9&;'"]{1,9}`))
	genPri      = rapid.StringMatching(`|[1-9][0-9]{0,5}`)
	genPath     = rapid.Custom(func(t *rapid.T) string {
		// Whatever XML can carry, white space and markup first of all.
		runes := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]rune("\t\n\r <>&\"']")), rapid.Rune()), 0, 20).Draw(t, "path")
		runes = slices.DeleteFunc(runes, func(r rune) bool {
			return r < 0x20 && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF || strings.ContainsRune("./\\", r)
		})
		return "/" + string(runes) + "]]>x/y.z"
	})
)

var genLink = rapid.Custom(func(t *rapid.T) payload.Link {
	return payload.Link{
		Rel: genRel.Draw(t, "rel"), Href: genHref.Draw(t, "href"), Hash: genHash.Draw(t, "hash"), Length: genLength.Draw(t, "length"),
		Type: genType.Draw(t, "type"), Encoding: genEncoding.Draw(t, "encoding"), Modified: genDatetime.Draw(t, "modified"),
		Pri: genPri.Draw(t, "pri"),
	}
})

var genEntry = rapid.Custom(func(t *rapid.T) payload.Entry {
	links := rapid.SliceOfN(genLink, 0, 3).Draw(t, "links")
	if len(links) == 0 {
		links = nil
	}
	return payload.Entry{
		Loc: genLoc.Draw(t, "loc"), Change: genChange.Draw(t, "change"), LastMod: genDatetime.Draw(t, "lastmod"),
		Hash: genHash.Draw(t, "hash"), Length: genLength.Draw(t, "length"), Type: genType.Draw(t, "type"),
		Encoding: genEncoding.Draw(t, "encoding"), Links: links,
	}
})

// genNotification draws entries in order, and an interval that holds them.
func genNotification(t *rapid.T) (payload.Interval, string, []payload.Entry) {
	at := drawTime(t).Truncate(time.Microsecond)
	iv := payload.Interval{From: at}
	step := rapid.Int64Range(0, 3_000_000)
	entries := rapid.SliceOfN(genEntry, 1, 8).Draw(t, "entries")
	for i := range entries {
		at = at.Add(time.Duration(step.Draw(t, "step")) * time.Microsecond)
		entries[i].Datetime = at
	}
	iv.Until = at.Add(time.Duration(1+step.Draw(t, "rest")) * time.Microsecond)
	up := ""
	if rapid.Bool().Draw(t, "has up") {
		up = genLoc.Draw(t, "up")
	}
	return iv, up, entries
}

// A written document reads back the same, through any kind of reader; the validator accepts it, the
// sniffer knows it, and encoding/xml finds it well-formed.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		iv, up, entries := genNotification(t)
		doc := write(t, iv, up, entries)
		r := payload.NewReader(iotest.HalfReader(bytes.NewReader(doc)), payload.Limits{})
		h, err := r.Header()
		if err != nil || !h.FromTime.Equal(iv.From) || !h.UntilTime.Equal(iv.Until) || (len(h.Links) == 1) != (up != "") {
			t.Fatalf("head %+v, %v", h, err)
		}
		for i, want := range entries {
			got, err := r.Next()
			if err != nil || got.Line < 1 || !reflect.DeepEqual(unlined(got), want) {
				t.Fatalf("entry %d: %v\ngot  %+v\nwant %+v\n%s", i, err, got, want, doc)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last entry: %v", err)
		}
		sum, err := payload.ValidateNotification(bytes.NewReader(doc))
		if err != nil || sum.Entries != len(entries) || sum.Up != up || sum.From != h.From || sum.Until != h.Until {
			t.Fatalf("validator: %+v, %v\n%s", sum, err, doc)
		}
		if !payload.IsNotification(doc) {
			t.Fatalf("not recognized:\n%s", doc)
		}
		if err := xml.Unmarshal(doc, new(struct{})); err != nil {
			t.Fatalf("encoding/xml: %v\n%s", err, doc)
		}
	})
}

func write(t *rapid.T, iv payload.Interval, up string, entries []payload.Entry) []byte {
	var doc bytes.Buffer
	w, err := payload.NewNotificationWriter(&doc, iv, up)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatalf("entry %d %+v: %v", i, entries[i], err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return doc.Bytes()
}

// seeds are documents for the fuzz targets.
func seeds(f *testing.F) []string {
	docs := []string{
		"", "{}", "<a/>", urlset(goodHead + goodURL), urlset(goodURL + goodHead),
		urlset(`<rs:md/><rs:ln rel="up"/>` + "<url><loc>a</loc>"),
	}
	for _, name := range []string{
		"resourcedump.xml", "resourcedump-manifest.xml", "changedump.xml", "changedump-manifest.xml",
		"changelist-archive.xml", "resourcelist-archive-index.xml", "changenotification.xml", "foreign-notification.xml", "capabilitylist.xml", "description.xml",
		"changelist-index.xml", "resourcelist-late-head.xml", "changelist.xml", "changelist-odd.xml", "resourcelist.xml", "resourcelist-index.xml",
	} {
		docs = append(docs, string(document(f, name)))
	}
	for _, tt := range broken {
		if len(tt.doc) < 1000 {
			docs = append(docs, tt.doc)
		}
	}
	return docs
}

// FuzzReader: no document makes the Reader panic or give what is not in it.
func FuzzReader(f *testing.F) {
	for _, doc := range seeds(f) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		h, entries, err := readAll(doc, payload.Limits{EntryBytes: 4096, Entries: 100})
		if err == nil && h.Root != payload.RootURLSet && h.Root != payload.RootSitemapIndex {
			t.Errorf("root %q", h.Root)
		}
		for _, e := range entries {
			if n := len(fmt.Sprint(e)); n > 3*len(doc)+1000 {
				t.Errorf("an entry of %d bytes from a document of %d", n, len(doc))
			}
		}
	})
}

// FuzzValidateNotification: the Reader reads each accepted notification, and the sniffer knows it,
// unless the head comes late; each refusal has a reason.
func FuzzValidateNotification(f *testing.F) {
	for _, doc := range seeds(f) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		sum, err := payload.ValidateNotification(strings.NewReader(doc))
		var invalid *payload.Invalid
		if err != nil {
			if !errors.As(err, &invalid) || len(invalid.Violations) == 0 || len(invalid.Violations) > payload.MaxViolations {
				t.Fatalf("got %v", err)
			}
			return
		}
		r := payload.NewReader(strings.NewReader(doc), payload.Limits{})
		h, err := r.Header()
		if err != nil {
			t.Fatal(err)
		}
		if early := h.Capability != ""; early && len(doc) < 64<<10 && !payload.IsNotification([]byte(doc)) {
			t.Error("valid, but not recognized")
		}
		n := 0
		for ; err == nil; n++ {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) || n-1 != sum.Entries {
			t.Errorf("%d entries, %v; the validator counted %d", n-1, err, sum.Entries)
		}
	})
}

// FuzzIsNotification: the sniffer does not panic, and takes for a notification
// only what has the right root.
func FuzzIsNotification(f *testing.F) {
	for _, doc := range seeds(f) {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		if payload.IsNotification(body) && !bytes.Contains(body, []byte("urlset")) {
			t.Errorf("taken for a notification: %q", body)
		}
		if !bytes.Equal(body, before) {
			t.Error("the body was changed")
		}
	})
}

// FuzzAppendEntry: what AppendEntry and AppendBitstream take reads back the same, whatever the
// fields.
func FuzzAppendEntry(f *testing.F) {
	f.Add("http://h/&", "updated", "2026", "", "0", `a/b; c="<&>]]>"`, "gzip", "up", "urn:x:'\"", "/\t\r\n")
	f.Add("http://h/", "", "", "", "", "", "", "via", "urn:x:y", "/a\\..")
	f.Add("http://h/\x00", "x", "y", "z", "-", "", "", "", "", "")
	f.Add("https://h", "created", "2026-01-01T00:00Z", md5, "12", "a/b", "", "x:y", "z:\u00a0", "/\u0085\u2028")
	f.Fuzz(func(t *testing.T, loc, change, lastmod, hash, length, typ, encoding, rel, href, path string) {
		e := payload.Entry{
			Loc: loc, Change: payload.Change(change), LastMod: lastmod, Hash: hash, Length: length, Type: typ, Encoding: encoding,
			Datetime: start, Links: []payload.Link{{Rel: rel, Href: href}},
		}
		write := payload.AppendEntry
		if path != "" {
			e.Path, write = path, payload.AppendBitstream
		}
		one, err := write(nil, &e)
		if e.Change == "" {
			e.Datetime = time.Time{} // a resource has none
		}
		if err != nil {
			return
		}
		_, entries, err := readAll(urlset(string(one)), payload.Limits{})
		if err != nil || len(entries) != 1 || !reflect.DeepEqual(entries[0], e) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, entries, e)
		}
	})
}
