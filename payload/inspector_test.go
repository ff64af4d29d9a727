package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/payload"
)

// Documents without an oddity, for spoiling.
const (
	upLink     = `<rs:ln rel="up" href="https://a.example/capabilitylist.xml"/>`
	listMD     = `<rs:md capability="changelist" from="2026-03-01T00:00:00Z" until="2026-03-02T00:00:00Z"/>`
	resourceMD = `<rs:md capability="resourcelist" at="2026-03-01T00:00:00Z" completed="2026-03-01T00:01:00Z"/>`
	oneChange  = `<url><loc>https://a.example/1</loc><lastmod>2026-02-01T00:00:00Z</lastmod><rs:md change="created" datetime="2026-03-01T10:00:00Z" ` +
		`hash="md5:1584abdf8ebdc9802ac0c6a7402c03b6" length="1" type="text/html" encoding="gzip"/><rs:ln rel="via" href="https://b.example/1"/></url>`
	nextChange  = `<url><loc>https://a.example/1</loc><rs:md change="updated" datetime="2026-03-01T11:00:00Z"/></url>`
	oneResource = `<url><loc>https://a.example/1</loc></url>`
	firstPart   = `<sitemap><loc>https://a.example/l1</loc><rs:md from="2026-03-01T00:00:00Z" until="2026-03-01T12:00:00Z"/></sitemap>`
	secondPart  = `<sitemap><loc>https://a.example/l2</loc><rs:md from="2026-03-01T12:00:00Z"/></sitemap>`
	thirdPart   = `<sitemap><loc>https://a.example/l3</loc><rs:md from="2026-03-01T12:00:00Z" until="2026-03-02T00:00:00Z"/></sitemap>`
	listedMD    = `<rs:md capability="capabilitylist"/>`
	listed      = `<url><loc>https://a.example/l</loc><rs:md capability="changelist"/></url>`
	channel     = `<url><loc>https://a.example/c</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="https://h.example/"/></url>`
	describedMD = `<rs:md capability="description"/>`
	described   = `<url><loc>https://a.example/cl</loc><rs:md capability="capabilitylist"/>` + about + `</url>`
	about       = `<rs:ln rel="describedby" href="https://a.example/about"/>`

	goodList        = upLink + listMD + oneChange + nextChange
	goodResources   = upLink + resourceMD + oneResource
	goodIndex       = upLink + listMD + firstPart + secondPart
	goodCapable     = upLink + about + listedMD + listed + channel
	goodDescription = about + describedMD + described
)

func index(inner string) string {
	return strings.Replace(strings.Replace(urlset(inner), "<urlset", "<sitemapindex", 1), "</urlset", "</sitemapindex", 1)
}

// swap replaces old in doc, where it must be.
func swap(doc, old, by string) string {
	if !strings.Contains(doc, old) {
		panic("there is no " + old)
	}
	return strings.Replace(doc, old, by, 1)
}

