package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"carillon/payload"
)

var (
	goalLists       = atLeast(4, "50,000-entry Change List and Resource List, the slower: payload.Reader ÷ encoding/xml Unmarshal of the same", "×")
	goalListsMemory = atMost(2, "peak memory of payload.Reader while it reads 500,000 entries − while it reads 50,000", " MB")
)

// The roles of the processes that read a list.
const (
	roleReader    = "payload.Reader"
	roleInspected = "payload.Reader and Inspector"
	roleUnmarshal = "encoding/xml Unmarshal"
)

var listReaders = []string{roleReader, roleInspected, roleUnmarshal}

// lists compares reading lists, entry by entry, with what encoding/xml does: to
// have the whole document in memory, and then all of its entries.
func lists(ctx context.Context, e *env) error {
	e.report.section("Reading lists")
	e.report.note("Each reading is the first and only one of a process of its own, which reads a file; %d rounds, medians. "+
		"Peak memory is what the process had resident at most, beyond what it had when the reading began. "+
		"Go collects nothing before there are 4 MB, which the smallest lists do not come to: whether memory grows the other two tell. "+
		"The largest is beyond what one document may have, and is read with other limits.", e.plan.listRounds)
	var rows [][]string
	slowest, grown := 0.0, 0.0
	for _, capability := range []string{payload.CapChangeList, payload.CapResourceList} {
		got := map[int]map[string]listFigures{}
		whole, large := e.plan.entries, 10*e.plan.entries
		for _, n := range []int{whole / 10, whole, large} {
			var err error
			if got[n], err = e.readList(ctx, capability, n, n < large); err != nil {
				return fmt.Errorf("%s of %d: %w", capability, n, err)
			}
			for _, role := range listReaders {
				if r, ok := got[n][role]; ok {
					rows = append(rows, r.row(fmt.Sprintf("%s, %d", capability, n), role, got[n][roleUnmarshal].rate))
				}
			}
		}
		ratio := got[whole][roleReader].rate / got[whole][roleUnmarshal].rate
		if slowest == 0 || ratio < slowest {
			slowest = ratio
		}
		grown = max(grown, got[large][roleReader].beyond-got[whole][roleReader].beyond)
	}
	e.report.table([]string{"entries", "", "entries/s", "÷ Unmarshal", "peak memory", "of the whole process"}, rows)
	e.report.put(goalLists, noEngine, slowest)
	e.report.put(goalListsMemory, noEngine, grown)
	return nil
}

// listFigures are the medians of one contestant: entries a second, and MB.
type listFigures struct{ rate, beyond, peak float64 }

func (f listFigures) row(what, role string, unmarshal float64) []string {
	ratio := ""
	if unmarshal > 0 {
		ratio = fmt.Sprintf("%.2f", f.rate/unmarshal)
	}
	return []string{what, role, fmt.Sprintf("%.0f", f.rate), ratio, fmt.Sprintf("%.1f MB", f.beyond), fmt.Sprintf("%.1f MB", f.peak)}
}

// readList has the contestants read a list of n entries; Unmarshal only if wanted.
func (e *env) readList(ctx context.Context, capability string, n int, all bool) (map[string]listFigures, error) {
	file := filepath.Join(e.dir, fmt.Sprintf("%s-%d.xml", capability, n))
	if err := writeList(file, capability, n); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	roles := listReaders
	if !all {
		roles = listReaders[:2]
	}
	readings := map[string][]reading{}
	for round := range e.plan.listRounds {
		for i := range roles { // every round begins with another one
			role := roles[(round+i)%len(roles)]
			r, err := readApart(ctx, role, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", role, err)
			}
			if r.Entries != n {
				return nil, fmt.Errorf("%s found %d entries", role, r.Entries)
			}
			readings[role] = append(readings[role], r)
		}
	}
	figures := map[string]listFigures{}
	for role, of := range readings {
		figures[role] = listFigures{
			rate:   median(of, func(r reading) float64 { return float64(r.Entries) / r.Wall.Seconds() }),
			beyond: median(of, func(r reading) float64 { return float64(r.Peak-r.Before) / 1e6 }),
			peak:   median(of, func(r reading) float64 { return float64(r.Peak) / 1e6 }),
		}
	}
	return figures, nil
}

// writeList writes a Change List or a Resource List of entries as most Sources have them.
func writeList(file, capability string, n int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = errors.Join(list(w, capability, newDocument(n)), w.Flush())
	return errors.Join(err, f.Close())
}

