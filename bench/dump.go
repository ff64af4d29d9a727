package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	source "carillon/destination/lists"
)

var (
	goalDumpOrGets = atLeast(5, "dump: 100,000 files of 2 kB: destination baseline by a dump ÷ --dump never", "×")
	goalDumpLoop   = atLeast(0.5, "dump: destination baseline by a dump ÷ a bare loop that downloads, unpacks, hashes and writes files", "×")
	goalDumpHashes = atLeast(0.5, "dump: destination baseline by a dump ÷ a bare loop that downloads, unpacks and hashes, and writes no file", "×")
	goalDumpMade   = atLeast(0.7, "dump: notifier dump ÷ a bare loop that reads, hashes and packs as densely", "×")
	goalDumpMemory = atMost(64, "dump: packages of 1 GB: peak memory of the notifier that makes them − at rest", " MB")
	goalDumpTaken  = atMost(64, "dump: packages of 1 GB: peak memory of destination baseline by a dump − of the same with nothing to fetch", " MB")
)

const (
	// dumpedSet has many small files, largeSet few large ones.
	dumpedSet, largeSet = "dumped", "large"
	dumpedBytes         = 2000
	largeBytes          = 4_000_000
	// byDump and byGET are values of --dump. An empty mirror is filled from the dump with auto.
	byDump, byGET = "auto", "never"
)

// dump compares Resource Dumps with a GET for each file, and both sides of a dump with bare loops.
func dump(ctx context.Context, e *env) error {
	d := &dumping{mirroring: newMirroring(e, "dump")}
	defer d.end()
	if err := d.source(ctx); err != nil {
		return err
	}
	e.report.section("Dumps")
	e.report.note("%d files of %d bytes of text, that a notifier watches and serves. The Source, its hub and the process that is measured share "+
		"the cores of this machine. Nobody clears the page cache.", e.plan.mirrored, dumpedBytes)
	e.report.note("The loop that packs reads each file, takes its SHA-256, and writes it into ZIPs of at most %d entries by archive/zip and the DEFLATE of klauspost/compress "+
		"at level %d. The loops that unpack get each package by GET into a file, read that by archive/zip, and take the SHA-256 of each entry; "+
		"one of them writes each entry to a file of its own. "+
		"Each loop is one goroutine. No loop has a manifest, compares hashes, syncs files or remembers anything.", perPackage, loopLevel)
	if err := d.speed(ctx); err != nil || !procHas(peakReset) {
		return err
	}
	return d.memory(ctx)
}

// dumping is a Source with dumps of its two sets.
type dumping struct {
	*mirroring
	notifier int // process ID
}

// contentOf is what a file has: prose to a packer, or nothing that it can make smaller.
func contentOf(i, size int, random bool) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), uint64(size)))
	text := make([]byte, 0, size)
	for len(text) < size {
		word := rng.Uint64()
		if random {
			for range 8 {
				text = append(text, byte(word))
				word >>= 8
			}
			continue
		}
		// A vocabulary of some thousand words, the first of which are frequent.
		word = uint64(rng.ExpFloat64()*400) * 0x9e3779b97f4a7c15
		for range 2 + word>>61 {
			text = append(text, "etaoinshrdlucmfw"[word&15])
			word >>= 4
		}
		text = append(text, ' ')
	}
	return text[:size]
}

func (d *dumping) watched(set string) string { return filepath.Join(d.dir, set) }

func (d *dumping) large(i int) string {
	// One in four is text; the others are of a type that is packed already.
	return fmt.Sprintf("file-%04d.%s", i, [4]string{"txt", "jpg", "jpg", "jpg"}[i%4])
}

// source makes the files of both sets, and starts their notifier.
func (d *dumping) source(ctx context.Context) error {
	for i := range d.plan.mirrored {
		if err := writeFile(filepath.Join(d.watched(dumpedSet), file(i)), contentOf(i, dumpedBytes, false)); err != nil {
			return err
		}
	}
	for i := range d.plan.dumpedLarge {
		if err := writeFile(filepath.Join(d.watched(largeSet), d.large(i)), contentOf(i, largeBytes, i%4 > 0)); err != nil {
			return err
		}
	}
	var err error
	d.notifier, err = d.serve(ctx, "--watch", dumpedSet+"="+d.watched(dumpedSet), "--serve", dumpedSet, "--dump", dumpedSet,
		"--watch", largeSet+"="+d.watched(largeSet), "--serve", largeSet, "--dump", largeSet)
	if err != nil {
		return err
	}
	// The notifier makes a first dump by itself: it is not measured.
	for set, last := range map[string]string{dumpedSet: file(d.plan.mirrored - 1), largeSet: d.large(d.plan.dumpedLarge - 1)} {
		if err := d.scanned(ctx, set, last); err != nil {
			return err
		}
		d.log("the first dump of %s", set)
		err := d.until(ctx, func() (bool, error) {
			_, err := d.get(ctx, d.site+set+"/resourcedump.xml")
			return err == nil, nil // the file does not exist yet
		})
		if err != nil {
			return fmt.Errorf("no Resource Dump of %s appears: %w", set, err)
		}
	}
	return nil
}