// inspected are documents with one oddity each, and what is said of it.
var inspected = []struct{ name, capability, doc, clause, message string }{
	{"late head", "changelist", urlset(oneChange + listMD + upLink), "core §7", "behind its first entry"},
	{"no head", "changelist", urlset(upLink + oneChange), "core §7", "urlset has no rs:md with a capability"},
	{"two heads", "changelist", urlset(listMD + goodList), "core §7", "exactly one rs:md"},
	{"a prefix in the head", "changelist", urlset(swap(goodList, "until", "rs:until")), "core §7", "must not have a prefix"},
	{"a prefix", "changelist", urlset(swap(goodList, "length", "rs:length")), "core §7", "entry 1: attributes of ResourceSync must not have a prefix"},
	{"attributes", "changelist", urlset(swap(goodList, "<url>", `<url a="b">`)), "core §12.1", "entry 1: url and sitemap do not have attributes"},
	{"rs:md twice", "changelist", urlset(
		swap(goodList, "<rs:ln rel=\"via\"", `<rs:md length="2"/><rs:ln rel="via"`),
	), "core §7", "entry 1: rs:md must not be repeated"},
	{
		"rs:md first", "changelist",
		urlset(upLink + listMD + `<url><rs:md change="created" datetime="2026-03-01T10:00:00Z"/><loc>https://a.example/1</loc></url>`),
		"core §7", "entry 1: rs:md is before loc",
	},
	{"a sitemap in a list", "changelist", urlset(
		swap(swap(goodList, "<url>", "<sitemap>"), "</url>", "</sitemap>"),
	), "core §7", "entry 1: urlset has url"},
	{"a url in an index", "changelist", index(
		upLink + listMD + firstPart + swap(swap(secondPart, "<sitemap>", "<url>"), "</sitemap>", "</url>"),
	), "core §7", "entry 2: urlset has url"},
	{"no capability", "changelist", urlset(swap(goodList, ` capability="changelist"`, "")), "core §7", "capability is missing"},
	{"another capability", "changelist", urlset(goodResources), "core §7", `capability should be changelist here, not "resourcelist"`},
	{"an index of Capability Lists", "capabilitylist", index(upLink + about + listedMD), "core §9", "the root element should be urlset"},
	{"no up", "changelist", urlset(listMD + oneChange), "core §12.1", "rel=up is missing"},
	{"no up in an index", "changelist", index(listMD + firstPart), "core §12.2", "rel=up is missing"},
	{"no up of resources", "resourcelist", urlset(resourceMD + oneResource), "core §10.1", "rel=up is missing"},
	{"no up in an index of resources", "resourcelist", index(resourceMD), "core §10.2", "rel=up is missing"},
	{"a relative up", "changelist", urlset(
		swap(goodList, "https://a.example/capabilitylist.xml", "/cl.xml"),
	), "core §7", "ln[0].href must be an absolute URI"},
	{"no from", "changelist", urlset(swap(goodList, ` from="2026-03-01T00:00:00Z"`, "")), "core §12.1", "from is missing"},
	{"until before from", "changelist", urlset(
		swap(upLink+listMD, "2026-03-02", "2026-02-02"),
	), "core §7", `until "2026-02-02T00:00:00Z" is before from`},
	{"a notification without until", "", urlset(swap(goodHead, ` until="2026-03-01T10:00:00Z"`, "") + goodURL), "CN §3", "until is missing"},
	{"no at", "resourcelist", urlset(swap(goodResources, ` at="2026-03-01T00:00:00Z"`, "")), "core §10.1", "at is missing"},
	{"completed before at", "resourcelist", urlset(swap(goodResources, `completed="2026`, `completed="2025`)), "core §7", "completed"},
	{"at of changes", "changelist", urlset(swap(goodList, ` from=`, ` at="2026-03-01T00:00:00Z" from=`)), "core §7", "at and completed are not used"},
	{"from of resources", "resourcelist", urlset(
		swap(goodResources, ` at=`, ` from="2026-03-01T00:00:00Z" at=`),
	), "core §7", "from and until are not used"},
	{"no datetime in the head", "changelist", urlset(
		swap(goodList, `until="2026-03-02T00:00:00Z"`, `until="later"`),
	), "core §7", `until of the document must be a W3C Datetime, not "later"`},
	{"a day in the head", "changelist", urlset(
		swap(goodList, `from="2026-03-01T00:00:00Z"`, `from="2026-03-01"`),
	), "core §7", "from of the document should be complete and in UTC"},
	{"no loc", "changelist", urlset(swap(goodList, "<loc>https://a.example/1</loc>", "")), "core §7", "entry 1: loc is missing"},
	{"a relative loc", "changelist", urlset(
		swap(goodList, "<loc>https://a.example/1</loc>", "<loc>1</loc>"),
	), "core §7", "entry 1: loc must be an absolute URI"},
	{"lastmod", "changelist", urlset(
		swap(goodList, "2026-02-01T00:00:00Z", "yesterday"),
	), "core §7", `entry 1: lastmod must be a W3C Datetime, not "yesterday"`},
	{"an offset in lastmod", "changelist", urlset(
		swap(goodList, "2026-02-01T00:00:00Z", "2026-02-01T00:00:00+01:00"),
	), "core §7", "entry 1: lastmod should be complete and in UTC"},
	{"no change", "changelist", urlset(swap(goodList, `change="created" `, "")), "core §12.1", "entry 1: change is missing"},
	{"another change", "changelist", urlset(swap(goodList, `"created"`, `"moved"`)), "core §12.1", `entry 1: change must be created, updated or deleted, not "moved"`},
	{"a change in a Resource List", "resourcelist", urlset(upLink + resourceMD + oneChange), "core §7", "entry 1: change and datetime are not used"},
	{"no datetime", "changelist", urlset(swap(goodList, `datetime="2026-03-01T10:00:00Z" `, "")), "core §12.1", "entry 1: it should have a datetime"},
	{"a broken datetime", "changelist", urlset(
		swap(goodList, `2026-03-01T10:00:00Z`, "2026-02-30T10:00:00Z"),
	), "core §7", "entry 1: datetime must be a W3C Datetime"},
	{"an offset", "changelist", urlset(
		swap(goodList, `2026-03-01T10:00:00Z`, "2026-03-01T10:00:00+01:00"),
	), "core §7", "entry 1: datetime should be complete and in UTC"},
	{"a minute", "changelist", urlset(
		swap(goodList, `2026-03-01T10:00:00Z`, "2026-03-01T10:00Z"),
	), "core §7", "entry 1: datetime should be complete and in UTC"},
	{"order", "changelist", urlset(upLink + listMD + nextChange + oneChange), "core §12.1", "entry 2: its datetime is before that of entry 1"},
	{"before from", "changelist", urlset(
		swap(goodList, `2026-03-01T10:00:00Z`, "2026-02-28T10:00:00Z"),
	), "core §7", "entry 1: its datetime is before from"},
	{"after until", "changelist", urlset(
		swap(goodList, `2026-03-01T11:00:00Z`, "2026-03-02T10:00:00Z"),
	), "core §7", "entry 2: its datetime is after until"},
	{"a hash", "changelist", urlset(swap(goodList, "md5:", "crc:")), "core §7", "entry 1: hash names a hash algorithm"},
	{"length", "changelist", urlset(swap(goodList, `length="1"`, `length="1 MB"`)), "core §7", "entry 1: length must be"},
	{"type", "changelist", urlset(swap(goodList, "text/html", "html")), "core §7", "entry 1: type must be"},
	{"encoding", "changelist", urlset(swap(goodList, "gzip", "gzip br")), "core §7", "entry 1: encoding must be"},
	{"a link", "changelist", urlset(swap(goodList, `rel="via"`, ``)), "core §7", "entry 1: ln[0].rel is missing"},
	{"from of an entry", "changelist", urlset(
		swap(goodList, `change="created"`, `change="created" from="2026-03-01T00:00:00Z"`),
	), "core §7", "entry 1: from, until, at and completed"},
	{"at of a resource", "resourcelist", urlset(
		swap(goodResources, "</url>", `<rs:md at="2026-03-01T00:00:00Z"/></url>`),
	), "core §7", "entry 1: from, until, at and completed"},
	{"at of a part", "changelist", index(
		swap(goodIndex, `<rs:md from`, `<rs:md at="2026-03-01T00:00:00Z" from`),
	), "core §7", "entry 1: at and completed are not used"},
	{"from of a part", "resourcelist", index(upLink + resourceMD + firstPart), "core §7", "entry 1: from and until are not used"},
	{"a part that is never", "changelist", index(
		swap(goodIndex, `until="2026-03-01T12:00:00Z"`, `until="noon"`),
	), "core §7", "entry 1: until must be a W3C Datetime"},
	{"an offset of a part", "changelist", index(
		swap(goodIndex, `until="2026-03-01T12:00:00Z"`, `until="2026-03-01T13:00:00+01:00"`),
	), "core §7", "entry 1: until should be complete and in UTC"},
	{"a part without from", "changelist", index(
		upLink + listMD + `<sitemap><loc>https://a.example/l1</loc></sitemap>`,
	), "core §12.2", "entry 1: it should have from"},
	{"a part from behind", "changelist", index(
		upLink + listMD + swap(firstPart, "T00:00:00Z", "T13:00:00Z"),
	), "core §7", "entry 1: it ends before it begins"},
	{"an open part", "changelist", index(
		upLink + listMD + secondPart + swap(thirdPart, "T12", "T13"),
	), "core §12.2", "entry 1: it has no until, and is not the last"},
	{"parts out of order", "changelist", index(upLink + listMD + thirdPart + firstPart), "core §12.2", "entry 2: it begins before entry 1"},
	{"overlapping parts", "changelist", index(
		upLink + listMD + firstPart + swap(thirdPart, "T12", "T11"),
	), "core §12.2", "entry 2: it begins before entry 1 ends"},
	{"a gap", "changelist", index(
		upLink + listMD + firstPart + swap(thirdPart, "T12", "T13"),
	), "core §12.2", "entry 2: it begins after entry 1 ends"},
	{"no capability of an entry", "capabilitylist", urlset(
		swap(goodCapable, ` capability="changelist"`, ""),
	), "core §9", "entry 1: capability is missing"},
	{"another capability of an entry", "description", urlset(
		about + describedMD + swap(listed, "</url>", about+"</url>"),
	), "core §8", `entry 1: capability must be capabilitylist, not "changelist"`},
	{"twice", "capabilitylist", urlset(goodCapable + listed), "core §9", `entry 3: "changelist" is listed again`},
	{"no hub", "capabilitylist", urlset(swap(goodCapable, `rel="hub"`, `rel="via"`)), "CN §5", "entry 2: a channel must have a link with rel=hub"},
}

