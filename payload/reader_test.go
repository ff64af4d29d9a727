package payload_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"carillon/payload"
)

// urlset is a document with the two usual namespaces around what is given.
func urlset(inner string) string {
	return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		inner + `</urlset>`
}

func TestReadNotification(t *testing.T) {
	h, entries, err := readAll(string(document(t, "changenotification.xml")), payload.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := payload.Header{
		Root: payload.RootURLSet, Capability: payload.ChangeNotification,
		From: "2026-03-01T09:00:00.000000Z", FromTime: museum.From,
		Until: "2026-03-01T09:00:01.000000Z", UntilTime: museum.Until,
		Links: []payload.Link{{Rel: "up", Href: museumUp}}, Line: 2,
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("head: got %+v", h)
	}
	if !reflect.DeepEqual(entries, museumEntries()) {
		t.Errorf("got %+v", entries)
	}
}

// What Sources send within and beside the rules is read.
func TestReadForeignNotification(t *testing.T) {
	h, entries, err := readAll(string(document(t, "foreign-notification.xml")), payload.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if h.Capability != payload.ChangeNotification || h.From != "2026-03-01T10:00:00+01:00" || !h.FromTime.Equal(start) ||
		len(h.Links) != 1 || h.Links[0].Href != "https://vendor.example/capabilitylist.xml" {
		t.Errorf("head: got %+v", h)
	}
	want := []payload.Entry{
		{Loc: "https://vendor.example/a?x=1&y=2&z=3", LastMod: "2026-02", Change: payload.Created},
		{
			Loc: "https://vendor.example/b", Change: payload.Updated, Datetime: start.Add(30 * time.Minute), Length: "12",
			Hash: "md5:1e0d5cb8ef6ba40c99b14c0237be735e " + sha256,
		},
		{Loc: "https://vendor.example/c", Change: payload.Deleted, Datetime: start.Add(time.Hour), DatetimeTold: "2026-03-01T11:00:00+01:00"},
	}
	if !reflect.DeepEqual(entries, want) {
		t.Errorf("got %+v", entries)
	}
}

func TestReadIndex(t *testing.T) {
	h, entries, err := readAll(string(document(t, "changelist-index.xml")), payload.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if h.Root != payload.RootSitemapIndex || h.Capability != "changelist" || h.From != "2026-01-01T00:00:00Z" || h.Until != "" {
		t.Errorf("head: got %+v", h)
	}
	want := []payload.Entry{
		{
			Loc: "https://source.example/museum/changelist-1.xml", LastMod: "2026-02-01T00:00:00Z",
			From: "2026-01-01T00:00:00Z", Until: "2026-02-01T00:00:00Z",
		},
		{Loc: "https://source.example/museum/changelist-2.xml", From: "2026-02-01T00:00:00Z"},
	}
	if !reflect.DeepEqual(entries, want) {
		t.Errorf("got %+v", entries)
	}
}

// A head that comes after the entries is not there before them, and is complete
// at the end.
func TestReadLateHead(t *testing.T) {
	r := payload.NewReader(bytes.NewReader(document(t, "resourcelist-late-head.xml")), payload.Limits{})
	if h, err := r.Header(); err != nil || !reflect.DeepEqual(h, payload.Header{Root: payload.RootURLSet, Line: 2}) {
		t.Errorf("before the entry: %+v, %v", h, err)
	}
	if e, err := r.Next(); err != nil || e.Hash != "sha-256:f4OxZX_x_DFGFDgghgdfb6rtSx-iosjf6735432nklj" {
		t.Errorf("entry: %+v, %v", e, err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want := payload.Header{
		Root: payload.RootURLSet, Capability: "resourcelist",
		At: "2026-01-01", AtTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Completed: "soon",
		Links: []payload.Link{{Rel: "up", Href: "/capabilitylist.xml"}}, Line: 2,
	}
	if h, err := r.Header(); err != nil || !reflect.DeepEqual(payload.Plain(h), want) {
		t.Errorf("at the end: %+v, %v", h, err)
	}
}

func TestReadTolerantly(t *testing.T) {
	for name, tt := range map[string]struct {
		inner string
		want  []payload.Entry
	}{
		"no entries":           {``, nil},
		"nothing in an entry":  {`<url/>`, []payload.Entry{{}}},
		"attributes on url":    {`<url a="1"><loc>u</loc></url>`, []payload.Entry{{Loc: "u"}}},
		"unknown change":       {`<url><rs:md change="moved"/></url>`, []payload.Entry{{Change: "moved"}}},
		"unreadable datetime":  {`<url><rs:md datetime="now" length="big"/></url>`, []payload.Entry{{DatetimeTold: "now", Length: "big"}}},
		"first of several":     {`<url><loc>1</loc><loc>2</loc><rs:md type="1"/><rs:md type="2"/></url>`, []payload.Entry{{Loc: "1", Type: "1"}}},
		"empty loc then a loc": {`<url><loc> </loc><loc>2</loc></url>`, []payload.Entry{{Loc: "2"}}},
		"loc split":            {`<url><loc>a<!-- x -->b<?y z?>&amp;c</loc></url>`, []payload.Entry{{Loc: "ab&c"}}},
		"element inside loc":   {`<url><loc>a<x>no</x>b</loc></url>`, []payload.Entry{{Loc: "ab"}}},
		"other namespace":      {`<url><loc xmlns="u">no</loc><rs:loc>no</rs:loc><loc>yes</loc></url>`, []payload.Entry{{Loc: "yes"}}},
		"prefixed attributes":  {`<url xmlns:x="u"><rs:md rs:type="a" x:length="1"/></url>`, []payload.Entry{{Type: "a"}}},
		"date as datetime": {
			`<url><rs:md datetime="2026-03-01"/></url>`,
			[]payload.Entry{{Datetime: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), DatetimeTold: "2026-03-01"}},
		},
		"unordered": {
			`<url><rs:md datetime="2026-03-02T00:00:00Z"/></url><url><rs:md datetime="2026-03-01T00:00:00Z"/></url>`,
			[]payload.Entry{
				{Datetime: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)},
				{Datetime: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
			},
		},
		"link of any kind": {
			`<url><rs:ln/><rs:ln rel="a b" href="../x" path="x" pri="0" hash="a:1&#10;&#9;b:2"/></url>`,
			[]payload.Entry{{Links: []payload.Link{{}, {Rel: "a b", Href: "../x", Path: "x", Pri: "0", Hash: "a:1 b:2"}}}},
		},
		"entry deeper down": {`<x:a xmlns:x="u"><url><loc>no</loc></url></x:a><url><loc>yes</loc></url>`, []payload.Entry{{Loc: "yes"}}},
		"text between":      {`a<url>b<loc>1</loc>c</url>d`, []payload.Entry{{Loc: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, entries, err := readAll(urlset(tt.inner), payload.Limits{})
			if err != nil || !reflect.DeepEqual(entries, tt.want) {
				t.Errorf("got %+v, %v", entries, err)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	lim := payload.Limits{Bytes: 10_000, Entries: 2, EntryBytes: 1000, Depth: 5}
	for name, tt := range map[string]struct {
		doc  string
		want error
	}{
		"HTML":             {"<html/>", payload.ErrNotResourceSync},
		"no namespace":     {"<urlset/>", payload.ErrNotResourceSync},
		"other namespace":  {`<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"/>`, payload.ErrNotResourceSync},
		"url as root":      {`<url xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`, payload.ErrNotResourceSync},
		"JSON":             {"{}", payload.ErrSyntax},
		"nothing":          {"", payload.ErrSyntax},
		"cut off":          {strings.TrimSuffix(urlset(""), ">"), payload.ErrSyntax},
		"cut off in head":  {strings.TrimSuffix(urlset("<rs:md/>"), "</urlset>"), payload.ErrSyntax},
		"cut off in entry": {strings.TrimSuffix(urlset("<url><loc>"), "</urlset>"), payload.ErrSyntax},
		"broken after":     {urlset("<url/>") + "<a/>", payload.ErrSyntax},
		"doctype":          {"<!DOCTYPE urlset [<!ENTITY a 'b'>]>" + urlset("<url><loc>&a;</loc></url>"), payload.ErrDoctype},
		"Latin-1":          {`<?xml version="1.0" encoding="latin1"?>` + urlset(""), payload.ErrEncoding},
		"three entries":    {urlset("<url/><url/><url/>"), payload.ErrTooManyEntries},
		"deep":             {urlset("<url><loc><a><b><c/></b></a></loc></url>"), payload.ErrTooDeep},
		"deep in the head": {urlset("<rs:md><a><b><c><d/></c></b></a></rs:md>"), payload.ErrTooDeep},
		"large document":   {urlset(strings.Repeat(" <!-- -->", 1200)), payload.ErrTooLarge},
		"large loc":        {urlset("<url><loc>" + strings.Repeat("a<!-- -->", 1001) + "</loc></url>"), payload.ErrTooLarge},
		"large tag":        {urlset(`<url><rs:md type="` + strings.Repeat("a", 1000) + `"/></url>`), payload.ErrTooLarge},
		"large links":      {urlset(`<url>` + strings.Repeat(`<rs:ln href="`+strings.Repeat("a", 400)+`"/>`, 3) + `</url>`), payload.ErrTooLarge},
		"large md": {urlset(
			`<url><rs:md type="` + strings.Repeat("a", 600) + `"/><lastmod>` + strings.Repeat("a", 600) + `</lastmod></url>`,
		), payload.ErrTooLarge},
		"large head": {urlset(strings.Repeat(`<rs:ln href="`+strings.Repeat("a", 400)+`"/>`, 3)), payload.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := readAll(tt.doc, lim); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestReadLinksAreBounded(t *testing.T) {
	for n, want := range map[int]error{payload.MaxLinks: nil, payload.MaxLinks + 1: payload.ErrTooLarge} {
		links := strings.Repeat(`<rs:ln/>`, n)
		for _, inner := range []string{links, "<url>" + links + "</url>"} {
			if _, _, err := readAll(urlset(inner), payload.Limits{}); !errors.Is(err, want) {
				t.Errorf("%d links: got %v, want %v", n, err, want)
			}
		}
	}
}

func TestReadErrorsAreFinal(t *testing.T) {
	r := payload.NewReader(strings.NewReader(urlset("<url/><url></loc>")), payload.Limits{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, payload.ErrSyntax) {
			t.Errorf("Next: %v", err)
		}
	}
	if _, err := r.Header(); !errors.Is(err, payload.ErrSyntax) {
		t.Errorf("Header: %v", err)
	}
}

func TestReadPassesOnTrouble(t *testing.T) {
	r := payload.NewReader(io.MultiReader(strings.NewReader("<urlset "), iotest.ErrReader(io.ErrClosedPipe)), payload.Limits{})
	if _, err := r.Header(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// An entry does not change when the next one is read.
func TestEntriesAreKept(t *testing.T) {
	_, entries, err := readAll(urlset(`<url><loc>first</loc><rs:ln rel="1"/></url><url><loc>other</loc><rs:ln rel="2"/></url>`), payload.Limits{})
	if err != nil || entries[0].Loc != "first" || entries[0].Links[0].Rel != "1" {
		t.Errorf("got %+v, %v", entries, err)
	}
}
