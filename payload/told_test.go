package payload_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

// genTold draws possible texts of Sources where the rules ask for something else.
var genTold = rapid.OneOf(
	rapid.Just(""),
	rapid.SampledFrom([]string{
		"2026-03-01", "2026-03-01T10:00:00+01:00", "2026-03-01T09:00:00.123456789Z", "2026-03-01T09:00Z", "0001-01-01T00:00:00Z", "now", "../a", "sha-999:zz", "1 MB",
	}),
	rapid.StringOf(rapid.SampledFrom([]rune("aé☃\U0001f514<>&\"'=/]-\u0085\u00a0"))),
)

var genToldLink = rapid.Custom(func(t *rapid.T) payload.Link {
	d := func(name string) string { return genTold.Draw(t, name) }
	return payload.Link{
		Rel: d("rel"), Href: d("href"), Hash: d("hash"), Length: d("length"), Type: d("type"),
		Encoding: d("encoding"), Modified: d("modified"), Path: d("path"), Pri: d("pri"),
	}
})

var genToldEntry = rapid.Custom(func(t *rapid.T) payload.Entry {
	d := func(name string) string { return genTold.Draw(t, name) }
	e := payload.Entry{
		Loc: d("loc"), LastMod: d("lastmod"), Change: payload.Change(d("change")), Hash: d("hash"), Length: d("length"), Type: d("type"),
		Encoding: d("encoding"), Path: d("path"), Capability: d("capability"), From: d("from"), Until: d("until"), At: d("at"), Completed: d("completed"),
	}
	e.DatetimeTold = rapid.SampledFrom([]string{"", "2026-03-01", "2026-03-01T10:00:00+01:00", "2026-03-01T09:00Z", "now"}).Draw(t, "told")
	e.Datetime, _ = payload.ParseDatetime(e.DatetimeTold)
	if e.DatetimeTold == "" && rapid.Bool().Draw(t, "has a datetime") {
		e.Datetime = drawTime(t)
	}
	if links := rapid.SliceOfN(genToldLink, 0, 3).Draw(t, "links"); len(links) > 0 {
		e.Links = links
	}
	return e
})

// Whatever a Reader gave, it gives again.
func TestAppendToldRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genToldEntry.Draw(t, "entry")
		doc, err := payload.AppendTold(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		if _, entries, err := readAll(urlset(string(doc)), payload.Limits{}); err != nil || len(entries) != 1 || !reflect.DeepEqual(entries[0], want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v\n%s", err, entries, want, doc)
		}
	})
}

// An entry that follows the rules is written as the writer of notifications writes it.
func TestAppendToldAsWritten(t *testing.T) {
	for _, e := range museumEntries() {
		want := put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendEntry(dst, &e) })
		got := put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendTold(dst, &e) })
		if !bytes.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestAppendToldDatetime(t *testing.T) {
	for want, e := range map[string]payload.Entry{
		`<rs:md datetime="2026-03-01T10:00:00+01:00"/>`:      {Datetime: start, DatetimeTold: "2026-03-01T10:00:00+01:00"},
		`<rs:md datetime="2026-03-01T09:00:01.000000Z"/>`:    {Datetime: start.Add(time.Second), DatetimeTold: "2026-03-01T10:00:00+01:00"},
		`<rs:md datetime="2026-03-01T09:00:00.000000001Z"/>`: {Datetime: start.Add(1)},
		`<rs:md datetime="soon"/>`:                           {DatetimeTold: "soon"},
		"<url>\n</url>":                                      {},
	} {
		if got, err := payload.AppendTold(nil, &e); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%+v: got %s, %v", e, got, err)
		}
	}
}

func TestAppendToldRefuses(t *testing.T) {
	long := strings.Repeat("a", payload.MaxEntryBytes)
	for field, e := range map[string]payload.Entry{
		"loc":            {Loc: "\x00"},
		"lastmod":        {LastMod: "\xff"},
		"completed":      {Completed: "\ufffe"},
		"datetime":       {Datetime: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"ln[1].modified": {Links: []payload.Link{{}, {Modified: "\b"}}},
		"ln":             {Links: make([]payload.Link, payload.MaxLinks+1)},
		"entry":          {Loc: long, LastMod: "a"},
	} {
		wantFieldError(t, toldError(t, e), field)
	}
	// One tag, one text, and the whole must be small enough for a Reader.
	wantFieldError(t, toldError(t, payload.Entry{Loc: strings.Repeat("<", payload.MaxEntryBytes/4)}), "entry")
	wantFieldError(t, toldError(t, payload.Entry{Hash: strings.Repeat("<", payload.MaxEntryBytes/4)}), "entry")
	wantFieldError(t, toldError(t, payload.Entry{Links: []payload.Link{{Rel: strings.Repeat("&", payload.MaxEntryBytes/4)}}}), "entry")
	wantFieldError(t, toldError(t, payload.Entry{Links: []payload.Link{{Rel: long[1:]}, {Rel: "aa"}}}), "entry")
}

// toldError returns the error of an entry that cannot be written.
func toldError(t *testing.T, e payload.Entry) error {
	got, err := payload.AppendTold([]byte("before"), &e)
	if string(got) != "before" {
		t.Errorf("wrote %.80q", got)
	}
	return err
}

// White space of Unicode around loc is not white space of XML.
func TestReadOtherSpace(t *testing.T) {
	const loc = "\u00a0http://h/a\u0085"
	_, entries, err := readAll(urlset("<url><loc>\n "+loc+"\t</loc></url>"), payload.Limits{})
	if err != nil || len(entries) != 1 || entries[0].Loc != loc {
		t.Errorf("got %+v, %v", entries, err)
	}
}

// FuzzAppendTold: every entry that a Reader reads is written, and read the same, unless it is too
// large; an Inspector hears of all of it.
func FuzzAppendTold(f *testing.F) {
	for _, doc := range seeds(f) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		r := payload.NewReader(strings.NewReader(doc), payload.Limits{EntryBytes: 4096, Entries: 100})
		i := payload.NewInspector("")
		h, err := r.Header()
		if err != nil {
			return
		}
		i.Head(h)
		for {
			var e payload.Entry
			if e, err = r.Next(); err != nil {
				break
			}
			i.Entry(&e)
			one, err := payload.AppendTold(nil, &e)
			if err != nil {
				t.Fatalf("%v: %+v", err, e)
			}
			_, again, err := readAll(urlset(string(one)), payload.Limits{})
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], unlined(e)) {
				t.Fatalf("%v\ngot  %+v\nwant %+v\n%s", err, again, e, one)
			}
		}
		if errors.Is(err, io.EOF) {
			h, _ = r.Header()
			i.End(h)
		}
		for n, v := range i.Violations() {
			if v.Clause == "" || v.Mend == "" || v.Line < 1 || v.Times < 1 || len(v.Element) > 100 || len(v.Message) > 1600 || strings.Contains(v.String(), "%!") || n >= payload.Oddities {
				t.Errorf("violation %d: %v", n, v)
			}
		}
	})
}
