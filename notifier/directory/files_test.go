package directory_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/notifier/directory"
)

func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	path, query, _ := strings.Cut(target, "?")
	u := &url.URL{Opaque: "", RawPath: path, RawQuery: query}
	u.Path, _ = url.PathUnescape(path) // a server takes nothing else
	r.URL = u
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestManyRanges: no ranges of a file take much more than the file.
func TestManyRanges(t *testing.T) {
	bubble(t, func(w *world) {
		const size = 20_000
		content := strings.Repeat("high and low ", size/13+1)[:size]
		w.write("tides.txt", content)
		w.start()
		w.pass(2 * settle)
		w.expect("created tides.txt")
		h := w.d.Files()
		for _, c := range []struct{ ranges, status int }{{1, 206}, {2, 206}, {8, 206}, {9, 200}, {5500, 200}} {
			wanted := make([]string, c.ranges)
			for i := range wanted {
				wanted[i] = fmt.Sprintf("%d-%d", 2*i, 2*i)
			}
			got := get(h, http.MethodGet, "/files/tides.txt", "Range", "bytes="+strings.Join(wanted, ", "))
			if got.Code != c.status || got.Body.Len() > size || got.Code == 200 && got.Body.String() != content {
				t.Errorf("%d ranges: %d, %d bytes", c.ranges, got.Code, got.Body.Len())
			}
		}
		overlapping := get(h, http.MethodGet, "/files/tides.txt", "Range", "bytes=0-,0-,0-,0-")
		if overlapping.Body.Len() > size {
			t.Errorf("the whole four times over: %d, %d bytes", overlapping.Code, overlapping.Body.Len())
		}
	})
}

// TestFiles: a file is served as it is announced, whole or in part, with the link to its
// Capability List.
func TestFiles(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a b/tides.txt", "high and low")
		w.start()
		w.pass(2 * settle)
		w.expect("created a%20b/tides.txt")
		h := w.d.Files()
		entry := w.state.has[base+"a%20b/tides.txt"]
		tag := `"` + entry.Hash + `"`
		whole := get(h, http.MethodGet, "/files/a%20b/tides.txt")
		for name, want := range map[string]string{
			"Content-Type": entry.Type, "Content-Length": entry.Length, "Etag": tag, "Accept-Ranges": "bytes",
			"Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT", "X-Content-Type-Options": "nosniff",
			"Link": `<https://source.example/maps/capabilitylist.xml>; rel="resourcesync"`,
		} {
			if got := whole.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if whole.Code != 200 || whole.Body.String() != "high and low" || entry.Type != "text/plain" {
			t.Errorf("%d %q, type %q", whole.Code, whole.Body, entry.Type)
		}
		for _, c := range []struct {
			method, target string
			header         []string
			status         int
			body           string
		}{
			{"HEAD", "/files/a%20b/tides.txt", nil, 200, ""},
			{"GET", "/files/a%20b/tides%2Etxt?x=y", nil, 200, "high and low"},
			{"GET", "/files/a%20b/tides.txt", []string{"Range", "bytes=5-7"}, 206, "and"},
			{"GET", "/files/a%20b/tides.txt", []string{"Range", "bytes=5-7", "If-Range", tag}, 206, "and"},
			{"GET", "/files/a%20b/tides.txt", []string{"If-None-Match", tag}, 304, ""},
			{"GET", "/files/a%20b/tides.txt", []string{"If-Modified-Since", whole.Header().Get("Last-Modified")}, 304, ""},
			{"GET", "/files/a%20b/tides.txt", []string{"If-Match", `"other"`}, 412, ""},
			{"POST", "/files/a%20b/tides.txt", nil, 405, "This path takes GET, HEAD only.\n"},
		} {
			got := get(h, c.method, c.target, c.header...)
			if got.Code != c.status || got.Body.String() != c.body {
				t.Errorf("%s %s %v: %d %q, want %d %q", c.method, c.target, c.header, got.Code, got.Body, c.status, c.body)
			}
		}
		// A file before its announcement has no strong tag, and no part of it fits to another.
		w.write("a b/tides.txt", "low and high")
		changed := get(h, http.MethodGet, "/files/a%20b/tides.txt", "Range", "bytes=0-2", "If-Range", tag)
		if got := changed.Header().Get("Etag"); changed.Code != 200 || !strings.HasPrefix(got, "W/") {
			t.Errorf("changed: %d, ETag %s", changed.Code, got)
		}
	})
}

