package dump_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"carillon/internal/together"
	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// Most of these tests wait for a disk.
func TestMain(m *testing.M) {
	together.Wait()
	m.Run()
}

// noise is text that gets no smaller.
func noise(seed uint64, n int) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	return string(text)
}

func (w *world) same(got, want map[string]string) {
	w.t.Helper()
	for loc, text := range want {
		if got[loc] != text {
			w.t.Errorf("%.100s: %d bytes, want %d", loc, len(got[loc]), len(text))
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("%d resources, want %d", len(got), len(want))
	}
}

// The content of a set is in the packages byte for byte: the empty, the large, and files with odd
// names.
func TestResourceDump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{})
	if resp, _ := w.get("default/resourcedump.xml"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("before the first: %s", resp.Status)
	}
	if a := w.ask(); a.Error != dump.ErrNoResources.Error() {
		t.Errorf("of nothing: %+v", a)
	}
	names := []string{
		"empty", "a%2Fb", "with%20space", "%C3%A9t%C3%A9", "..", "a/../b", "%2e%2e/x", "con", "a:b", "UPPER", "upper",
		strings.Repeat("long", 400), "x?y=1&z=2", "manifest.xml",
	}
	want := map[string]string{}
	for i, name := range names {
		text := strings.Repeat(name, i)
		w.put(name, text, payload.Created)
		want[loc(name)] = text
	}
	for i, text := range []string{noise(1, 256<<10), noise(2, 256<<10+1), noise(3, 3<<20), strings.Repeat("text ", 1<<20)} {
		name := fmt.Sprintf("large%d", i)
		w.put(name, text, payload.Created)
		want[loc(name)] = text
	}
	a := w.ask()
	if a.Error != "" || a.Entries != len(want) || a.LeftOut != 0 || a.Packages != 1 {
		t.Fatalf("%+v", a)
	}
	d := w.document("default/resourcedump.xml")
	if d.header.Capability != payload.CapResourceDump || !d.header.AtTime.Equal(a.At) || len(d.header.Links) != 1 || d.header.Links[0].Rel != "up" {
		t.Errorf("%+v", d.header)
	}
	w.same(w.dumped(d), want)
	_, list := w.get("default/capabilitylist.xml")
	if !bytes.Contains(list, []byte(base+"default/resourcedump.xml")) || bytes.Contains(list, []byte("changedump")) {
		t.Errorf("the Capability List is\n%s", list)
	}
	w.counted()
	if rest := w.files(); len(rest) != 2 {
		t.Errorf("files: %v", rest)
	}
}

// A package has at most so many bytes and entries; a larger member has a package to itself.
func TestPackageLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{PackageBytes: 1 << 20, PackageEntries: 40})
	want := map[string]string{}
	put := func(name, text string) {
		w.put(name, text, payload.Created)
		want[loc(name)] = text
	}
	for i := range 100 {
		put(fmt.Sprintf("a%03d", i), noise(uint64(i), 100))
	}
	for i := range 12 {
		put(fmt.Sprintf("b%03d", i), noise(uint64(i), 200<<10))
	}
	put("c", noise(7, 2<<20))
	put("d", "after it")
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	d := w.document("default/resourcedump.xml")
	w.same(w.dumped(d), want)
	alone := false
	for i, p := range d.packages {
		size, _ := strconv.Atoi(p.Length)
		_, file := w.get(p.Loc)
		n := len(open(t, file).manifest.packages)
		if n > 40 || size > 1<<20 && n != 1 {
			t.Errorf("package %d has %d entries and %d bytes", i+1, n, size)
		}
		alone = alone || size > 2<<20 && n == 1
	}
	if !alone || len(d.packages) < 6 {
		t.Errorf("%d packages", len(d.packages))
	}
}

// A resource that has changed since the snapshot is packed as it is now, and the manifest agrees (open
// checks it); a missing one is left out, logged and counted.
func TestChangedSinceTheSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{})
	for i := range 10 {
		w.put(fmt.Sprint(i), "first", payload.Created)
	}
	first := true
	w.shelf.trouble(func(context.Context, string, int) error {
		if first { // the snapshot is taken, and nothing is read yet, whichever worker is first
			first = false
			w.shelf.content[loc("3")] = "second"
			delete(w.shelf.content, loc("5"))
		}
		return nil
	})
	a := w.ask()
	if a.Error != "" || a.LeftOut != 1 || a.Entries != 9 {
		t.Fatalf("%+v", a)
	}
	got := w.dumped(w.document("default/resourcedump.xml"))
	if _, is := got[loc("5")]; is || got[loc("3")] != "second" || len(got) != 9 {
		t.Errorf("%v", got)
	}
	if !strings.Contains(w.log.String(), "reason=missing") || !w.metric(`carillon_notifier_dump_left_out_total{reason="missing",set="default"} 1`) {
		t.Errorf("the log:\n%s", w.log.String())
	}
}

