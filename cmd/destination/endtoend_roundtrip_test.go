//go:build !race

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A run by hand is larger than the test, and kills more often:
//
//	CARILLON_DUMPED_FILES=100000 CARILLON_KILLS=10 go test -run TestDumpsRoundTrip -v -timeout 1h ./cmd/destination
const (
	envDumpedFiles = "CARILLON_DUMPED_FILES"
	envKills       = "CARILLON_KILLS"
	dumpedFiles    = 2000
	dumpKills      = 2    // of each side, each time
	dumpedChanges  = 1000 // at most half of the files
)

// fromEnvironment returns the number in a variable, or another where it is not set.
func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number over 0", name, text)
	}
	return n
}

// TestDumpsRoundTrip compares a mirror with its Source byte for byte, after a baseline by a Resource
// Dump and after changes by Change Dumps. Files change while the Source packs them, and both sides
// are killed in the middle.
func TestDumpsRoundTrip(t *testing.T) {
	t.Parallel()
	kills := fromEnvironment(t, envKills, dumpKills)
	d := newDumped(t, fromEnvironment(t, envDumpedFiles, dumpedFiles))
	d.startNotifier()
	d.awaitHeard()
	d.awaitResourceList()

	// A Resource Dump, while files change. The one without kills says how long it takes.
	calm := d.whole("notifier", d.dumpArgs()...)
	stop := d.churn()
	for range kills {
		_, ended := d.start("notifier", d.dumpArgs()...)
		d.within(calm)
		d.killNotifier()
		<-ended // whether the kill was in time is of no interest
		d.startNotifier()
	}
	d.dumpOnceScanned()
	stop()
	d.awaitHeard()

	// The baseline of one mirror is undisturbed; that of another is killed.
	undisturbed, killed := d.mirror("undisturbed"), d.mirror("killed")
	before := d.asked()
	d.whole("destination", undisturbed.args("baseline")...)
	packages := d.byDump("the baseline", before, "/resourcedump/", d.files)
	d.killEach(kills, packages, killed.args("baseline"))
	for _, m := range []*copyOf{undisturbed, killed} {
		d.whole("destination", m.args("incremental", "--delete")...)
		m.compare("after the baseline")
	}

	// A Change Dump.
	d.change(min(dumpedChanges, d.files/2))
	for range kills {
		d.killNotifier()
		d.startNotifier()
		d.within(calm / 4)
	}
	d.awaitHeard()
	d.awaitChangeDump()
	before = d.asked()
	d.whole("destination", undisturbed.args("incremental", "--delete", "--dump", "only")...)
	packages = d.byDump("the changes", before, "/changedump/", min(dumpedChanges, d.files/2))
	d.killEach(kills, packages, killed.args("incremental", "--delete", "--dump", "only"))
	for _, m := range []*copyOf{undisturbed, killed} {
		d.whole("destination", m.args("incremental", "--delete")...) // the changes that are in no closed Change List yet
		m.compare("after the changes")
		if audit := d.output("destination", m.args("audit")...); !strings.HasPrefix(audit, "audit: in sync: ") {
			t.Errorf("%s: the audit says %s", m.name, audit)
		}
	}
	t.Logf("%d files, %d of them with odd names; each side was killed %d times with each dump", d.files, len(oddNames), kills)
}

// oddNames are names of files that a careless program takes for something else.
var oddNames = []string{
	"ä ö ü & <x>.txt", "日本語/ファイル.txt", "cafe\u0301.txt", "caf\u00e9.txt", "%2e%2e%2fetc.txt", "100%.txt", "%zz.txt",
	"a+b=c;d,e.txt", "query?a=1&b=2#part.txt", "back\\slash.txt", "C:drive.txt", "CON", "nul.txt", "dots..txt", "ends.", "a/b..c/d...",
	" leading", "trailing ", "quote'\"`$(x).txt", "tab\tand\nline.txt", "\x01control", "not utf-8 \xff\xfe.txt", "Case.txt", "case.txt", "CASE.TXT",
	"manifest.xml", "META-INF/manifest.xml", "index.html", "deep/index.html", "dir%~dir", strings.Repeat("long", 60) + ".txt",
	strings.Repeat("ü", 120) + ".txt", strings.Repeat("deep/", 60) + "end.txt", "~tilde", "-rf", "emoji 🎉.bin", "\u202ertl.txt", "mail@host", ";p=1",
}

// contentOf is different for each file and version, so that it says whose copy it is; but every
// tenth file is empty.
func contentOf(name string, version int) []byte {
	text := fmt.Appendf(nil, "%s\n%d\n", name, version)
	switch {
	case strings.HasSuffix(name, "0.txt"):
		return nil
	case strings.HasSuffix(name, "1.txt"):
		return append(text, strings.Repeat("and so on ", 200)...)
	}
	rng := rand.New(rand.NewPCG(uint64(len(name)), uint64(version)))
	size := 100 + rng.IntN(3000)
	if strings.HasPrefix(name, "large") {
		size = largeDumped
	}
	for range size {
		text = append(text, byte(rng.Uint32()))
	}
	return text
}

const (
	// dumpedPackage bounds the packages, so that there are many, and largeDumped is more than that.
	dumpedPackage = 1 << 20
	largeDumped   = 3 << 20
)

// plainName is the i-th of the names that are mirrored as they are.
func plainName(i int) string { return fmt.Sprintf("%03d/file-%06d.txt", i/1000, i) }

// write writes a version of a file.
func (d *dumped) write(name string) {
	d.version++
	path := filepath.Join(d.dir, name)
	err := os.WriteFile(path, contentOf(name, d.version), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, contentOf(name, d.version), 0o600)
		}
	}
	if err != nil {
		d.t.Error(err)
	}
}

// churn writes files again and again until stop is called.
func (d *dumped) churn() (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	rng := rand.New(rand.NewPCG(d.rng.Uint64(), 0))
	go func() {
		defer close(ended)
		for tick := time.NewTicker(churnEvery); ; {
			select {
			case <-ending:
				tick.Stop()
				return
			case <-tick.C:
				d.write(plainName(rng.IntN(d.files)))
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// churnEvery is the time between two changes of churn.
const churnEvery = time.Millisecond

// change makes so many changes: of ten, one creates a file and one deletes one.
func (d *dumped) change(n int) {
	for i, file := range d.rng.Perm(d.files)[:n] {
		switch name := plainName(file); i % 10 {
		case 0:
			if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
				d.t.Error(err)
			}
		case 1:
			d.write("new/" + name)
		default:
			d.write(name)
		}
	}
}