// speed measures the set of many small files.
func (d *dumping) speed(ctx context.Context) error {
	var rows [][]string
	row := func(what string, took time.Duration, more string) float64 {
		rate := float64(d.plan.mirrored) / took.Seconds()
		rows = append(rows, []string{what, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f s", took.Seconds()), more})
		return rate
	}
	took, err := timed(func() error { return packAll(d.watched(dumpedSet), d.dir, nil) })
	if err != nil {
		return err
	}
	row("bare loop packs, with the DEFLATE of archive/zip", took, "")
	pack, err := newPacker()
	if err != nil {
		return err
	}
	if took, err = timed(func() error { return packAll(d.watched(dumpedSet), d.dir, pack) }); err != nil {
		return err
	}
	packs := row("bare loop packs", took, "")
	took, peak, _, err := d.make(ctx, dumpedSet)
	if err != nil {
		return err
	}
	makes := row("notifier dump", took, megabytes(peak))

	packages, err := d.packages(ctx, dumpedSet)
	if err != nil {
		return err
	}
	unpack := func(to string) (time.Duration, error) {
		return timed(func() error {
			n, err := d.unpackAll(ctx, packages, to)
			if err == nil && n != d.plan.mirrored+len(packages) { // each has a manifest
				err = fmt.Errorf("%d packages have %d entries; %d files were dumped", len(packages), n, d.plan.mirrored)
			}
			return err
		})
	}
	if took, err = unpack(""); err != nil {
		return err
	}
	hashes := row("bare loop downloads, unpacks and hashes", took, "")
	if took, err = unpack(filepath.Join(d.dir, "unpacked")); err != nil {
		return err
	}
	unpacks := row("bare loop downloads, unpacks, hashes and writes files", took, "")
	rates := map[string]float64{}
	for _, how := range []string{byDump, byGET} {
		if took, peak, err = d.baseline(ctx, dumpedSet, how, how); err != nil {
			return err
		}
		if err := d.mirrored(how, d.plan.mirrored); err != nil {
			return err
		}
		rates[how] = row("destination baseline --dump "+how, took, megabytes(peak))
	}
	d.report.table([]string{"", "files/s", "in all", "peak memory"}, rows)
	d.report.put(goalDumpOrGets, noEngine, rates[byDump]/rates[byGET])
	d.report.put(goalDumpLoop, noEngine, rates[byDump]/unpacks)
	d.report.put(goalDumpHashes, noEngine, rates[byDump]/hashes)
	d.report.put(goalDumpMade, noEngine, makes/packs)
	return nil
}

// memory measures the set of large files.
func (d *dumping) memory(ctx context.Context) error {
	took, peak, idle, err := d.make(ctx, largeSet)
	if err != nil {
		return err
	}
	d.report.put(goalDumpMemory, noEngine, peak-idle)
	packages, err := d.packages(ctx, largeSet)
	if err != nil {
		return err
	}
	sizes := ""
	for _, p := range packages {
		sizes += fmt.Sprintf(", %.2f GB", float64(p.Length)/1e9)
	}
	d.report.note("Memory: %d files of %d bytes, three in four of a type that is not packed again. The packages: %s. "+
		"Peaks are read from /proc (VmHWM, reset before notifier dump).", d.plan.dumpedLarge, largeBytes, sizes[2:])
	rows := [][]string{{"notifier dump", fmt.Sprintf("%.1f s", took.Seconds()), megabytes(idle), megabytes(peak), megabytes(peak - idle)}}
	if took, peak, err = d.baseline(ctx, largeSet, byDump, largeSet); err != nil {
		return err
	}
	if _, idle, err = d.baseline(ctx, largeSet, byDump, largeSet); err != nil {
		return fmt.Errorf("once more: %w", err)
	}
	d.report.put(goalDumpTaken, noEngine, peak-idle)
	rows = append(rows, []string{"destination baseline --dump " + byDump, fmt.Sprintf("%.1f s", took.Seconds()), megabytes(idle), megabytes(peak), megabytes(peak - idle)})
	d.report.table([]string{"", "in all", "at rest, or with nothing to fetch", "peak", "more"}, rows)
	return nil
}

// make has the notifier make a dump, and returns its peak memory meanwhile and its memory before,
// in MB.
func (d *dumping) make(ctx context.Context, set string) (took time.Duration, peak, idle float64, err error) {
	p := processOf(d.notifier)
	idle = p.resident()
	if err := p.resetPeak(); err != nil {
		return 0, 0, 0, err
	}
	stop, err := d.startProfile(ctx, "notifier-"+set, d.notifier)
	if err != nil {
		return 0, 0, 0, err
	}
	defer stop()
	took, _, err = d.runs(ctx, "notifier", "dump", set, "--intake", d.intake, "--log-level", "error")
	return took, p.peak(), idle, err
}

// baseline runs one on a mirror by its name, and returns its peak memory in MB.
func (d *dumping) baseline(ctx context.Context, set, how, mirror string) (took time.Duration, peak float64, err error) {
	return d.runs(ctx, "destination", "baseline", "--dump", how, "--source", d.site, "--topic", d.site+set+"/change/",
		"--mirror", filepath.Join(d.dir, "mirror-"+mirror), "--data", filepath.Join(d.dir, "data-"+mirror),
		"--log-level", "error", "--per-host", fmt.Sprint(mirrorParallel))
}

// mirrored checks that a mirror has so many files.
func (d *dumping) mirrored(mirror string, want int) error {
	got := 0
	err := filepath.WalkDir(filepath.Join(d.dir, "mirror-"+mirror), func(_ string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // the mirror's own
		case err == nil && !entry.IsDir():
			got++
		}
		return err
	})
	if err == nil && got != want {
		err = fmt.Errorf("the mirror has %d files; the Source has %d", got, want)
	}
	return err
}

// packages reads the Resource Dump of a set.
func (d *dumping) packages(ctx context.Context, set string) (all []source.Package, err error) {
	c, err := source.New(source.Config{})
	if err != nil {
		return nil, err
	}
	_, err = c.ResourceDump(ctx, d.site+set+"/resourcedump.xml", func(p source.Package) error {
		all = append(all, p)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the Resource Dump of %s has no package", set)
	}
	return all, err
}

func timed(do func() error) (time.Duration, error) {
	begin := time.Now()
	err := do()
	return time.Since(begin), err
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n) }