// A dump that lacks more than half, or that the disk has no room for, is not announced: the one
// before stays.
func TestNotAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{PackageBytes: 1 << 20, Bytes: 2 << 20})
	for i := range 10 {
		w.put(fmt.Sprint(i), noise(uint64(i), 10<<10), payload.Created)
	}
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	before := w.document("default/resourcedump.xml")
	w.shelf.trouble(func(_ context.Context, opened string, _ int) error {
		if opened < loc("6") {
			return &dump.LeftOutError{Reason: dump.Missing, Text: "gone"}
		}
		return nil
	})
	if a := w.ask(); !strings.Contains(a.Error, "more than half") {
		t.Errorf("%+v", a)
	}
	w.shelf.trouble(nil)
	w.put("large", noise(99, 3<<20), payload.Created)
	if a := w.ask(); !strings.Contains(a.Error, "--dump-bytes") {
		t.Errorf("%+v", a)
	}
	w.shelf.trouble(func(context.Context, string, int) error { return dump.ErrHeld })
	if a := w.ask(); !strings.Contains(a.Error, dump.ErrHeld.Error()) {
		t.Errorf("%+v", a)
	}
	after := w.document("default/resourcedump.xml")
	if !maps.Equal(w.dumped(after), w.dumped(before)) || !after.header.AtTime.Equal(before.header.AtTime) {
		t.Error("another dump is served")
	}
}

// Packages have ranges and conditions, and a document that is replaced leads to those of before.
func TestServing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{})
	w.put("a", noise(1, 5000), payload.Created)
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	uri := w.document("default/resourcedump.xml").packages[0].Loc
	resp, whole := w.get(uri)
	tag := resp.Header.Get("ETag")
	if tag == "" || strings.HasPrefix(tag, "W/") || resp.Header.Get("Last-Modified") == "" || resp.ContentLength != int64(len(whole)) {
		t.Errorf("%+v", resp.Header)
	}
	if resp, part := w.get(
		uri, "Range", "bytes=100-199", "If-Range", tag,
	); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(part, whole[100:200]) {
		t.Errorf("a range: %s, %d bytes", resp.Status, len(part))
	}
	if resp, part := w.get(uri, "Range", "bytes=100-199", "If-Range", `"other"`); resp.StatusCode != http.StatusOK || len(part) != len(whole) {
		t.Errorf("a range of another: %s, %d bytes", resp.Status, len(part))
	}
	if resp, _ := w.get(uri, "If-None-Match", tag); resp.StatusCode != http.StatusNotModified {
		t.Errorf("unchanged: %s", resp.Status)
	}
	manifest := strings.Replace(uri, "/1.zip", "/1.xml", 1)
	resp, text := w.get(manifest)
	if resp.Header.Get("Last-Modified") == "" || len(text) == 0 {
		t.Errorf("a manifest of %d bytes: %+v", len(text), resp.Header)
	}
	if resp, text := w.get(manifest, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified || len(text) > 0 {
		t.Errorf("an unchanged manifest: %s, %d bytes", resp.Status, len(text))
	}
	for path, want := range map[string]int{
		strings.Replace(uri, "/1.zip", "/2.zip", 1):             http.StatusNotFound,
		strings.Replace(uri, "/1.zip", "/01.zip", 1):            http.StatusNotFound,
		strings.Replace(uri, "/1.zip", "/1.json", 1):            http.StatusNotFound,
		strings.Replace(uri, "/1.zip", "/generation.json", 1):   http.StatusNotFound,
		"default/resourcedump/20200101T000000.000000Z/1.zip":    http.StatusGone,
		"default/resourcedump/20990101T000000.000000Z/1.zip":    http.StatusNotFound,
		"default/resourcedump/":                                 http.StatusNotFound,
		"default/changedump.xml":                                http.StatusNotFound,
		"default/resourcedump/x/20200101T000000.000000Z/1.zip":  http.StatusNotFound,
		"default/changedump/20200101T000000.000000Z/1.zip":      http.StatusNotFound,
		"default/resourcedump/..%2f..%2fgeneration.json/1.zip/": http.StatusNotFound,
	} {
		if resp, text := w.get(path); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d\n%.200s", path, resp.Status, want, text)
		}
	}
	w.put("b", "more", payload.Created)
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	if newer := w.document("default/resourcedump.xml").packages[0].Loc; newer == uri {
		t.Error("the new dump has the address of the old one")
	}
	if resp, again := w.get(uri); resp.StatusCode != http.StatusOK || !bytes.Equal(again, whole) {
		t.Errorf("the dump before: %s", resp.Status)
	}
	w.dumps.Keep = 1 // ns
	w.restart()
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	if a := w.ask(); a.Error != "" { // before it is made those of before are dropped
		t.Fatal(a.Error)
	}
	if resp, _ := w.get(uri); resp.StatusCode != http.StatusGone || !strings.Contains(resp.Header.Get("Link"), "resourcedump.xml") {
		t.Errorf("after --dump-keep: %s, %v", resp.Status, resp.Header)
	}
}

// Documents with new addresses have another entity tag: a request with the old tag gets them.
func TestOtherAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 1}, dump.Config{})
	w.put("a", "a1", payload.Created)
	<-w.changed
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	tags := map[string]string{}
	for _, path := range []string{"default/resourcedump.xml", "default/changedump.xml"} {
		resp, _ := w.get(path)
		tags[path] = resp.Header.Get("ETag")
		if again, _ := w.get(path, "If-None-Match", tags[path]); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s", path, again.Status)
		}
	}
	w.cfg.URL = "http://moved.example/"
	w.restart()
	for path, tag := range tags {
		resp, text := w.get(path, "If-None-Match", tag)
		if resp.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("http://moved.example/")) {
			t.Errorf("%s: %s\n%s", path, resp.Status, text)
		}
	}
}