func list(w io.Writer, capability string, d *document) error {
	h := payload.Head{Capability: capability, Links: []payload.Link{{Rel: "up", Href: d.up}}}
	write := payload.AppendEntry
	if capability == payload.CapChangeList {
		h.From, h.Until = d.interval.From, d.interval.Until
	} else {
		h.At, h.Completed = d.interval.From, d.interval.Until
		write = payload.AppendResource
	}
	buf, err := payload.AppendHead(nil, h)
	for _, e := range d.entries {
		if h.From.IsZero() {
			e.Change = ""
		}
		if err == nil {
			_, err = w.Write(buf)
		}
		if err != nil {
			return err
		}
		buf, err = write(buf[:0], &e)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(payload.AppendTail(buf, false))
	return err
}

// reading is what one process needed to read one list.
type reading struct {
	Entries int
	Wall    time.Duration
	// Before and Peak are the most bytes that were resident, until the reading
	// began and until it ended; 0 where the system does not tell.
	Before, Peak int64
}

// readApart reads a list in a process of its own.
func readApart(ctx context.Context, role, file string) (r reading, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", role, "-target", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// read is what that process does.
func (c child) read(stdout io.Writer, contestant func(io.Reader) (int, error)) error {
	f, err := os.Open(c.target)
	if err != nil {
		return err
	}
	defer f.Close()
	r := reading{Before: process("self").memory("VmHWM")}
	begin := time.Now()
	if r.Entries, err = contestant(f); err != nil {
		return err
	}
	r.Wall, r.Peak = time.Since(begin), process("self").memory("VmHWM")
	return json.NewEncoder(stdout).Encode(r)
}

// readEntries reads as a Destination does.
func readEntries(r io.Reader) (n int, err error) {
	return readAll(r, nil)
}

// inspectEntries also notes what is odd.
func inspectEntries(r io.Reader) (n int, err error) {
	i := payload.NewInspector("")
	if n, err = readAll(r, i); err == nil && len(i.Violations()) > 0 {
		err = fmt.Errorf("odd: %v", i.Violations())
	}
	return n, err
}

func readAll(r io.Reader, i *payload.Inspector) (n int, err error) {
	reader := payload.NewReader(r, payload.Limits{Bytes: 1 << 40, Entries: 1 << 30})
	h, err := reader.Header()
	if i != nil {
		i.Head(h)
	}
	for err == nil {
		var e payload.Entry
		if e, err = reader.Next(); err != nil {
			break
		}
		if e.Loc == "" {
			return n, errors.New("an entry without loc")
		}
		if i != nil {
			i.Entry(&e)
		}
		n++
	}
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if h, err = reader.Header(); i != nil {
		i.End(h)
	}
	return n, err
}

// What encoding/xml unmarshals: as much of a list as payload.Reader gives.
type (
	readSet struct {
		XMLName xml.Name   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		MD      readMD     `xml:"http://www.openarchives.org/rs/terms/ md"`
		Links   []readLink `xml:"http://www.openarchives.org/rs/terms/ ln"`
		URLs    []readURL  `xml:"url"`
	}
	readURL struct {
		Loc     string     `xml:"loc"`
		LastMod string     `xml:"lastmod"`
		MD      readMD     `xml:"http://www.openarchives.org/rs/terms/ md"`
		Links   []readLink `xml:"http://www.openarchives.org/rs/terms/ ln"`
	}
	readMD struct {
		Capability string    `xml:"capability,attr"`
		Change     string    `xml:"change,attr"`
		Datetime   time.Time `xml:"datetime,attr"`
		From       string    `xml:"from,attr"`
		Until      string    `xml:"until,attr"`
		At         string    `xml:"at,attr"`
		Completed  string    `xml:"completed,attr"`
		Hash       string    `xml:"hash,attr"`
		Length     string    `xml:"length,attr"`
		Type       string    `xml:"type,attr"`
		Encoding   string    `xml:"encoding,attr"`
	}
	readLink struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	}
)

// unmarshalEntries is the yardstick.
func unmarshalEntries(r io.Reader) (int, error) {
	set, err := unmarshal(r)
	return len(set.URLs), err
}

func unmarshal(r io.Reader) (set readSet, err error) {
	doc, err := io.ReadAll(r)
	if err != nil {
		return set, err
	}
	return set, xml.Unmarshal(doc, &set)
}
