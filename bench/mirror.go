package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	source "carillon/destination/lists"
	"carillon/payload"
)

var (
	goalMirror = atLeast(0.5, "mirror: destination baseline by GET ÷ a bare loop that gets and writes files", "×")
	goalDumpOr = atLeast(5, "dump: 100,000 files of 2 kB: destination baseline by a dump ÷ --dump never", "×")
	goalUnpack = atLeast(
		0.5,
		"dump: destination baseline by a dump ÷ a bare loop that downloads, unpacks, hashes and writes files",
		"×",
	)
	goalPack = atLeast(0.7, "dump: notifier dump ÷ a bare loop that reads, hashes and packs as densely", "×")
)

const (
	perDirectory = 1000
	fileBytes    = 2000
	// mirrorWithin bounds the wait for a Source that scans its files.
	mirrorWithin = 15 * time.Minute
)

// mirror has a directory be a Source with a dump, and copies it by GETs and by the dump, with the
// programs as they come, beside bare loops.
func mirror(ctx context.Context, e *env) error {
	m := &mirroring{env: e, dir: filepath.Join(e.dir, "mirror")}
	defer m.end()
	if err := m.source(ctx); err != nil {
		return err
	}
	e.report.section("Baselines by GET and by dump")
	e.report.note("%d files of %d bytes of text, that a notifier watches and serves; %d fetched at a time, of one host. "+
		"The Source, its hub and the process that is measured share the cores of this machine. The page cache stays warm.",
		e.plan.mirrored, fileBytes, fetches)
	e.report.note("The loop that packs reads each file, takes its SHA-256, and writes it into ZIPs. They have at most %d entries each, "+
		"by archive/zip and the DEFLATE of klauspost/compress at level %d. The loop that unpacks gets each package into a file "+
		"and reads that by archive/zip. It takes the SHA-256 of each entry and writes it to a file of its own. These two are one goroutine each. "+
		"No loop has a manifest, compares hashes, syncs files or remembers anything.", perPackage, loopLevel)
	packages, err := m.packages(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	rates := map[string]float64{}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"bare loop packs", func() error { return packAll(m.watched(), m.dir) }},
		{"notifier dump", func() error { return m.command(ctx, "notifier", "dump", set, "--intake", m.intake) }},
		{"bare loop gets and writes files", func() error {
			return getAll(ctx, m.site+set+"/files/", filepath.Join(m.dir, "bare"), m.plan.mirrored)
		}},
		{"bare loop downloads, unpacks, hashes and writes files", func() error {
			n, err := unpackAll(ctx, packages, m.dir, filepath.Join(m.dir, "unpacked"))
			if err == nil && n != m.plan.mirrored+len(packages) { // each has a manifest
				err = fmt.Errorf("%d packages have %d entries; %d files were dumped", len(packages), n, m.plan.mirrored)
			}
			return err
		}},
		{"destination baseline --dump auto", func() error { return m.baseline(ctx, "auto") }},
		{"destination baseline --dump never", func() error { return m.baseline(ctx, "never") }},
	} {
		e.log("%s", c.name)
		begin := time.Now()
		if err := c.do(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		took := time.Since(begin).Seconds()
		rates[c.name] = float64(m.plan.mirrored) / took
		rows = append(rows, cells("%s|%.0f|%.1f s", c.name, rates[c.name], took))
	}
	e.report.table(cells("|files/s|in all"), rows)
	byDump, byGet := rates["destination baseline --dump auto"], rates["destination baseline --dump never"]
	e.report.put(goalMirror, noEngine, byGet/rates["bare loop gets and writes files"])
	e.report.put(goalDumpOr, noEngine, byDump/byGet)
	e.report.put(goalUnpack, noEngine, byDump/rates["bare loop downloads, unpacks, hashes and writes files"])
	e.report.put(goalPack, noEngine, rates["notifier dump"]/rates["bare loop packs"])
	return nil
}

// mirroring is the Source and its mirrors.
type mirroring struct {
	*env
	dir    string
	site   string // of the notifier
	intake string
	stops  []func() // of processes
}

// set is the Source's set of resources.
const set = "files"

func (m *mirroring) end() {
	for i := len(m.stops) - 1; i >= 0; i-- {
		m.stops[i]()
	}
}

