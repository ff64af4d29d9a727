package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"carillon/payload"
)

const (
	goodHead = `<rs:md capability="change-notification" from="2026-03-01T09:00:00Z" until="2026-03-01T10:00:00Z"/>`
	goodURL  = `<url><loc>http://h/a</loc><rs:md change="created" datetime="2026-03-01T09:30:00Z"/></url>`
)

func TestValidateNotificationAccepts(t *testing.T) {
	at := func(datetime string) string { return strings.Replace(goodURL, "2026-03-01T09:30:00Z", datetime, 1) }
	for name, doc := range map[string]string{
		"as written":           string(document(t, "changenotification.xml")),
		"foreign":              string(document(t, "foreign-notification.xml")),
		"no entries":           urlset(goodHead),
		"no datetime":          urlset(goodHead + `<url><loc>http://h/a</loc><rs:md change="deleted"/></url>`),
		"datetime at from":     urlset(goodHead + at("2026-03-01T09:00:00Z")),
		"datetime at until":    urlset(goodHead + at("2026-03-01T10:00:00Z")),
		"equal datetimes":      urlset(goodHead + goodURL + goodURL),
		"order by instant":     urlset(goodHead + at("2026-03-01T10:10:00+01:00") + at("2026-03-01T09:20:00Z")),
		"head last":            urlset(goodURL + goodHead),
		"from equals until":    urlset(strings.Replace(goodHead, "10:00", "09:00", 1)),
		"lastmod out of order": urlset(goodHead + strings.Replace(goodURL, "</loc>", "</loc><lastmod>2027-01-01</lastmod>", 1)),
		"broken hash":          urlset(goodHead + strings.Replace(goodURL, "change=", `hash="x" length="y" change=`, 1)),
		"another kind":         urlset(strings.Replace(goodHead, "change-not", "framework-not", 1)),
		"loc that is no URL":   urlset(goodHead + strings.Replace(goodURL, "http://h/a", "urn:isbn:0451450523", 1)),
		"loc of another": urlset(
			goodHead + strings.Replace(goodURL, "</url>", `<x:y xmlns:x="x"><x:loc>/b</x:loc><loc>/c</loc></x:y></url>`, 1),
		),
	} {
		if _, err := payload.ValidateNotification(strings.NewReader(doc)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSummary(t *testing.T) {
	sum, err := payload.ValidateNotification(bytes.NewReader(document(t, "foreign-notification.xml")))
	want := payload.Summary{
		Capability: payload.ChangeNotification,
		From:       "2026-03-01T10:00:00+01:00", FromTime: start,
		Until: "2026-03-01T11:00:00+01:00", UntilTime: start.Add(3600e9),
		Entries: 3, Up: "https://vendor.example/capabilitylist.xml",
	}
	if err != nil || sum != want {
		t.Errorf("got %+v, %v", sum, err)
	}
}

// Each broken rule is named alone, with its clause.
func TestValidateNotificationRefuses(t *testing.T) {
	head := func(old, by string) string { return urlset(strings.Replace(goodHead, old, by, 1) + goodURL) }
	url := func(old, by string) string { return urlset(goodHead + strings.Replace(goodURL, old, by, 1)) }
	earlier := strings.Replace(goodURL, "09:30", "09:29", 1)
	for name, tt := range map[string]struct {
		doc, want string
		cause     error
	}{
		"HTML":            {doc: "<html/>", want: "CN §3: not a ResourceSync document: the root element is \"html\"", cause: payload.ErrNotResourceSync},
		"other namespace": {doc: `<urlset xmlns="u"/>`, want: "CN §3: not a ResourceSync document: the root element is \"urlset\" in the namespace \"u\"", cause: payload.ErrNotResourceSync},
		"index":           {doc: string(document(t, "changelist-index.xml")), want: "CN §3: the root element must be urlset"},
		"JSON":            {doc: "{}", want: "CN §3: the body must be an XML document: not well-formed XML, line 1: text outside", cause: payload.ErrSyntax},
		"not well-formed": {doc: urlset(goodHead+goodURL) + "x", want: "CN §3: the body must be an XML document: not well-formed XML, line 1: text outside", cause: payload.ErrSyntax},
		"doctype":         {doc: "<!DOCTYPE urlset>" + urlset(goodHead), want: "CN §3: the body must be an XML document: a document type", cause: payload.ErrDoctype},
		"Latin-1":         {doc: "<?xml version='1.0' encoding='latin1'?>" + urlset(goodHead), want: "CN §3: the body must be an XML document: only UTF-8", cause: payload.ErrEncoding},
		"too deep":        {doc: urlset(goodHead + strings.Repeat("<a>", 40)), want: "core §7: the document is over a limit: elements nested", cause: payload.ErrTooDeep},
		"large tag": {
			doc:   urlset(goodHead + "<!--" + strings.Repeat(" ", payload.MaxEntryBytes+1) + "-->"),
			want:  "core §7: the document is over a limit: document too large",
			cause: payload.ErrTooLarge,
		},
		"50,001 entries": {
			doc:   urlset(goodHead + strings.Repeat(goodURL, payload.MaxEntries+1)),
			want:  "core §7: the document is over a limit: too many entries",
			cause: payload.ErrTooManyEntries,
		},
		"no md":            {doc: urlset(goodURL), want: "CN §3: urlset has no rs:md"},
		"md of another":    {doc: urlset(strings.Replace(goodHead, "rs:md", "md", 1) + goodURL), want: "CN §3: urlset has no rs:md"},
		"two md":           {doc: urlset(goodHead + goodURL + goodHead), want: "core §7: urlset must have exactly one rs:md, not 2"},
		"no capability":    {doc: head(`capability="change-notification"`, ""), want: "CN §3: capability is missing"},
		"other capability": {doc: head("change-notification", "changelist"), want: "CN §3: capability must be change-notification, not \"changelist\""},
		"no from":          {doc: head(`from="2026-03-01T09:00:00Z"`, ""), want: "CN §3: from is missing"},
		"no until":         {doc: head(`until="2026-03-01T10:00:00Z"`, ""), want: "CN §3: until is missing"},
		"empty until":      {doc: head(`2026-03-01T10:00:00Z`, ""), want: "CN §3: until is missing"},
		"broken from":      {doc: head("2026-03-01T09:00:00Z", "09:00"), want: "core §7: from must be a W3C Datetime, not \"09:00\""},
		"broken until":     {doc: head("2026-03-01T10:00:00Z", "soon"), want: "core §7: until must be a W3C Datetime, not \"soon\""},
		"until before from": {doc: urlset(
			strings.Replace(goodHead, "10:00:00Z", "08:00:00Z", 1),
		), want: "CN §3: until \"2026-03-01T08:00:00Z\" is before from"},
		"url attributes":     {doc: url("<url>", `<url id="1">`), want: "CN §3: entry 1: url must not have attributes"},
		"no loc":             {doc: url("<loc>http://h/a</loc>", ""), want: "CN §3: entry 1: loc is missing"},
		"empty loc":          {doc: url("http://h/a", " "), want: "CN §3: entry 1: loc is missing"},
		"relative loc":       {doc: url("http://h/a", "/a"), want: "CN §3: entry 1: loc must be an absolute URI, not \"/a\""},
		"loc without scheme": {doc: url("http://h/a", "//h/a:b"), want: "CN §3: entry 1: loc must be an absolute URI, not \"//h/a:b\""},
		"two loc":            {doc: url("</loc>", "</loc><loc>http://h/a</loc>"), want: "core §7: entry 1: loc must not be repeated"},
		"two loc, one empty": {doc: url("<loc>", "<loc/><loc>"), want: "core §7: entry 1: loc must not be repeated"},
		"no md in entry":     {doc: urlset(goodHead + goodURL + "<url><loc>http://h/b</loc></url>"), want: "CN §3: entry 2: rs:md is missing"},
		"two md in entry":    {doc: url("</url>", "<rs:md/></url>"), want: "core §7: entry 1: rs:md must not be repeated"},
		"no change":          {doc: url(`change="created"`, ""), want: "CN §3: entry 1: change is missing"},
		"other change":       {doc: url("created", "moved"), want: "CN §3: entry 1: change must be created, updated or deleted, not \"moved\""},
		"broken datetime":    {doc: url("2026-03-01T09:30:00Z", "now"), want: "core §7: entry 1: datetime must be a W3C Datetime, not \"now\""},
		"order":              {doc: urlset(goodHead + goodURL + earlier), want: "CN §3: entry 2: its datetime is before that of entry 1"},
		"before from":        {doc: url("09:30", "08:59"), want: "core §7: entry 1: its datetime is before from"},
		"after until":        {doc: url("09:30:00Z", "10:00:00.000001Z"), want: "core §7: entry 1: its datetime is after until"},
		"newest after until": {doc: urlset(
			goodHead + goodURL + strings.Replace(goodURL, "09:30", "10:30", 1),
		), want: "core §7: entry 2: its datetime is after until"},
		"late head": {doc: urlset(
			strings.Replace(goodURL, "09:30", "08:59", 1) + goodHead,
		), want: "core §7: entry 1: its datetime is before from"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := payload.ValidateNotification(strings.NewReader(tt.doc))
			var invalid *payload.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v", err)
			}
			if len(invalid.Violations) != 1 || !strings.HasPrefix(invalid.Violations[0].String(), tt.want) || err.Error() != invalid.Violations[0].String() {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
			if tt.cause != nil && !errors.Is(err, tt.cause) || tt.cause == nil && errors.Unwrap(err) != nil {
				t.Errorf("cause: %v", errors.Unwrap(err))
			}
		})
	}
}

// All findings before a document turns out to be broken are reported.
func TestViolationsInOrder(t *testing.T) {
	doc := urlset(`<rs:md capability="change-notification"/><url/>`) + "<!"
	_, err := payload.ValidateNotification(strings.NewReader(doc))
	want := "CN §3: from is missing; CN §3: until is missing; CN §3: entry 1: loc is missing; and 2 more"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestViolationsAreBounded(t *testing.T) {
	doc := urlset(goodHead + strings.Repeat("<url/>", 1000))
	sum, err := payload.ValidateNotification(strings.NewReader(doc))
	var invalid *payload.Invalid
	if !errors.As(err, &invalid) || len(invalid.Violations) != payload.MaxViolations {
		t.Fatalf("got %v", err)
	}
	if sum.Entries > payload.MaxViolations {
		t.Errorf("read on to entry %d", sum.Entries)
	}
	long := urlset(strings.Replace(goodHead, "2026-03-01T09:00:00Z", strings.Repeat("9", 100_000), 1))
	if _, err := payload.ValidateNotification(strings.NewReader(long)); err == nil || len(err.Error()) > 200 {
		t.Errorf("the message quotes too much: %.300v", err)
	}
}

// Trouble with the input says nothing about the document.
func TestValidateNotificationPassesOnTrouble(t *testing.T) {
	doc := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url/>`
	_, err := payload.ValidateNotification(io.MultiReader(strings.NewReader(doc), iotest.ErrReader(io.ErrClosedPipe)))
	var invalid *payload.Invalid
	if !errors.Is(err, io.ErrClosedPipe) || errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}

func TestIsNotification(t *testing.T) {
	for name, doc := range map[string]string{
		"as written":         string(document(t, "changenotification.xml")),
		"other prefixes":     string(document(t, "foreign-notification.xml")),
		"byte order mark":    "\xef\xbb\xbf" + urlset(goodHead),
		"other notification": urlset(`<rs:md capability="framework-notification"/>`),
		"broken later":       urlset(goodHead + "<rs:ln"),
		"cut off":            strings.TrimSuffix(urlset(goodHead), "</urlset>"),
		"no interval":        urlset(`<rs:md capability="change-notification"/>`),
		"comment first":      "<!-- a -->" + urlset(goodHead),
		"large":              urlset(goodHead + strings.Repeat(goodURL, 2000)),
	} {
		if !payload.IsNotification([]byte(doc)) {
			t.Errorf("%s: not recognized", name)
		}
	}
	for name, doc := range map[string]string{
		"nothing":           "",
		"HTML":              "<!DOCTYPE html><html></html>",
		"JSON":              `{"a": "<urlset>"}`,
		"Atom":              `<feed xmlns="http://www.w3.org/2005/Atom"/>`,
		"sitemap":           urlset(goodURL),
		"Change List":       urlset(`<rs:md capability="changelist"/>`),
		"Capability List":   string(document(t, "capabilitylist.xml")),
		"index":             string(document(t, "changelist-index.xml")),
		"index of them":     strings.ReplaceAll(urlset(goodHead), "urlset", "sitemapindex"),
		"other namespace":   strings.Replace(urlset(goodHead), "sitemaps.org", "sitemap.org", 1),
		"md of another":     strings.Replace(urlset(goodHead), "openarchives", "openarchive", 1),
		"capability in url": urlset(`<url><rs:md capability="change-notification"/></url>`),
		"md after url":      urlset(goodURL + goodHead),
		"md inside another": urlset(`<a>` + goodHead + `</a>`),
		"only a comment":    "<!-- " + urlset(goodHead) + " -->",
		"doctype":           "<!DOCTYPE urlset []>" + urlset(goodHead),
	} {
		if payload.IsNotification([]byte(doc)) {
			t.Errorf("%s: taken for a notification", name)
		}
	}
}

// Content beyond the first 64 KiB is not looked at, so that a large body of any other kind costs no
// more than a small one.
func TestIsNotificationIsBounded(t *testing.T) {
	const limit = 64 << 10
	doc := urlset(goodHead)
	pad := func(n int) []byte { return []byte(strings.Repeat(" ", n) + doc) }
	if room := limit - len(doc); !payload.IsNotification(pad(room)) {
		t.Error("not recognized within the limit")
	}
	if payload.IsNotification(pad(limit)) {
		t.Error("looked beyond the limit")
	}
	for _, unit := range []string{`{"a":1}`, "<html>", " ", "<!-- -->", "<!-- ", "<a ", "<?a ?>", "<a b='", "&", "<![CDATA["} {
		body := bytes.Repeat([]byte(unit), (50<<20)/len(unit))
		if allocs := testing.AllocsPerRun(1, func() { payload.IsNotification(body) }); allocs > 1000 {
			t.Errorf("50 MB of %q: %v allocations", unit, allocs)
		}
	}
}

func ExampleValidateNotification() {
	doc := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="2026-03-01T09:00:00Z"/>
  <url>
    <loc>https://source.example/a</loc>
    <rs:md change="moved"/>
  </url>
</urlset>`
	_, err := payload.ValidateNotification(strings.NewReader(doc))
	var invalid *payload.Invalid
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			fmt.Println(v.Clause, "says:", v.Message)
		}
	}
	// Output:
	// CN §3 says: until is missing
	// CN §3 says: entry 1: change must be created, updated or deleted, not "moved"
}
