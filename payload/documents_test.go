package payload_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// document reads one of the example documents.
func document(t testing.TB, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "testdata", "documents", name))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// The interval and the entries of changenotification.xml.
var museum = payload.Interval{From: start, Until: start.Add(time.Second)}

const museumUp = "https://source.example/museum/capabilitylist.xml"

func museumEntries() []payload.Entry {
	return []payload.Entry{
		{
			Loc: "https://source.example/objects/bell-1547", LastMod: "2026-03-01T08:59:58Z",
			Change: payload.Created, Datetime: start,
			Hash: md5 + " " + sha256, Length: "8876", Type: "application/pdf",
		},
		{
			Loc:    "https://source.example/objets/cloche-été?a=1&b=2#é",
			Change: payload.Updated, Datetime: start.Add(250 * time.Millisecond),
			Length: "0", Type: `text/html; charset="utf-8"`, Encoding: "gzip",
			Links: []payload.Link{
				{Rel: "describedby", Href: "urn:isbn:0451450523", Modified: "2026-02-01T00:00:00Z", Type: "application/rdf+xml"},
				{
					Rel: "duplicate", Href: "https://mirror.example/objets/cloche", Hash: "sha-1:1e0d5cb8ef6ba40c99b14c0237be735e854f6129",
					Length: "14599", Encoding: "gzip", Pri: "1",
				},
				{
					Rel: "http://www.openarchives.org/rs/terms/patch", Href: "https://source.example/objets/cloche.patch",
					Type: "application/json-patch+json",
				},
			},
		},
		{
			Loc:    "https://source.example/objects/bell-1548",
			Change: payload.Deleted, Datetime: start.Add(999_999 * time.Microsecond),
		},
	}
}

