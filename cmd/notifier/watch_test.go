package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := "maps=" + dir + ",http://source.example/maps/files/"
	at := func(base string) []string {
		return []string{"--url", "http://source.example/rs/", "--serve", "maps", "--set", "books", "--watch", "maps=" + dir + "," + base}
	}
	for want, args := range map[string][]string{
		`--watch: "maps" is not NAME=DIR,BASEURI`:                    {"--watch", "maps"},
		`is not NAME=DIR,BASEURI`:                                    {"--watch", "maps=,http://a.example/"},
		`has no BASEURI`:                                             {"--watch", "maps=" + dir},
		`--watch: "maps" is there twice`:                             {"--watch", good, "--watch", good},
		`--serve: "books" is no set of --watch`:                      {"--watch", good, "--serve", "books"},
		`--watch is not for --stdin`:                                 {"--watch", good, "--stdin"},
		`--watch-settle must be over 0 and at most 1h0m0s`:           {"--watch", good, "--watch-settle", "2h"},
		`--watch-settle and --watch-rescan must be over 0`:           {"--watch", good, "--watch-settle", "0s"},
		`--watch-rescan must be 1s or more`:                          {"--watch", good, "--watch-rescan", "1ms"},
		`--watch maps: "http://a.example/x" must end with a slash`:   {"--watch", "maps=" + dir + ",http://a.example/x"},
		`--watch maps: "` + file + `" is not a directory`:            {"--watch", "maps=" + file + ",http://a.example/"},
		`is in the watched directory`:                                {"--watch", good, "--data", filepath.Join(dir, "sub", "data")},
		`--set: "ma ps" is not a name`:                               {"--watch", "ma ps=" + dir + ",http://a.example/"},
		`http://other.example/f/ is not at the host of --url`:        at("http://other.example/f/"),
		`http://source.example/ is where the Source Description`:     at("http://source.example/"),
		`http://source.example/rs/maps/ is where the documents`:      at("http://source.example/rs/maps/"),
		`rs/books/change/ is where the documents of the set "books"`: at("http://source.example/rs/books/change/"),
	} {
		code, stdout, stderr := runOnce(t, "", append([]string{"--data", filepath.Join(t.TempDir(), "data")}, args...)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
		check := append([]string{"config", "check", "--data", filepath.Join(t.TempDir(), "data"), "--url", "http://source.example/rs/"}, args...)
		var out, errs bytes.Buffer
		if code := run(t.Context(), check, &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("config check %v: status %d, stderr %q; want %q", args, code, &errs, want)
		}
	}
}

// TestWatchFlag: commas in names, several in one value, and the default set.
func TestWatchFlag(t *testing.T) {
	t.Parallel()
	f := flags{watchFlags: watchFlags{Watch: strings.Split("a=/x,y,https://h.example/a,b/,b=/z,http://h.example/b/", ",")}}
	all, err := f.directories()
	if err != nil || len(all) != 2 || all[0] != (watched{
		set: "a", dir: "/x,y", base: "https://h.example/a,b/",
	}) || all[1].base != "http://h.example/b/" {
		t.Errorf("%+v, %v", all, err)
	}
	if got := strings.Join(f.sets(), " "); got != "a b" {
		t.Errorf("sets are %s", got)
	}
	f.Set = []string{"b", "c"}
	if got := strings.Join(f.sets(), " "); got != "b c a" {
		t.Errorf("sets are %s", got)
	}
}

// watching is a notifier in this process that watches a directory as the set "maps".
type watching struct {
	t    *testing.T
	url  string
	stop func()
}

func startWatching(t *testing.T, dir, data, hub string, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		defer writer.Close()
		ended <- runWith(ctx, append([]string{
			"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--log-level", "error", "--data", data, "--hub", hub,
			"--max-wait", "10ms", "--watch-settle", "50ms", "--watch", "maps=" + dir, "--serve", "maps",
		}, args...), strings.NewReader(""), writer, &stderr)
	}()
	w := &watching{t: t, stop: func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("status %d: %s", code, &stderr)
		}
	}}
	ready, err := bufio.NewReader(reader).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(ready), " url=")
	if err != nil || !found {
		cancel()
		t.Fatalf("no ready line, but %q, %v: status %d, %s", ready, err, <-ended, &stderr)
	}
	w.url = url
	go func() { _, _ = io.Copy(io.Discard, reader) }() // there is nothing more
	return w
}

// get answers with the body and the header of a document.
func (w *watching) get(url string) (string, http.Header) {
	w.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s, %v, %s", url, resp.Status, err, body)
	}
	return string(body), resp.Header
}

// TestWatch: a directory is a set from its first file on, through changes while the program runs and
// while it does not. Announced files can be fetched, and lead to the documents.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	modified := time.Now().Add(-time.Hour) // at rest for long
	write := func(name, content string) {
		t.Helper()
		modified = modified.Add(time.Second)
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, modified, modified)); err != nil {
			t.Fatal(err)
		}
	}
	changes := make(chan payload.Entry, 100)
	hub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reader := payload.NewReader(r.Body, payload.Limits{})
		for e, err := reader.Next(); err == nil; e, err = reader.Next() {
			changes <- e
		}
	}))
	defer hub.Close()
	write("a.txt", "low and high")
	write("b.txt", "to go")
	w := startWatching(t, dir, data, hub.URL)
	base := w.url + "maps/files/"
	await := func(change payload.Change, name string) payload.Entry {
		t.Helper()
		e := <-changes
		if e.Change != change || e.Loc != base+name {
			t.Fatalf("%s %s, want %s %s", e.Change, e.Loc, change, base+name)
		}
		return e
	}
	first := map[string]payload.Entry{}
	for range 2 {
		e := <-changes
		first[e.Loc] = e
	}
	a := first[base+"a.txt"]
	if a.Change != payload.Created || a.Length != "12" || !strings.HasPrefix(a.Hash, "sha-256:") || a.Type != "text/plain" {
		t.Fatalf("%+v", first)
	}
	body, header := w.get(a.Loc)
	list := regexp.MustCompile(`^<(.*)>; rel="resourcesync"$`).FindStringSubmatch(header.Get("Link"))
	if body != "low and high" || header.Get("Etag") != `"`+a.Hash+`"` || list == nil || list[1] != w.url+"maps/capabilitylist.xml" {
		t.Fatalf("%q, %v", body, header)
	}
	if document, _ := w.get(list[1]); !strings.Contains(document, w.url+"maps/change/") {
		t.Errorf("the Capability List is %s", document)
	}
	if document, _ := w.get(w.url + ".well-known/resourcesync"); strings.Contains(document, "/default/") || xml.Unmarshal([]byte(document), new(struct{})) != nil {
		t.Errorf("the Source Description is %s", document)
	}
	write("c d.txt", "new")
	await(payload.Created, "c%20d.txt")
	listen := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/")
	w.stop()

	write("a.txt", "high and low!")
	if err := os.Remove(filepath.Join(dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	w = startWatching(t, dir, data, hub.URL, "--listen", listen) // so that the URIs are the same
	defer w.stop()
	again := map[string]payload.Change{}
	for range 2 {
		e := <-changes
		again[e.Loc] = e.Change
	}
	if again[base+"a.txt"] != payload.Updated || again[base+"b.txt"] != payload.Deleted {
		t.Errorf("after a restart: %v", again)
	}
}
