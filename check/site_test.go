package check_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"carillon/check"
)

// site is a Source for a test: the files of testdata/site, where {base} stands for its address, {length NAME} and {sha256
// NAME} for what a file has.
type site struct {
	t     *testing.T
	files map[string]string // by path, without the first slash; missing ones are filled in
	// packs are the entries of each package, in their order: a name, and the file with the content.
	packs map[string][]packed
	// headers are what answers have besides, or "" for a header that they must not have.
	headers map[string]map[string]string
	// status are answers other than 200.
	status map[string]int
	// head are those of HEAD alone.
	head     map[string]int
	handlers map[string]http.HandlerFunc
	before   func(r *http.Request)
	base     string
	name     string // to be used as the address, where it is not that of the server
	server   string // HOST:PORT
	mu       sync.Mutex
	requests []string // guarded by mu
}

// packed is an entry of a package: its name, and the file that has its content.
type packed struct{ name, file string }

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		t: t, files: map[string]string{}, headers: map[string]map[string]string{}, status: map[string]int{}, head: map[string]int{},
		handlers: map[string]http.HandlerFunc{},
		packs: map[string][]packed{
			"a/rd-1.zip":       {{"manifest.xml", "a/rd-1-manifest.xml"}, {"resources/1.txt", "r/1.txt"}, {"resources/2.txt", "r/2.txt"}},
			"a/rd-2.zip":       {{"manifest.xml", "a/rd-2-manifest.xml"}, {"3.txt", "r/3.txt"}},
			"a/cd-1.zip":       {{"manifest.xml", "a/cd-1-manifest.xml"}, {"changes/1.txt", "r/1.txt"}},
			"a/archive/rd.zip": {{"manifest.xml", "a/archive/rd-manifest.xml"}, {"0.txt", "r/0.txt"}},
			"a/archive/cd.zip": {{"manifest.xml", "a/archive/cd-manifest.xml"}, {"0.txt", "r/0.txt"}},
		},
	}
	dir := os.DirFS("testdata/site")
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dir, name)
		s.files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// edit replaces a text in a file, which must be there exactly once.
func (s *site) edit(name, old, with string) {
	s.t.Helper()
	if n := strings.Count(s.files[name], old); n != 1 {
		s.t.Fatalf("%s has %q %d times:\n%s", name, old, n, s.files[name])
	}
	s.files[name] = strings.Replace(s.files[name], old, with, 1)
}

func (s *site) header(name, key, value string) {
	if s.headers[name] == nil {
		s.headers[name] = map[string]string{}
	}
	s.headers[name][key] = value
}

// open serves the site, and fills it in.
func (s *site) open() {
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.t.Cleanup(server.Close)
	s.base, s.server = server.URL, server.Listener.Addr().String()
	if s.name != "" {
		s.base = s.name
	}
	for name := range s.files {
		s.files[name] = strings.ReplaceAll(s.files[name], "{base}", s.base)
	}
	s.fillIn() // manifests, which name resources
	for name, entries := range s.packs {
		if _, given := s.files[name]; !given {
			s.files[name] = s.pack(entries)
		}
	}
	s.fillIn() // dumps, which name packages
}

// fillIn fills in the descriptions of existing files.
func (s *site) fillIn() {
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		for of, content := range s.files {
			if !strings.Contains(s.files[name], " "+of+"}") {
				continue
			}
			s.files[name] = strings.NewReplacer(
				"{length "+of+"}", fmt.Sprint(len(content)), "{sha256 "+of+"}", sha256Of(content),
			).Replace(s.files[name])
		}
	}
}