func (m *mirroring) watched() string { return filepath.Join(m.dir, "watched") }

// source makes the files, and starts a hub and their notifier. It returns when that has a dump of all
// files; it makes the first by itself, unmeasured.
func (m *mirroring) source(ctx context.Context) error {
	for i := range m.plan.mirrored {
		if err := writeFile(filepath.Join(m.watched(), file(i)), textOf(i, fileBytes)); err != nil {
			return err
		}
	}
	for _, program := range []string{"notifier", "destination"} {
		if _, err := build(ctx, m.env.dir, program); err != nil {
			return err
		}
	}
	hub, err := m.serve(ctx, "hub", "--admin", "127.0.0.1:0", "--store", "pebble:"+filepath.Join(m.dir, "hub"))
	if err != nil {
		return err
	}
	notifier, err := m.serve(ctx, "notifier", "--intake", "127.0.0.1:0", "--hub", hub.field("url"),
		"--data", filepath.Join(m.dir, "notifier"), "--watch-settle", "100ms",
		"--watch", set+"="+m.watched(), "--serve", set, "--dump", set)
	if err != nil {
		return err
	}
	m.site, m.intake = notifier.field("url"), notifier.field("intake")
	last := m.site + set + "/files/" + file(m.plan.mirrored-1)
	m.log("waiting for the scan of the files, and for the first dump, which comes 10s after")
	err = until(ctx, mirrorWithin, 50*time.Millisecond, func() (bool, error) {
		for _, list := range []string{"resourcelist.xml", "changelist.xml"} {
			if listed, err := lists(ctx, m.site+set+"/"+list, last); err == nil && listed {
				_, err := get(ctx, m.site+set+"/resourcedump.xml")
				return err == nil, nil // it does not exist yet
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("the Source does not list %s, or has no dump: %w", last, err)
	}
	return nil
}

// serve starts a program that serves until the end of the scenario.
func (m *mirroring) serve(ctx context.Context, name string, args ...string) (*program, error) {
	args = append([]string{"--listen", "127.0.0.1:0", "--log-level", "error"}, args...)
	p, err := launch(exec.CommandContext(ctx, filepath.Join(m.env.dir, name), args...))
	if err == nil {
		m.stops = append(m.stops, p.stop)
	}
	return p, err
}

// lists reports whether a list, or one that an index leads to, has a resource.
func lists(ctx context.Context, url, loc string) (bool, error) {
	text, err := get(ctx, url)
	if err != nil {
		return false, err
	}
	r := payload.NewReader(bytes.NewReader(text), payload.Limits{})
	head, err := r.Header()
	if err != nil {
		return false, err
	}
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		found := err == nil && entry.Loc == loc
		if err == nil && head.Root == payload.RootSitemapIndex {
			found, err = lists(ctx, entry.Loc, loc)
		}
		if found || err != nil {
			return found, err
		}
	}
}

// packages reads the Resource Dump.
func (m *mirroring) packages(ctx context.Context) (all []string, err error) {
	c, err := source.New(source.Config{})
	if err != nil {
		return nil, err
	}
	_, err = c.ResourceDump(ctx, m.site+set+"/resourcedump.xml", func(p source.Package) error {
		all = append(all, p.URI)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the Resource Dump has no package")
	}
	return all, err
}

func (m *mirroring) command(ctx context.Context, program string, args ...string) error {
	return finish(ctx, nil, filepath.Join(m.env.dir, program), append(args, "--log-level", "error")...)
}

// baseline fills a mirror, and checks that it has all files.
func (m *mirroring) baseline(ctx context.Context, dump string) error {
	copies := filepath.Join(m.dir, "mirror-"+dump)
	err := m.command(ctx, "destination", "baseline", "--dump", dump, "--source", m.site,
		"--topic", m.site+set+"/change/", "--mirror", copies, "--data", filepath.Join(m.dir, "data-"+dump),
		"--per-host", fmt.Sprint(fetches))
	if err != nil {
		return err
	}
	got := 0
	err = filepath.WalkDir(copies, func(_ string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // the mirror's own
		case err == nil && !entry.IsDir():
			got++
		}
		return err
	})
	if err == nil && got != m.plan.mirrored {
		err = fmt.Errorf("the mirror has %d files; the Source has %d", got, m.plan.mirrored)
	}
	return err
}