func TestNotificationAsWritten(t *testing.T) {
	want := document(t, "changenotification.xml")
	var got bytes.Buffer
	w, err := payload.NewNotificationWriter(&got, museum, museumUp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range museumEntries() {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

// A document put together from its parts is the same, and as long as was said.
func TestNotificationFromParts(t *testing.T) {
	want := document(t, "changenotification.xml")
	doc, err := payload.AppendNotificationHead(nil, museum, museumUp)
	if err != nil {
		t.Fatal(err)
	}
	size := payload.NotificationOverhead(museum, museumUp)
	for _, e := range museumEntries() {
		before := len(doc)
		if doc, err = payload.AppendEntry(doc, &e); err != nil {
			t.Fatal(err)
		}
		size += len(doc) - before
	}
	doc = payload.AppendNotificationTail(doc)
	if string(doc) != string(want) || len(doc) != size {
		t.Errorf("%d bytes, announced %d:\n%s", len(doc), size, doc)
	}
}

func TestCapabilityListAsWritten(t *testing.T) {
	var got bytes.Buffer
	if err := payload.WriteCapabilityList(&got, museumCapabilities()); err != nil {
		t.Fatal(err)
	}
	if want := document(t, "capabilitylist.xml"); got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

func museumCapabilities() payload.CapabilityList {
	return payload.CapabilityList{
		Up:          "https://source.example/.well-known/resourcesync",
		DescribedBy: "https://source.example/museum/about.html",
		Capabilities: []payload.Capability{
			{Loc: "https://source.example/museum/changelist.xml", Capability: "changelist"},
			{
				Loc: "https://source.example/museum/change/", Capability: payload.ChangeNotification,
				Links: []payload.Link{{Rel: "hub", Href: "https://hub.example/websub/"}},
			},
		},
	}
}

func TestSourceDescriptionAsWritten(t *testing.T) {
	var got bytes.Buffer
	if err := payload.WriteSourceDescription(&got, sourceDescription()); err != nil {
		t.Fatal(err)
	}
	if want := document(t, "description.xml"); got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

func sourceDescription() payload.SourceDescription {
	return payload.SourceDescription{
		DescribedBy: "https://source.example/about.html",
		CapabilityLists: []payload.CapabilityListRef{
			{Loc: "https://source.example/museum/capabilitylist.xml", DescribedBy: "https://source.example/museum/about.html"},
			{Loc: "https://source.example/archive/capabilitylist.xml"},
		},
	}
}

func TestDiscoveryDocumentsRefused(t *testing.T) {
	for field, spoil := range map[string]func(*payload.CapabilityList){
		"up":                         func(l *payload.CapabilityList) { l.Up = "" },
		"describedBy":                func(l *payload.CapabilityList) { l.DescribedBy = "about.html" },
		"capabilities[0].loc":        func(l *payload.CapabilityList) { l.Capabilities[0].Loc = "/changelist.xml" },
		"capabilities[0].capability": func(l *payload.CapabilityList) { l.Capabilities[0].Capability = "" },
		"capabilities[1].capability": func(l *payload.CapabilityList) { l.Capabilities[0].Capability, l.Capabilities[1].Capability = "x", "x" },
		"capabilities[1].ln":         func(l *payload.CapabilityList) { l.Capabilities[1].Links[0].Rel = "up" },
		"capabilities[1].ln[0].href": func(l *payload.CapabilityList) { l.Capabilities[1].Links[0].Href = "/hub" },
	} {
		list := museumCapabilities()
		spoil(&list)
		var got bytes.Buffer
		wantFieldError(t, payload.WriteCapabilityList(&got, list), field)
		if got.Len() > 0 {
			t.Errorf("%s: wrote %q", field, got.String())
		}
	}
	for field, spoil := range map[string]func(*payload.SourceDescription){
		"describedBy":                    func(d *payload.SourceDescription) { d.DescribedBy = "a b" },
		"capabilityLists[1].loc":         func(d *payload.SourceDescription) { d.CapabilityLists[1].Loc = "" },
		"capabilityLists[0].describedBy": func(d *payload.SourceDescription) { d.CapabilityLists[0].DescribedBy = "x" },
	} {
		d := sourceDescription()
		spoil(&d)
		var got bytes.Buffer
		wantFieldError(t, payload.WriteSourceDescription(&got, d), field)
		if got.Len() > 0 {
			t.Errorf("%s: wrote %q", field, got.String())
		}
	}
}

func wantFieldError(t *testing.T, err error, field string) {
	t.Helper()
	var fe *payload.FieldError
	if !errors.As(err, &fe) || fe.Field != field {
		t.Errorf("%s: got %v", field, err)
	}
}

func TestDiscoveryDocumentsPassOnTrouble(t *testing.T) {
	if err := payload.WriteCapabilityList(brokenPipe{}, museumCapabilities()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Capability List: %v", err)
	}
	if err := payload.WriteSourceDescription(brokenPipe{}, sourceDescription()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Source Description: %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A Destination finds the channel and its hub in what the Source wrote.
func TestChannelIsFound(t *testing.T) {
	r := payload.NewReader(bytes.NewReader(document(t, "capabilitylist.xml")), payload.Limits{})
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatalf("no channel: %v", err)
		}
		if e.Capability != payload.ChangeNotification {
			continue
		}
		hub := payload.Link{Rel: "hub", Href: "https://hub.example/websub/"}
		if e.Loc != "https://source.example/museum/change/" || len(e.Links) != 1 || e.Links[0] != hub {
			t.Errorf("got %+v", e)
		}
		return
	}
}

// unlined is an entry without its line, in its first form.
func unlined(e payload.Entry) payload.Entry {
	e.Line = 0
	return e
}

// readAll reads a whole document; the entries are without their lines.
func readAll(doc string, lim payload.Limits) (payload.Header, []payload.Entry, error) {
	r := payload.NewReader(strings.NewReader(doc), lim)
	var entries []payload.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			h, err := r.Header()
			return h, entries, err
		}
		if err != nil {
			return payload.Header{}, entries, err
		}
		entries = append(entries, unlined(e))
	}
}