func TestInspector(t *testing.T) {
	for _, tt := range inspected {
		t.Run(tt.name, func(t *testing.T) {
			i := payload.NewInspector(tt.capability)
			if _, _, err := inspect(strings.NewReader(tt.doc), i); err != nil {
				t.Fatal(err)
			}
			found := i.Violations()
			if len(found) != 1 || found[0].Clause != tt.clause || !strings.Contains(found[0].Message, tt.message) {
				t.Errorf("got %v", found)
			}
		})
	}
}

// TestEveryOddityIsShown: the tables have a document for each kind, and each kind says what to do.
func TestEveryOddityIsShown(t *testing.T) {
	shown := payload.Noted(payload.NewInspector(""))
	show := func(capability, doc string) {
		i := payload.NewInspector(capability)
		if _, _, err := inspect(strings.NewReader(doc), i); err != nil {
			t.Error(err)
		}
		for k, noted := range payload.Noted(i) {
			shown[k] = shown[k] || noted
		}
	}
	for _, tt := range inspected {
		show(tt.capability, tt.doc)
	}
	docs := goodDocuments(t)
	for _, m := range append(particularMutations[:len(particularMutations):len(particularMutations)], recommendations...) {
		if m.old != "urlset" {
			show("", swap(docs[m.doc], m.old, m.by))
		}
	}
	show("", strings.ReplaceAll(docs["resourcedump"], "application/zip", "application/x-tar"))
	show("", swap(docs["changelist"], `"changelist"`, `"other"`))
	show("", swap(docs["changelist"], "</loc>", "</loc><changefreq>often</changefreq>"))
	show("", swap(docs["changelist"], "</loc>", "</loc><loc>a:b</loc>"))
	levels, mends := payload.Rulings()
	for k, noted := range shown {
		if !noted || mends[k] == "" || strings.HasSuffix(mends[k], ".") {
			t.Errorf("kind %d: shown: %t, %s, %q", k, noted, levels[k], mends[k])
		}
	}
}

