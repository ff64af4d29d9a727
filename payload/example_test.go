package payload_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"carillon/payload"
)

func ExampleNotificationWriter() {
	from := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	w, err := payload.NewNotificationWriter(os.Stdout,
		payload.Interval{From: from, Until: from.Add(time.Second)}, "https://source.example/capabilitylist.xml")
	if err != nil {
		log.Fatal(err)
	}
	err = w.Write(&payload.Entry{
		Loc: "https://source.example/a?x=1&y=2", Change: payload.Created, Datetime: from.Add(250 * time.Millisecond),
		Length: "8876", Type: "application/pdf",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	// <rs:ln rel="up" href="https://source.example/capabilitylist.xml"/>
	// <rs:md capability="change-notification" from="2026-03-01T09:00:00.000000Z" until="2026-03-01T09:00:01.000000Z"/>
	// <url>
	// <loc>https://source.example/a?x=1&amp;y=2</loc>
	// <rs:md change="created" datetime="2026-03-01T09:00:00.250000Z" length="8876" type="application/pdf"/>
	// </url>
	// </urlset>
}

func ExampleAppendEntry() {
	iv := payload.Interval{
		From:  time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		Until: time.Date(2026, 3, 1, 9, 0, 1, 0, time.UTC),
	}
	entry, err := payload.AppendEntry(nil, &payload.Entry{Loc: "https://source.example/a", Change: payload.Deleted, Datetime: iv.From})
	if err != nil {
		log.Fatal(err)
	}
	if len(entry)+payload.NotificationOverhead(iv, "") > payload.MaxBytes {
		log.Fatal("the entry goes into the next notification")
	}
	doc, err := payload.AppendNotificationHead(nil, iv, "")
	if err != nil {
		log.Fatal(err)
	}
	doc = append(doc, entry...)
	doc = payload.AppendNotificationTail(doc)
	sum, err := payload.ValidateNotification(strings.NewReader(string(doc)))
	fmt.Println(sum.Entries, sum.From, err)
	// Output: 1 2026-03-01T09:00:00.000000Z <nil>
}

func ExampleEntry_Validate() {
	e := payload.Entry{
		Loc: "https://source.example/a", Change: payload.Updated,
		Links: []payload.Link{{Rel: "duplicate", Href: "mirror/a"}},
	}
	fmt.Println(e.Validate())
	// Output: ln[0].href must be an absolute URI
}

func ExampleReader() {
	doc := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="2026-03-01T09:00:00Z" until="2026-03-01T09:00:01Z"/>
  <url>
    <loc>https://source.example/a</loc>
    <rs:md change="created" datetime="2026-03-01T09:00:00.5Z"/>
  </url>
</urlset>`
	r := payload.NewReader(strings.NewReader(doc), payload.Limits{})
	head, err := r.Header()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(head.Capability, "until", head.UntilTime)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Change, e.Loc, e.Datetime.Format(time.TimeOnly))
	}
	// Output:
	// change-notification until 2026-03-01 09:00:01 +0000 UTC
	// created https://source.example/a 09:00:00
}

func ExampleIsNotification() {
	fmt.Println(payload.IsNotification([]byte(`{"not": "XML"}`)))
	fmt.Println(payload.IsNotification([]byte(`<r:urlset xmlns:r="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:s="http://www.openarchives.org/rs/terms/"><s:md capability="change-notification"/></r:urlset>`)))
	// Output:
	// false
	// true
}

// A Destination reads a delivery once, and learns what is wrong with it.
func ExampleReadNotification() {
	const doc = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="2026-03-01T09:00:00Z"/>
  <url><loc>https://source.example/a</loc>
    <rs:md change="updated" datetime="2026-03-01T09:00:00Z"/></url>
</urlset>`
	n, err := payload.ReadNotification([]byte(doc), payload.Limits{})
	if n == nil {
		log.Fatal("this is something else")
	}
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range n.Entries {
		fmt.Println(e.Change, e.Loc)
	}
	// Output:
	// CN §3: until is missing
	// updated https://source.example/a
}

// A hub recognizes a notification, and states the missing part of a near miss.
func ExampleRecognize() {
	const doc = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md from="2026-03-01"/></urlset>`
	if like, miss := payload.Recognize([]byte(doc)); like == payload.Lookalike {
		fmt.Println(miss.Kind, "-", miss.Why)
	}
	// Output: capability - its rs:md has no capability
}

func ExampleNormalizeDatetime() {
	for _, told := range []string{"2026-03-01T10:00:00.250+01:00", "2026-03-01", "1 March"} {
		fmt.Println(payload.NormalizeDatetime(told))
	}
	// Output:
	// 2026-03-01T09:00:00.250Z <nil>
	// 2026-03-01 <nil>
	//  not a W3C Datetime: "1 March"
}

func ExampleWriteCapabilityList() {
	err := payload.WriteCapabilityList(os.Stdout, payload.CapabilityList{
		Up: "https://source.example/.well-known/resourcesync",
		Capabilities: []payload.Capability{{
			Loc: "https://source.example/change/", Capability: payload.ChangeNotification,
			Links: []payload.Link{{Rel: "hub", Href: "https://hub.example/websub/"}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	// <rs:ln rel="up" href="https://source.example/.well-known/resourcesync"/>
	// <rs:md capability="capabilitylist"/>
	// <url>
	// <loc>https://source.example/change/</loc>
	// <rs:md capability="change-notification"/>
	// <rs:ln rel="hub" href="https://hub.example/websub/"/>
	// </url>
	// </urlset>
}

func ExampleWriteSourceDescription() {
	err := payload.WriteSourceDescription(os.Stdout, payload.SourceDescription{
		CapabilityLists: []payload.CapabilityListRef{{Loc: "https://source.example/capabilitylist.xml"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	// <rs:md capability="description"/>
	// <url>
	// <loc>https://source.example/capabilitylist.xml</loc>
	// <rs:md capability="capabilitylist"/>
	// </url>
	// </urlset>
}

func ExampleAppendHead() {
	from := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	doc, err := payload.AppendHead(nil, payload.Head{
		Capability: payload.CapChangeList, From: from,
		Links: []payload.Link{{Rel: "up", Href: "https://source.example/capabilitylist.xml"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	doc, err = payload.AppendEntry(doc, &payload.Entry{Loc: "https://source.example/a", Change: payload.Deleted, Datetime: from})
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(payload.AppendTail(doc, false))
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	// <rs:ln rel="up" href="https://source.example/capabilitylist.xml"/>
	// <rs:md capability="changelist" from="2026-03-01T09:00:00.000000Z"/>
	// <url>
	// <loc>https://source.example/a</loc>
	// <rs:md change="deleted" datetime="2026-03-01T09:00:00.000000Z"/>
	// </url>
	// </urlset>
}

func ExampleAppendPart() {
	from := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	part, err := payload.AppendPart(nil, &payload.Part{
		Loc: "https://source.example/changelist/1.xml", From: from, Until: from.Add(time.Hour),
	})
	fmt.Println(string(part), err)
	// Output:
	// <sitemap>
	// <loc>https://source.example/changelist/1.xml</loc>
	// <rs:md from="2026-03-01T09:00:00.000000Z" until="2026-03-01T10:00:00.000000Z"/>
	// </sitemap>
	//  <nil>
}

func ExampleAppendResource() {
	resource, err := payload.AppendResource(nil, &payload.Entry{Loc: "https://source.example/a", Length: "8876", Type: "application/pdf"})
	fmt.Println(string(resource), err)
	// Output:
	// <url>
	// <loc>https://source.example/a</loc>
	// <rs:md length="8876" type="application/pdf"/>
	// </url>
	//  <nil>
}

// A Resource Dump lists packages; each has a manifest that names what is in it.
func ExampleAppendListed() {
	entry, err := payload.AppendListed(nil, &payload.Part{
		Loc: "https://source.example/resourcedump/1.zip", Type: "application/zip", Length: "4765",
		Links: []payload.Link{{Rel: payload.RelContents, Href: "https://source.example/resourcedump/1.xml"}},
	})
	fmt.Println(string(entry), err)
	// Output:
	// <url>
	// <loc>https://source.example/resourcedump/1.zip</loc>
	// <rs:md length="4765" type="application/zip"/>
	// <rs:ln rel="contents" href="https://source.example/resourcedump/1.xml"/>
	// </url>
	//  <nil>
}

func ExampleAppendBitstream() {
	e := payload.Entry{Loc: "https://source.example/a", Type: "text/html", Path: "/a.html"}
	entry, err := payload.AppendBitstream(nil, &e)
	fmt.Println(string(entry), err)
	e.Path = "/../a.html"
	_, err = payload.AppendBitstream(nil, &e)
	fmt.Println(err)
	// Output:
	// <url>
	// <loc>https://source.example/a</loc>
	// <rs:md type="text/html" path="/a.html"/>
	// </url>
	//  <nil>
	// path must not have a segment ..
}

func ExampleAppendTold() {
	r := payload.NewReader(strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:r="http://www.openarchives.org/rs/terms/"><url><r:md hash="crc:0" datetime="2026-03-01"/><loc>a</loc></url></urlset>`), payload.Limits{})
	e, err := r.Next()
	if err != nil {
		log.Fatal(err)
	}
	entry, err := payload.AppendTold(nil, &e)
	fmt.Println(string(entry), err)
	// Output:
	// <url>
	// <loc>a</loc>
	// <rs:md datetime="2026-03-01" hash="crc:0"/>
	// </url>
	//  <nil>
}

func ExampleInspector() {
	r := payload.NewReader(strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
  xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://source.example/capabilitylist.xml"/>
  <rs:md capability="changelist"/>
  <url><loc>https://source.example/a</loc><rs:md change="updated"/></url>
</urlset>`), payload.Limits{})
	i := payload.NewInspector(payload.CapChangeList)
	head, err := r.Header()
	if err != nil {
		log.Fatal(err)
	}
	i.Head(head)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		i.Entry(&e)
	}
	head, err = r.Header() // complete now
	if err != nil {
		log.Fatal(err)
	}
	i.End(head)
	for _, v := range i.Violations() {
		fmt.Printf("%s in line %d, %s: %s\n\tto do: %s\n", v.Level, v.Line, v.Element, v, v.Mend)
	}
	// Output:
	// error in line 1, rs:md/@from: core §12.1: from is missing: the beginning of the changes is unknown
	// 	to do: add from: all changes since then are in the document
	// note in line 5, url[1]/rs:md/@datetime: core §12.1: entry 1: it should have a datetime, so that it is known which changes are new
	// 	to do: add datetime, the time of the change, so that Destinations know which changes are new
}
