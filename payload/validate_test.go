package payload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

const (
	md5    = "md5:1584abdf8ebdc9802ac0c6a7402c03b6"
	sha256 = "sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"
)

// start is the time that most documents of the tests begin at.
var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// setters set one field of an entry, under its name in an event.
var setters = map[string]func(*payload.Entry, string){
	"loc":            func(e *payload.Entry, s string) { e.Loc = s },
	"change":         func(e *payload.Entry, s string) { e.Change = payload.Change(s) },
	"lastmod":        func(e *payload.Entry, s string) { e.LastMod = s },
	"hash":           func(e *payload.Entry, s string) { e.Hash = s },
	"length":         func(e *payload.Entry, s string) { e.Length = s },
	"type":           func(e *payload.Entry, s string) { e.Type = s },
	"encoding":       func(e *payload.Entry, s string) { e.Encoding = s },
	"path":           func(e *payload.Entry, s string) { e.Path = s },
	"ln[1].rel":      func(e *payload.Entry, s string) { e.Links[1].Rel = s },
	"ln[1].href":     func(e *payload.Entry, s string) { e.Links[1].Href = s },
	"ln[1].hash":     func(e *payload.Entry, s string) { e.Links[1].Hash = s },
	"ln[1].length":   func(e *payload.Entry, s string) { e.Links[1].Length = s },
	"ln[1].type":     func(e *payload.Entry, s string) { e.Links[1].Type = s },
	"ln[1].encoding": func(e *payload.Entry, s string) { e.Links[1].Encoding = s },
	"ln[1].modified": func(e *payload.Entry, s string) { e.Links[1].Modified = s },
	"ln[1].path":     func(e *payload.Entry, s string) { e.Links[1].Path = s },
	"ln[1].pri":      func(e *payload.Entry, s string) { e.Links[1].Pri = s },
}

// entry is a valid entry with two links.
func entry() payload.Entry {
	return payload.Entry{
		Loc: "https://source.example/a", Change: payload.Updated, Datetime: start,
		Links: []payload.Link{
			{Rel: "describedby", Href: "https://source.example/a.rdf"},
			{Rel: "duplicate", Href: "https://mirror.example/a"},
		},
	}
}

var accepted = map[string][]string{
	"loc": {
		"http://h", "https://h/", "HTTPS://H:8080/p?q#f", "http://h:/", "http://u:p@h:1/", "http://[::1]:80/x",
		"http://[::1]", "http://źródło.example/ścieżka?é=☃", "http://h/%zz", "http://h/a\"b'{}|\\^`&",
		"http://h/" + strings.Repeat("a", 2047-9), "http://h/" + strings.Repeat("é", 2047-9),
	},
	"change":  {"created", "updated", "deleted"},
	"lastmod": {"2026", "2026-03", "2026-03-01", "2026-03-01T09:00Z", "2026-03-01T10:00:00.123+01:00"},
	"hash": {
		md5, sha256, md5 + " " + sha256, "md5:1584ABDF8EBDC9802AC0C6A7402C03B6",
		"sha-1:" + strings.Repeat("0", 40), "sha-224:" + strings.Repeat("1", 56),
		"sha-384:" + strings.Repeat("a", 96), "sha-512:" + strings.Repeat("f", 128),
	},
	"length":         {"0", "1", "9007199254740993", "123456789012345678901234567890"},
	"type":           {"text/html", "application/rdf+xml", "text/html; charset=utf-8", `a/b;x="y \" ;z";q=1`, "a/b ; c=d"},
	"encoding":       {"gzip", "br", "gzip, br", "x-custom"},
	"ln[1].rel":      {"duplicate", "up", "memento", "a-b.c1", "urn:x:y"},
	"ln[1].href":     {"http://h/a", "urn:isbn:0451450523", "ftp://h/x", "doi:10.1000/182", "mailto:a@b", "https://h/é"},
	"ln[1].hash":     {sha256},
	"ln[1].length":   {"0"},
	"ln[1].type":     {"application/json-patch+json"},
	"ln[1].encoding": {"gzip"},
	"ln[1].modified": {"2026-03-01T09:00:00Z", "2026"},
	"ln[1].pri":      {"1", "10", "999999"},
}