func TestInspectorSaysNothing(t *testing.T) {
	for name, tt := range map[string]struct{ capability, doc string }{
		"Change List":       {"changelist", urlset(goodList)},
		"of any capability": {"", urlset(goodList)},
		"open, empty":       {"changelist", urlset(upLink + `<rs:md capability="changelist" from="2026-03-01T00:00:00Z"/>`)},
		"Resource List":     {"resourcelist", urlset(goodResources)},
		"Change List Index": {"changelist", index(goodIndex)},
		"closed index":      {"changelist", index(upLink + listMD + firstPart + thirdPart)},
		"Resource List Index": {"resourcelist", index(
			upLink + resourceMD + `<sitemap><loc>https://a.example/1</loc><rs:md at="2026-03-01T00:00:00Z"/></sitemap>`,
		)},
		"Capability List":     {"capabilitylist", urlset(goodCapable)},
		"Source Description":  {"description", urlset(goodDescription)},
		"Descriptions' index": {"description", index(about + describedMD + swap(swap(described, "<url>", "<sitemap>"), "</url>", "</sitemap>"))},
		"change notification": {"change-notification", urlset(goodHead + goodURL)},
		"an archive":          {"changelist-archive", urlset(upLink + swap(listedMD, "capabilitylist", "changelist-archive") + oneResource)},
	} {
		i := payload.NewInspector(tt.capability)
		if _, _, err := inspect(strings.NewReader(tt.doc), i); err != nil || len(i.Violations()) > 0 {
			t.Errorf("%s: %v, %v", name, i.Violations(), err)
		}
	}
}