// TestFilesOutside: nothing is served but what is a resource.
func TestFilesOutside(t *testing.T) {
	w := newWorld(t)
	w.write("sub/fine", "fine")
	w.write(".hidden", "secret")
	w.write(".git/config", "secret")
	w.must(os.WriteFile(filepath.Join(filepath.Dir(w.dir), "outside"), []byte("secret"), 0o600))
	w.must(os.Symlink("../outside", w.path("out")))
	w.must(os.Symlink(filepath.Dir(w.dir), w.path("updir")))
	w.must(os.Symlink("sub", w.path("in")))
	w.must(os.Symlink("fine", w.path("sub/link")))
	d, err := directory.New(t.Context(), w.config())
	w.must(err)
	for _, target := range []string{
		"/files/", "/files", "/files/sub", "/files/sub/", "/files/sub/fine/", "/files//sub/fine", "/files/sub//fine", "/files/./sub/fine",
		"/files/../outside", "/files/sub/../../outside", "/files/%2e%2e/outside", "/files/sub/%2E%2E/fine", "/files/..%2foutside", "/files/sub%2ffine",
		"/files/out", "/files/updir/outside", "/files/in/fine", "/files/sub/link",
		"/files/.hidden", "/files/%2ehidden", "/files/.git/config", "/files/sub/fine%00", "/files/none", "/other/sub/fine", "/files/" + strings.Repeat("x", 3000),
	} {
		if got := get(d.Files(), http.MethodGet, target); got.Code != 404 || strings.Contains(got.Body.String(), "secret") {
			t.Errorf("%.60s: %d %q", target, got.Code, got.Body)
		}
	}
	if got := get(d.Files(), http.MethodGet, "/files/sub/fine"); got.Code != 200 || got.Body.String() != "fine" {
		t.Errorf("/files/sub/fine: %d %q", got.Code, got.Body)
	}
	w.must(os.RemoveAll(w.dir))
	if got := get(d.Files(), http.MethodGet, "/files/sub/fine"); got.Code != 503 || got.Header().Get("Retry-After") == "" {
		t.Errorf("without the directory: %d %q", got.Code, got.Body)
	}
}

// FuzzNames: whatever path is asked for, the name of a file that comes of it is below the
// directory, of nothing hidden, and has one URI.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{
		"a/b.txt", "a%20b/%C3%BC", "%2e%2e/x", "..%2f..", "a//b", "%61/b", "a/%00", "%zz", "a%5Cb",
		".git/x", "no%FFtext", "C:/x", "a:b/+&=@$",
	} {
		f.Add(seed)
	}
	cfg := newWorldConfig(f.TempDir())
	d, err := directory.New(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		rel, ok := directory.UnescapePath(escaped)
		if !ok {
			return
		}
		if !filepath.IsLocal(rel) || filepath.ToSlash(filepath.Clean(rel)) != rel || strings.Contains("/"+rel, "/.") || strings.ContainsRune(rel, 0) {
			t.Fatalf("%q leads to %q", escaped, rel)
		}
		if again, ok := d.RelOf(d.LocOf(rel)); !ok || again != rel {
			t.Fatalf("%q has the URI %s, which leads to %q, %v", rel, d.LocOf(rel), again, ok)
		}
		if other, ok := d.RelOf(base + escaped); ok && (other != rel || d.LocOf(rel) != base+escaped) {
			t.Fatalf("%q and %q have the URI %s%s", rel, other, base, escaped)
		}
	})
}

func newWorldConfig(dir string) directory.Config {
	return directory.Config{Set: "maps", Dir: dir, Base: base, Sink: newState(), State: newState()}
}