func sha256Of(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (s *site) pack(entries []packed) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		f, err := w.Create(e.name)
		if err == nil {
			_, err = io.WriteString(f, s.files[e.file])
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

var mediaTypes = map[string]string{
	".xml": "application/xml", ".zip": "application/zip", ".html": "text/html", ".txt": "text/plain; charset=utf-8", ".patch": "application/x-patch",
}

// resourcesModified are the files that have a Last-Modified.
const resourcesModified = "Fri, 02 Jan 2026 00:00:00 GMT"

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	if s.before != nil {
		s.before(r)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case name == "":
		name = "index.html"
	case strings.HasSuffix(name, "/"):
		name += "index"
	}
	h := w.Header()
	h.Set("Date", "Sun, 01 Feb 2026 00:00:00 GMT")
	switch base := path.Base(name); {
	case mediaTypes[path.Ext(base)] != "":
		h.Set("Content-Type", mediaTypes[path.Ext(base)])
	case base == "index" || base == "resourcesync":
		h.Set("Content-Type", "application/xml")
	default:
		h.Set("Content-Type", "text/plain")
	}
	if name == "a/change/index" {
		h.Set(
			"Link",
			fmt.Sprintf(`<%s/a/change/>; rel="self", <%s/hub>; rel="hub", <%s/a/capabilitylist.xml>; rel="resourcesync"`, s.base, s.base, s.base),
		)
	}
	if strings.HasPrefix(name, "r/") && strings.HasSuffix(name, ".txt") {
		h.Set("Last-Modified", resourcesModified)
	}
	for key, value := range s.headers[name] {
		h.Set(key, strings.ReplaceAll(value, "{base}", s.base))
		if value == "" {
			h[key] = nil
		}
	}
	content, known := s.files[name]
	status := s.status[name]
	if r.Method == http.MethodHead && s.head[name] != 0 {
		status = s.head[name]
	}
	switch {
	case s.handlers[name] != nil:
		s.handlers[name](w, r)
	case status != 0:
		http.Error(w, "", status)
	case name == "hub":
		http.Error(w, "hub.mode is missing", http.StatusBadRequest)
	case !known:
		http.NotFound(w, r)
	default:
		h.Set("Content-Length", fmt.Sprint(len(content)))
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, content)
		}
	}
}

// look checks places of the site, by their paths.
func (s *site) look(cfg check.Config, places ...string) ([]check.Finding, check.Summary) {
	s.t.Helper()
	found, sum, err := s.try(cfg, places...)
	if err != nil {
		s.t.Fatal(err)
	}
	return found, sum
}

func (s *site) try(cfg check.Config, places ...string) (found []check.Finding, sum check.Summary, err error) {
	s.t.Helper()
	if s.base == "" {
		s.open()
	}
	if cfg.Transport == nil {
		transport := &http.Transport{}
		if s.name != "" {
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, s.server)
			}
		}
		s.t.Cleanup(transport.CloseIdleConnections)
		cfg.Transport = transport
	}
	cfg.Dir = s.t.TempDir()
	for i := range places {
		places[i] = s.base + places[i]
	}
	sum, err = check.Run(s.t.Context(), cfg, places, func(f check.Finding) { found = append(found, f) })
	return found, sum, err
}

// lines are findings as they are printed, without the site's address.
func (s *site) lines(found []check.Finding) (lines []string) {
	for i := range found {
		lines = append(lines, strings.ReplaceAll(found[i].String(), s.base, ""))
	}
	return lines
}

// A good site has nothing wrong, wherever the walk begins, and all of it was looked at.
func TestGoodSite(t *testing.T) {
	for _, place := range []string{
		"/", "/.well-known/resourcesync", "/a/capabilitylist.xml", "/a/change/",
		"/a/changelist-1.xml", "/a/archive/changelist-a.xml", "/a/resourcedump.xml",
	} {
		t.Run(place, func(t *testing.T) {
			s := newSite(t)
			found, sum := s.look(check.Config{Sample: 100}, place)
			for _, line := range s.lines(found) {
				t.Error(line)
			}
			// All documents, with the five manifests in packages; the copies of two of them; and the notification.
			if sum.Documents != 28 || sum.Packages != 5 || sum.Resources != 3 || !sum.Complete || sum.Requests < 40 || sum.Bytes == 0 {
				t.Errorf("%+v", sum)
			}
			for _, r := range s.requests {
				if method, _, _ := strings.Cut(r, " "); method != http.MethodGet && method != http.MethodHead {
					t.Errorf("%s may have an effect", r)
				}
			}
		})
	}
}