// Every example document is what it should be; those that show what is taken all
// the same are named with what is odd in them.
func TestExampleDocuments(t *testing.T) {
	odd := map[string][]string{
		"changenotification.xml":  {`core §14.2: entry 2: a duplicate should not repeat what rs:md says of the resource`},
		"changedump-manifest.xml": {`core §14.2: entry 2: a duplicate should not repeat what rs:md says of the resource`},
		"resourcelist.xml":        {`core §14.2: entry 1: a duplicate should not repeat what rs:md says of the resource`},
		"description.xml":         {`core §8: entry 2: the recommended link with rel=describedby is missing`},
		"foreign-notification.xml": {
			`core §7: from of the document should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-03-01T10:00:00+01:00"`,
			`core §7: entry 1: lastmod should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-02"`,
			`CN §3: entry 1: it should have a datetime, so that it is known which changes are new`,
			`core §7: entry 3: datetime should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-03-01T11:00:00+01:00"`,
			`core §7: entry 1: rs:md is before loc (table 2: behind it)`,
		},
		"resourcelist-late-head.xml": {
			`core §7: entry 1: hash has a digest that is not hexadecimal (core §7)`,
			`core §7: entry 1: path must begin with a slash and must not end with one (core §11.2)`,
			`core §7: the document's rs:md is behind its first entry`,
			`core §7: at of the document should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-01-01"`,
			`core §7: completed of the document must be a W3C Datetime, not "soon"`,
			`core §7: ln[0].href must be an absolute URI (of the document)`,
			`core §7: entry 1: attributes of ResourceSync must not have a prefix`,
		},
		"changelist-odd.xml": {
			`core §12.1: from is missing: the beginning of the changes is unknown`,
			`core §7: entry 1: lastmod should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-03-01"`,
			`core §7: entry 1: hash names a hash algorithm that is not md5, sha-1, sha-224, sha-256, sha-384 or sha-512`,
			`core §7: entry 1: datetime should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not "2026-03-01T11:00:00+01:00"`,
			`core §7: entry 2: length must be a whole number of bytes, in decimal digits`,
			`core §12.1: entry 2: its datetime is before that of entry 1; the oldest change comes first`,
			`core §7: entry 3: ln[0].href must be an absolute URI`,
			`core §14.3: entry 3: an alternate should have a type`,
			`core §12.1: entry 3: it should have a datetime, so that it is known which changes are new`,
			`core §12.1: the link with rel=up is missing`,
			`core §7: entry 1: rs:md is before loc (table 2: behind it)`,
		},
	}
	files, err := os.ReadDir(filepath.Join("..", "testdata", "documents"))
	if err != nil || len(files) < 9 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		i := payload.NewInspector("")
		if _, _, err := inspect(bytes.NewReader(document(t, file.Name())), i); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
		var found []string
		for _, v := range i.Violations() {
			found = append(found, v.String())
		}
		if want := odd[file.Name()]; !slices.Equal(found, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file.Name(), strings.Join(found, "\n"), strings.Join(want, "\n"))
		}
	}
}

// An oddity in each of many entries is reported once, and nothing grows with them.
func TestInspectorTellsOnce(t *testing.T) {
	const entries = 2000
	var doc strings.Builder
	doc.WriteString(upLink + `<rs:md capability="capabilitylist"/>`)
	for n := range entries {
		fmt.Fprintf(&doc, `<url a="b"><rs:md capability="c%d" length="x"/><loc>l%d</loc><rs:ln/></url>`, n, n)
	}
	i := payload.NewInspector(payload.CapCapabilityList)
	if _, got, err := inspect(strings.NewReader(urlset(doc.String())), i); err != nil || len(got) != entries {
		t.Fatal(len(got), err)
	}
	if n := len(i.Violations()); n != 7 {
		t.Errorf("%d violations: %v", n, i.Violations())
	}
	for _, v := range i.Violations() {
		if strings.HasPrefix(v.Element, "url[1]") != (v.Times == entries) {
			t.Errorf("%d times: %v", v.Times, v)
		}
	}
	if n := payload.Listed(i); n > 64 {
		t.Errorf("%d capabilities are remembered", n)
	}
}

// An entry without an oddity costs an Inspector no allocation.
func TestInspectorDoesNotAllocate(t *testing.T) {
	r := payload.NewReader(strings.NewReader(urlset(goodList)), payload.Limits{})
	i := payload.NewInspector(payload.CapChangeList)
	h, err := r.Header()
	if err != nil {
		t.Fatal(err)
	}
	i.Head(h)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { i.Entry(&e) }); n > 0 {
			t.Errorf("%v allocations for %s", n, e.Loc)
		}
	}
}
