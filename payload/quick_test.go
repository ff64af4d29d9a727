package payload_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

// odd are values that some field may have, or may just not have.
var odd = []string{
	"", " ", "\t", "\n", "\r\n", "&", "<", ">", `"`, "'", "\x00", "\x1f", "\x7f", "\u0080", "\u0085", "\u00a0", "é", "☃", "🔔", "\ufffe", "\uffff",
	"\xff", "\xc3", "http:", "http://", "https://", "http:///", "http://h", "HTTP://H", "hTTps://h/", "http://h:80/", "http://h:/", "http://h:a/",
	"http://u@h/", "http://@/", "http://[::1]/", "http://[]/", "http://[", "http://h?", "http://h#", "http://h/ ", "http://h/<", "http://h/>",
	`http://h/"`, "http://h/&", "http://h/'", "http://h/\x7f", "http://h/\x80", "http://h/\xff\xff", "http://h/é", "http://h/\u0085", "http://_h/",
	"http://h/" + strings.Repeat("a", 2038), "http://h/" + strings.Repeat("a", 2039), "http://h/" + strings.Repeat("é", 2038), "httpx://h/", "https:/h/abc",
	"http://h/1234567", "http://h/123456&", "http://h/12345\x01", "urn:x:y", "urn:x:&", "mailto:a@h",
	md5, sha256, md5 + " " + sha256, md5 + "  " + sha256, md5 + " ", " " + md5, md5 + "0", md5[:len(md5)-1], md5[:len(md5)-1] + "g", md5[:len(md5)-1] + "\xff",
	md5[:len(md5)-1] + "`", md5[:len(md5)-1] + "@", md5[:len(md5)-1] + ":", md5[:len(md5)-1] + "/", strings.ToUpper(md5), "md5:" + strings.ToUpper(md5[4:]),
	"sha-1:" + strings.Repeat("aF", 20), "sha-512:" + strings.Repeat("00", 64), "sha-256:", "crc:00", "md5:", md5 + ",", "sha-256:" + strings.Repeat("é", 32),
	"2026", "2026-03", "2026-03-01", "2026-03-01T09:00Z", "2026-03-01T09:00:00Z", "2026-03-01T09:00:00.Z", "2026-03-01T09:00:00.1Z", "2026-03-01T09:00:00.1",
	"2026-03-01T09:00:00.123456789123Z", "2026-03-01T09:00:00.12aZ", "2026-03-01T09:00:00+01:00", "2026-03-01T09:00:00ZZ", "2026-03-01T09:00:00z",
	"2026-02-28T09:00:00Z", "2026-02-29T09:00:00Z", "2024-02-29T09:00:00Z", "2026-02-30T09:00:00Z", "2026-04-30T09:00:00Z", "2026-04-31T09:00:00Z",
	"2026-12-31T23:59:59Z", "2026-13-01T09:00:00Z", "2026-00-01T09:00:00Z", "2026-01-00T09:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
	"2026-01-01T00:00:60Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.9Z", "2026-01-01 00:00:00Z", "2026-1-001T00:00:00Z", "202:-01-01T00:00:00Z",
	"2026-01-01T00:00:0/Z", "2026/01/01T00:00:00Z", "2026-01-01T00-00-00Z",
	"0", "00", "01", "1", "999999", "1000000", "-1", "+1", strings.Repeat("9", 2047), strings.Repeat("9", 2048),
	"a/b", "a/", "/b", "a", "a//b", "a/b/c", "application/rdf+xml", "a/b;c=d", `a/b; c="<&>]]>"`, "a/b ", " a/b", "a&b/c", "a/b&c", "a/b_c", "a/é",
	"gzip", "gzip, br", "gzip,", ",", "x&y", "x\ty", "up", "Up", "up.1-2", "1up", "a:b", "a b", "x:&",
	"/", "/a", "/a/", "/../a", "/a/..", "/a/../b", "/\t\r\n <>&\"'", "/a]]>b", "/1234567&", "/123456\r8", "/&&&&&&&&&", "/12345678" + "\u2028",
	"created", "Created", "x",
}