func TestValidateAccepts(t *testing.T) {
	for field, values := range accepted {
		for _, value := range values {
			e := entry()
			setters[field](&e, value)
			if err := e.Validate(); err != nil {
				t.Errorf("%s %.80q: %v", field, value, err)
			}
		}
	}
}

var refused = []struct{ field, value, reason string }{
	{"loc", "", "is missing"},
	{"loc", "a", "absolute http or https"},
	{"loc", "/a", "absolute http or https"},
	{"loc", "//h/a", "absolute http or https"},
	{"loc", "ftp://h/a", "absolute http or https"},
	{"loc", "http:/h/a", "with a host"},
	{"loc", "http:///a", "with a host"},
	{"loc", "http://?a", "with a host"},
	{"loc", "http://:80/", "with a host"},
	{"loc", "http://u@/", "with a host"},
	{"loc", "http://h:8o/", "with a host"},
	{"loc", "http://[::1/", "with a host"},
	{"loc", "http://[]/", "with a host"},
	{"loc", "http://[::1]x/", "with a host"},
	{"loc", "http://h/a b", "spaces or angle brackets"},
	{"loc", " http://h/a", "absolute http or https"},
	{"loc", "http://h/<a>", "spaces or angle brackets"},
	{"loc", "http://h/a\n", "control characters"},
	{"loc", "http://h/\u0085", "control characters"},
	{"loc", "http://h/\x7f", "control characters"},
	{"loc", "http://h/\x00", "U+0000, which XML 1.0 cannot carry"},
	{"loc", "http://h/\ufffe", "U+FFFE, which XML 1.0 cannot carry"},
	{"loc", "http://h/\xff", "valid UTF-8"},
	{"loc", "http://h/\xed\xa0\x80", "valid UTF-8"},
	{"loc", "http://h/" + strings.Repeat("a", 2048-9), "at most 2047 characters"},
	{"loc", "http://h/" + strings.Repeat("é", 2048-9), "at most 2047 characters"},
	{"change", "", "is missing"},
	{"change", "moved", "created, updated or deleted"},
	{"change", "Created", "created, updated or deleted"},
	{"lastmod", "yesterday", "W3C Datetime"},
	{"lastmod", "2026-02-30", "W3C Datetime"},
	{"hash", "1584abdf8ebdc9802ac0c6a7402c03b6", "algorithm:hexdigest"},
	{"hash", md5 + "  " + sha256, "algorithm:hexdigest"},
	{"hash", md5 + " ", "algorithm:hexdigest"},
	{"hash", md5 + "\n" + sha256, "not hexadecimal"},
	{"hash", "crc32:00000000", "not md5, sha-1"},
	{"hash", "MD5:1584abdf8ebdc9802ac0c6a7402c03b6", "not md5, sha-1"},
	{"hash", "md5:1584abdf8ebdc9802ac0c6a7402c03b", "wrong length for md5"},
	{"hash", "sha-256:1584abdf8ebdc9802ac0c6a7402c03b6", "wrong length for sha-256"},
	{"hash", "md5:1584abdf8ebdc9802ac0c6a7402c03bg", "not hexadecimal"},
	{"hash", "md5:", "wrong length"},
	{"length", "-1", "whole number"},
	{"length", "1.0", "whole number"},
	{"length", "1e3", "whole number"},
	{"length", "007", "whole number"},
	{"length", " 1", "whole number"},
	{"length", "٣", "whole number"},
	{"type", "html", "media type"},
	{"type", "text/", "media type"},
	{"type", "/html", "media type"},
	{"type", "text/html/x", "media type"},
	{"type", "text/html;", "media type"},
	{"type", "text/html; charset", "media type"},
	{"type", "text/html; charset=", "media type"},
	{"type", `text/html; charset="utf-8`, "media type"},
	{"type", "text/html; =x", "media type"},
	{"type", "text/html; x=\"\n\"", "media type"},
	{"type", "te xt/html", "media type"},
	{"encoding", "gzip,", "content coding"},
	{"encoding", "gz ip", "content coding"},
	{"ln[1].rel", "", "is missing"},
	{"ln[1].rel", "Duplicate", "relation type"},
	{"ln[1].rel", "describedby up", "relation type"},
	{"ln[1].rel", "1up", "relation type"},
	{"ln[1].rel", ":x", "relation type"},
	{"ln[1].rel", "http://h/ x", "relation type"},
	{"ln[1].href", "", "is missing"},
	{"ln[1].href", "/a", "absolute URI"},
	{"ln[1].href", "a:", "absolute URI"},
	{"ln[1].href", "1a:b", "absolute URI"},
	{"ln[1].href", "http:a", "with a host"},
	{"ln[1].href", "urn:a b", "spaces or angle brackets"},
	{"ln[1].hash", "md5:00", "wrong length"},
	{"ln[1].length", "x", "whole number"},
	{"ln[1].type", "x", "media type"},
	{"ln[1].encoding", "a/b", "content coding"},
	{"ln[1].modified", "now", "W3C Datetime"},
	{"ln[1].path", "a", "begin with a slash"},
	{"ln[1].path", "/a", "must be left out: only a patch in a Change Dump Manifest"},
	{"path", "a", "begin with a slash"},
	{"path", "/a", "must be left out: only entries of dump manifests"},
	{"ln[1].pri", "0", "1 to 999999"},
	{"ln[1].pri", "01", "1 to 999999"},
	{"ln[1].pri", "1000000", "1 to 999999"},
	{"ln[1].pri", "-1", "1 to 999999"},
	{"ln[1].pri", "1.5", "1 to 999999"},
	{"ln[1].type", strings.Repeat("a", 2048), "at most 2047 characters"},
}

