package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"carillon/payload"
)

var goalDocuments = atLeast(8, "50,000-entry notification: the writer ÷ encoding/xml marshalling of the same", "×")

// What encoding/xml marshals: the same document as the writer's, by tags.
type (
	urlset struct {
		XMLName xml.Name `xml:"urlset"`
		Space   string   `xml:"xmlns,attr"`
		RS      string   `xml:"xmlns:rs,attr"`
		Up      link     `xml:"rs:ln"`
		MD      head     `xml:"rs:md"`
		URLs    []url    `xml:"url"`
	}
	link struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	}
	head struct {
		Capability string    `xml:"capability,attr"`
		From       time.Time `xml:"from,attr"`
		Until      time.Time `xml:"until,attr"`
	}
	url struct {
		Loc     string `xml:"loc"`
		LastMod string `xml:"lastmod,omitempty"`
		MD      change `xml:"rs:md"`
	}
	change struct {
		Change   string    `xml:"change,attr"`
		Datetime time.Time `xml:"datetime,attr"`
		Hash     string    `xml:"hash,attr,omitempty"`
		Length   string    `xml:"length,attr,omitempty"`
		Type     string    `xml:"type,attr,omitempty"`
	}
)

// document is one notification, in both forms.
type document struct {
	interval payload.Interval
	up       string
	entries  []payload.Entry
	tagged   urlset
}

// newDocument makes entries as most Sources send them.
func newDocument(n int) *document {
	start := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	d := &document{
		interval: payload.Interval{From: start, Until: start.Add(time.Hour)},
		up:       "https://source.example/capabilitylist.xml",
	}
	d.tagged = urlset{
		Space: "http://www.sitemaps.org/schemas/sitemap/0.9", RS: "http://www.openarchives.org/rs/terms/",
		Up: link{"up", d.up}, MD: head{payload.ChangeNotification, d.interval.From, d.interval.Until},
	}
	hash := "md5:" + strings.Repeat("1584abdf", 4) + " sha-256:" + strings.Repeat("854f61290e2e197a", 4)
	for i := range n {
		e := payload.Entry{
			Loc:     fmt.Sprintf("https://source.example/records/2026/%07d?format=xml&version=2", i),
			LastMod: "2026-03-01T08:59:58Z", Change: payload.Updated, Datetime: start.Add(time.Duration(i) * time.Microsecond),
			Hash: hash, Length: "14599", Type: "application/xml",
		}
		d.entries = append(d.entries, e)
		d.tagged.URLs = append(d.tagged.URLs, url{e.Loc, e.LastMod, change{string(e.Change), e.Datetime, e.Hash, e.Length, e.Type}})
	}
	return d
}

// write writes it with the writer that the notifier uses.
func (d *document) write(w io.Writer) error {
	n, err := payload.NewNotificationWriter(w, d.interval, d.up)
	if err != nil {
		return err
	}
	for i := range d.entries {
		if err := n.Write(&d.entries[i]); err != nil {
			return err
		}
	}
	return n.Close()
}

// marshal writes the same with encoding/xml.
func (d *document) marshal(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	return xml.NewEncoder(w).Encode(&d.tagged)
}

// documentRounds is how often each writes the document.
const documentRounds = 7

// documents compares the writer of notifications with encoding/xml.
func documents(_ context.Context, e *env) error {
	d := newDocument(e.plan.entries)
	type times struct{ writer, standard time.Duration }
	var rounds []times
	for range documentRounds {
		var t times
		begin := time.Now()
		err := d.write(io.Discard)
		t.writer = time.Since(begin)
		begin = time.Now()
		err = errors.Join(err, d.marshal(io.Discard))
		t.standard = time.Since(begin)
		if err != nil {
			return err
		}
		rounds = append(rounds, t)
	}
	ratio := median(rounds, func(t times) float64 { return float64(t.standard) / float64(t.writer) })
	e.report.section("Writing notifications")
	e.report.note("%d entries, %d rounds, medians.", e.plan.entries, documentRounds)
	row := func(name string, of func(times) time.Duration) []string {
		took := median(rounds, func(t times) float64 { return float64(of(t)) })
		return []string{name, ms(took / 1e6), fmt.Sprintf("%.0f", float64(e.plan.entries)/took*1e9)}
	}
	e.report.table([]string{"", "a notification", "entries/s"}, [][]string{
		row("the writer", func(t times) time.Duration { return t.writer }),
		row("encoding/xml", func(t times) time.Duration { return t.standard }),
		{"the writer is faster by", fmt.Sprintf("%.1f×", ratio), ""},
	})
	e.report.put(goalDocuments, noEngine, ratio)
	return nil
}