// oddEntries are entries with an odd value in one field, and another beside it.
func oddEntries() (entries []payload.Entry) {
	for i, s := range odd {
		next := odd[(i+1)%len(odd)]
		for field := range 17 {
			e := museumEntries()[1]
			for _, set := range []struct {
				field int
				value string
			}{{field, s}, {(field + 5) % 17, next}} {
				if set.field == field || i%2 == 0 {
					setField(&e, set.field, set.value)
				}
			}
			entries = append(entries, e)
		}
	}
	return entries
}

func setField(e *payload.Entry, field int, value string) {
	l := &e.Links[1]
	change := string(e.Change)
	*[]*string{
		&e.Loc, &e.LastMod, &e.Hash, &e.Length, &e.Type, &e.Encoding, &l.Rel, &l.Href, &l.Hash, &l.Length,
		&l.Type, &l.Encoding, &l.Modified, &l.Path, &l.Pri, &change, &e.Links[0].Href,
	}[field] = value
	e.Change = payload.Change(change)
}

func sameByRules(t interface {
	Helper()
	Errorf(string, ...any)
}, e *payload.Entry,
) {
	t.Helper()
	want, wantErr := payload.AppendByRules([]byte("x"), e)
	got, err := payload.AppendEntry([]byte("x"), e)
	if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%+v\ngot  %q, %v\nwant %q, %v", e, got, err, want, wantErr)
	}
	if size := payload.EntrySize(e); err == nil && size != len(got)-len("x") {
		t.Errorf("%+v\nEntrySize = %d, want that of %q", e, size, got[1:])
	}
}

// The quick look writes exactly the entries that the rules let pass, byte for byte, and refuses others
// in the same words.
func TestQuickWritesWhatTheRulesWrite(t *testing.T) {
	for _, e := range oddEntries() {
		sameByRules(t, &e)
	}
	long := museumEntries()[1]
	for range 520 {
		long.Links = append(long.Links, payload.Link{Rel: "duplicate", Href: "http://h/" + strings.Repeat("a", 2000)})
	}
	sameByRules(t, &long)
	many := museumEntries()[1]
	for n := range 3 {
		many.Links = make([]payload.Link, payload.MaxLinks-1+n)
		for i := range many.Links {
			many.Links[i] = payload.Link{Rel: "up", Href: "http://h/"}
		}
		sameByRules(t, &many)
	}
}

func TestQuickWritesWhatTheRulesWriteOfAnything(t *testing.T) {
	anything := rapid.OneOf(rapid.SampledFrom(odd), rapid.String(), genLoc, genHash, genDatetime, genType, genPath)
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry.Draw(t, "entry")
		e.Datetime = drawTime(t)
		sameByRules(t, &e)
		if len(e.Links) > 1 {
			setField(&e, rapid.IntRange(0, 16).Draw(t, "field"), anything.Draw(t, "value"))
			sameByRules(t, &e)
		}
	})
}

// No quick look passes what its rule refuses, whatever byte stands where.
func TestQuickLooksPassNothingMore(t *testing.T) {
	good := []string{
		"https://h.example/a?b=c&d=12345", md5, md5 + " " + sha256, "2026-03-01T09:00:00Z", "2026-03-31T09:00:00.25Z", "text/html", "gzip",
	}
	for _, s := range good {
		for i := range len(s) {
			for c := range 256 {
				b := []byte(s)
				b[i] = byte(c)
				lookAt(t, string(b))
			}
		}
	}
	for _, s := range odd {
		lookAt(t, s)
	}
}

func lookAt(t *testing.T, s string) {
	t.Helper()
	known, escapes := payload.WebURI(s)
	if known && len(s) <= payload.MaxFieldChars && payload.CheckWebURI(s) != "" {
		t.Errorf("%q passes as a URI; the rules say that it %s", s, payload.CheckWebURI(s))
	}
	if known && escapes != strings.ContainsAny(s, `&"<>`+"\t\r\n") {
		t.Errorf("%q: escapes %v", s, escapes)
	}
	for field, is := range payload.Known(s) {
		if is[0] && !is[1] && len(s) <= payload.MaxFieldChars || is[0] && strings.ContainsAny(s, `&"<>`+"\t\r\n") {
			t.Errorf("%q passes as a %s", s, field)
		}
	}
}