func TestValidateRefuses(t *testing.T) {
	for _, tt := range refused {
		e := entry()
		setters[tt.field](&e, tt.value)
		err := e.Validate()
		var fe *payload.FieldError
		if !errors.As(err, &fe) || fe.Field != tt.field || !strings.Contains(fe.Reason, tt.reason) {
			t.Errorf("%s %.80q: got %v, want a reason with %q", tt.field, tt.value, err, tt.reason)
		}
		if got, err := payload.AppendEntry([]byte("x"), &e); err == nil || string(got) != "x" {
			t.Errorf("%s %.80q: AppendEntry gave %q, %v", tt.field, tt.value, got, err)
		}
	}
}

// The document has every character that XML 1.0 can carry, and no other.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= 0x10FFFF; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue // no string has them; broken UTF-8 is another test
		}
		can := r == 9 || r == 10 || r == 13 || 0x20 <= r && r <= 0xFFFD || r >= 0x10000
		e := entry()
		e.Links[1].Href = "a:b"
		e.Path = "/a" + string(r) + "b"
		if r == '\\' {
			continue // no path has one
		}
		if _, err := payload.AppendBitstream(nil, &e); (err == nil) != can {
			t.Fatalf("U+%04X: %v", r, err)
		}
	}
}

// An entry is bounded, whatever its links; the bound is exact.
func TestEntrySize(t *testing.T) {
	e := payload.Entry{Loc: "http://h", Change: payload.Created, Datetime: start}
	link := payload.Link{Rel: "duplicate", Href: "http://h/" + strings.Repeat("&", 2038)}
	for {
		doc, err := payload.AppendEntry(nil, &e)
		if err != nil {
			var fe *payload.FieldError
			if !errors.As(err, &fe) || fe.Field != "ln" {
				t.Fatal(err)
			}
			break
		}
		if len(doc) > payload.MaxEntryBytes {
			t.Fatalf("an entry of %d bytes was accepted", len(doc))
		}
		e.Links = append(e.Links, link)
	}
	// 102 links of 10,232 bytes fit into 1 MiB beside the entry, 103 do not.
	if n := len(e.Links); n != 103 {
		t.Errorf("refused at %d links", n)
	}
}

// A written document may be read: the largest number of the smallest links.
func TestLinkCount(t *testing.T) {
	e := payload.Entry{Loc: "http://h", Change: payload.Created, Datetime: start}
	for range payload.MaxLinks {
		e.Links = append(e.Links, payload.Link{Rel: "a", Href: "a:b"})
	}
	doc, err := payload.AppendEntry(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	if _, entries, err := readAll(urlset(string(doc)), payload.Limits{}); err != nil || len(entries[0].Links) != payload.MaxLinks {
		t.Errorf("reading it back: %v", err)
	}
	e.Links = append(e.Links, e.Links[0])
	wantFieldError(t, e.Validate(), "ln")
}
