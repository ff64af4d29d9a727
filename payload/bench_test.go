package payload_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"carillon/payload"
)

// typical returns entries as most Sources send them, in order.
func typical(n int) []payload.Entry {
	entries := make([]payload.Entry, n)
	for i := range entries {
		entries[i] = payload.Entry{
			Loc:     fmt.Sprintf("https://source.example/records/2026/%07d?format=xml&version=2", i),
			LastMod: "2026-03-01T08:59:58Z", Change: payload.Updated, Datetime: start.Add(time.Duration(i) * time.Microsecond),
			Hash: md5 + " " + sha256, Length: "14599", Type: "application/xml",
			Links: []payload.Link{{
				Rel: "describedby", Href: fmt.Sprintf("https://source.example/metadata/2026/%07d.rdf", i), Type: "application/rdf+xml",
			}},
		}
	}
	return entries
}

// full is a whole notification, of as many entries as there may be.
func full(tb testing.TB) []byte {
	var doc bytes.Buffer
	w := newWriter(tb, &doc)
	for _, e := range typical(payload.MaxEntries) {
		if err := w.Write(&e); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return doc.Bytes()
}

func BenchmarkAppendEntry(b *testing.B) {
	entries := typical(1)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		doc, err := payload.AppendEntry(buf, &entries[0])
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(doc)))
	}
}

// BenchmarkNotificationWriter writes 50,000 entries a round.
func BenchmarkNotificationWriter(b *testing.B) {
	entries := typical(payload.MaxEntries)
	b.ReportAllocs()
	for b.Loop() {
		w := newWriter(b, io.Discard)
		for i := range entries {
			if err := w.Write(&entries[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	reportEntries(b)
}

func reportEntries(b *testing.B) {
	b.ReportMetric(float64(b.N)*payload.MaxEntries/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkReader(b *testing.B) {
	doc := full(b)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r := payload.NewReader(bytes.NewReader(doc), payload.Limits{})
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
	reportEntries(b)
}

// BenchmarkInspector is BenchmarkReader of a Resource List, with an Inspector beside it.
func BenchmarkInspector(b *testing.B) {
	doc, err := payload.AppendHead(nil, payload.Head{Capability: payload.CapResourceList, At: start, Links: []payload.Link{up}})
	for _, e := range typical(payload.MaxEntries) {
		if e.Change = ""; err == nil {
			doc, err = payload.AppendResource(doc, &e)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	doc = payload.AppendTail(doc, false)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		i := payload.NewInspector(payload.CapResourceList)
		r := payload.NewReader(bytes.NewReader(doc), payload.Limits{})
		h, err := r.Header()
		i.Head(h)
		for err == nil {
			var e payload.Entry
			if e, err = r.Next(); err == nil {
				i.Entry(&e)
			}
		}
		if i.End(h); !errors.Is(err, io.EOF) || len(i.Violations()) > 0 {
			b.Fatal(err, i.Violations())
		}
	}
	reportEntries(b)
}

func BenchmarkValidateNotification(b *testing.B) {
	doc := full(b)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := payload.ValidateNotification(bytes.NewReader(doc)); err != nil {
			b.Fatal(err)
		}
	}
	reportEntries(b)
}

// marshalled is a url element as encoding/xml writes it fastest: the prefix is part
// of the names, so that no namespace is looked up for each element, no field has a
// method, and the datetime was made text beforehand.
type marshalled struct {
	XMLName xml.Name         `xml:"url"`
	Loc     string           `xml:"loc"`
	LastMod string           `xml:"lastmod,omitempty"`
	MD      marshalledMD     `xml:"rs:md"`
	Links   []marshalledLink `xml:"rs:ln"`
}

type marshalledMD struct {
	Change   string `xml:"change,attr"`
	Datetime string `xml:"datetime,attr"`
	Hash     string `xml:"hash,attr,omitempty"`
	Length   string `xml:"length,attr,omitempty"`
	Type     string `xml:"type,attr,omitempty"`
	Encoding string `xml:"encoding,attr,omitempty"`
}

type marshalledLink struct {
	Rel      string `xml:"rel,attr,omitempty"`
	Href     string `xml:"href,attr,omitempty"`
	Hash     string `xml:"hash,attr,omitempty"`
	Length   string `xml:"length,attr,omitempty"`
	Type     string `xml:"type,attr,omitempty"`
	Encoding string `xml:"encoding,attr,omitempty"`
	Modified string `xml:"modified,attr,omitempty"`
	Path     string `xml:"path,attr,omitempty"`
	Pri      string `xml:"pri,attr,omitempty"`
}

func toMarshal(entries []payload.Entry) []marshalled {
	urls := make([]marshalled, len(entries))
	for i := range entries {
		e := &entries[i]
		urls[i] = marshalled{
			Loc: e.Loc, LastMod: e.LastMod,
			MD: marshalledMD{string(e.Change), payload.FormatDatetime(e.Datetime), e.Hash, e.Length, e.Type, e.Encoding},
		}
		for _, l := range e.Links {
			urls[i].Links = append(urls[i].Links, marshalledLink(l))
		}
	}
	return urls
}

// BenchmarkEncodingXMLMarshal is the writer's yardstick: the same entries, one by one, by
// the standard library. It checks nothing, and what goes before and behind the
// entries, the conversion and the formatting of times are not counted.
func BenchmarkEncodingXMLMarshal(b *testing.B) {
	urls := toMarshal(typical(payload.MaxEntries))
	b.ReportAllocs()
	for b.Loop() {
		enc := xml.NewEncoder(io.Discard)
		for i := range urls {
			if err := enc.Encode(&urls[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	reportEntries(b)
}

// The yardstick writes the same entries as the writer.
func TestEncodingXMLMarshalsTheSame(t *testing.T) {
	entries := append(typical(3), museumEntries()[:2]...)
	doc, err := xml.Marshal(toMarshal(entries))
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := readAll(urlset(string(doc)), payload.Limits{})
	if err != nil || !reflect.DeepEqual(got, entries) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, entries)
	}
}

// BenchmarkEncodingXMLTokens is the reader's yardstick: the tokens alone, by the standard library.
func BenchmarkEncodingXMLTokens(b *testing.B) {
	doc := full(b)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		d := xml.NewDecoder(bytes.NewReader(doc))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
	reportEntries(b)
}

func BenchmarkIsNotification(b *testing.B) {
	notification := full(b)
	for name, body := range map[string][]byte{
		"notification": notification,
		"JSON":         bytes.Repeat([]byte(`{"a":1}`), 1<<20),
		"HTML":         append([]byte("<!DOCTYPE html><html>"), bytes.Repeat([]byte("<p>text</p>"), 1<<20)...),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				payload.IsNotification(body)
			}
		})
	}
}

// The writer costs no allocation for an entry.
func TestAppendEntryDoesNotAllocate(t *testing.T) {
	e := museumEntries()[1]
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := payload.AppendEntry(buf, &e); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEntrySize(b *testing.B) {
	entries := typical(1)
	for b.Loop() {
		payload.EntrySize(&entries[0])
	}
}