// The quick looks know what most Sources send: without them an entry takes several
// times as long.
func TestQuickLooksKnowTheUsual(t *testing.T) {
	for _, s := range []string{"http://h.example/a?b=c&d=e#f", "https://source.example/records/2026/0000001"} {
		if known, _ := payload.WebURI(s); !known {
			t.Errorf("%q is not known", s)
		}
	}
	for field, s := range map[string]string{
		"hash": md5 + " " + sha256, "datetime": "2026-03-01T08:59:58Z", "type": "application/rdf+xml", "encoding": "gzip",
	} {
		if !payload.Known(s)[field][0] {
			t.Errorf("%s %q is not known", field, s)
		}
	}
}

// Each escape is found wherever it stands, and nothing else is touched.
func TestEscapesAnywhere(t *testing.T) {
	naive := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\t", "&#9;", "\n", "&#10;", "\r", "&#13;")
	check := func(s string) {
		if got := string(payload.AppendEscaped([]byte("x"), s)); got != "x"+naive.Replace(s) {
			t.Errorf("%q became %q", s, got)
		}
	}
	for length := range 20 {
		for i := range length {
			for c := range 256 {
				b := bytes.Repeat([]byte("a"), length)
				b[i] = byte(c)
				check(string(b))
				b[length-1-i] = '&'
				check(string(b))
			}
		}
	}
	for _, s := range odd {
		check(s)
		check(s + s)
	}
}

// A datetime is written as package time writes it, in every year that it may have.
func TestDatetimeByHand(t *testing.T) {
	check := func(at time.Time) {
		if got, want := string(payload.AppendDatetime(nil, at)), payload.FormatDatetime(at); got != want {
			t.Errorf("%v: got %s, want %s", at, got, want)
		}
	}
	at := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	for at.Year() < 10000 {
		check(at)
		check(at.In(time.FixedZone("", -5*3600)))
		at = at.Add(5009*time.Hour + 13*time.Minute + 17*time.Second + 123_456_789)
	}
	check(time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
}

// The first and the last moment that four digits can tell.
func TestYearsThatCanBeWritten(t *testing.T) {
	for at, want := range map[time.Time]bool{
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC):                     true,
		time.Date(0, 1, 1, 0, 0, 0, -1, time.UTC):                    false,
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC):   true,
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC):                 false,
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)): true,
		time.Unix(1<<62, 0):  false,
		time.Unix(-1<<62, 0): false,
	} {
		if _, err := payload.AppendEntry(nil, entryAt(at)); (err == nil) != want {
			t.Errorf("%v: %v", at, err)
		}
	}
}

// TestPlainLinks: a link that the quick look lets pass breaks no rule.
func TestPlainLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.OneOf(genLink, genToldLink, genRelated).Draw(t, "link")
		if plain, valid := payload.IsPlain(&l); plain && !valid {
			t.Errorf("%+v is taken for plain", l)
		}
	})
	plain := payload.Link{Rel: "via", Href: "https://a.example/b", Hash: md5, Length: "1", Type: "a/b", Modified: "2026-03-01T08:00:00Z"}
	if is, valid := payload.IsPlain(&plain); !is || !valid {
		t.Errorf("%+v: %t, %t", plain, is, valid)
	}
	for _, spoil := range []func(*payload.Link){
		func(l *payload.Link) { l.Rel = "" },
		func(l *payload.Link) { l.Rel = "x" },
		func(l *payload.Link) { l.Href = "/a" },
		func(l *payload.Link) { l.Hash = "md5:1" },
		func(l *payload.Link) { l.Length = "01" },
		func(l *payload.Link) { l.Type = "a" },
		func(l *payload.Link) { l.Modified = "now" },
		func(l *payload.Link) { l.Encoding = "a b" },
		func(l *payload.Link) { l.Path = "a" },
		func(l *payload.Link) { l.Pri = "0" },
		func(l *payload.Link) { l.Type = "a/" + strings.Repeat("b", 2047) },
	} {
		l := plain
		spoil(&l)
		if is, valid := payload.IsPlain(&l); is || valid {
			t.Errorf("%+v: %t, %t", l, is, valid)
		}
	}
}
