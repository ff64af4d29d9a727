package packages_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/destination/packages/packagestest"
	"carillon/internal/unpack"
	"carillon/payload"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// server serves one package, and notes what it was asked.
type server struct {
	*httptest.Server
	t   *testing.T
	dir string

	mu    sync.Mutex
	zip   []byte
	etag  string
	asked []string // Range or If-None-Match of each request, else "all"
	// odd, where it is set, answers in the place of the server; it returns false to let it answer.
	odd func(w http.ResponseWriter, r *http.Request, n int) bool
}

func newServer(t *testing.T) *server {
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "packages"), etag: `"1"`, zip: zipOf(t, 300)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// zipOf is a package with so many KB of content.
func zipOf(t testing.TB, kb int) []byte {
	p := packagestest.New(t, payload.Head{Capability: payload.CapResourceDumpManifest, At: moment})
	var b strings.Builder
	for i := 0; b.Len() < kb<<10; i++ {
		fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	p.Add(payload.Entry{Loc: "http://source.example/a"}, b.String())
	p.Add(payload.Entry{Loc: "http://source.example/b", Path: "/b/ü"}, "small")
	p.List(payload.Entry{Loc: "http://source.example/c", Path: "/nothing"})
	return p.Bytes()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	what := "all"
	for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since"} {
		if v := r.Header.Get(name); v != "" {
			what = v
		}
	}
	s.asked = append(s.asked, what)
	n, odd, zip, etag := len(s.asked), s.odd, s.zip, s.etag
	s.mu.Unlock()
	if odd != nil && odd(w, r, n) {
		return
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(zip))
}

func (s *server) client(change func(*packages.Config)) *packages.Client {
	cfg := packages.Config{Dir: s.dir, Transport: s.Client().Transport, Retry: time.Millisecond, RetryMax: 2 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	c := packages.New(cfg)
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// listed is the dump's entry of the package; hashed with its hash.
func (s *server) listed(hashed bool) lists.Package {
	p := lists.Package{URI: s.URL + "/1.zip", Length: int64(len(s.zip))}
	if hashed {
		p.Hash = fmt.Sprintf("sha-256:%x", sha256.Sum256(s.zip))
	}
	return p
}

func (s *server) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := strings.Join(s.asked, " ")
	s.asked = nil
	return asked
}

// read opens a package, and reads all of it.
func read(ctx context.Context, c *packages.Client, listed lists.Package) (string, error) {
	p, err := c.Open(ctx, listed)
	if err != nil {
		return "", err
	}
	defer p.Close()
	var lines []string
	err = p.Manifest(payload.CapResourceDumpManifest, func(h payload.Header, e packages.Entry) error {
		line := strings.TrimPrefix(e.Loc, "http://source.example/")
		if e.Packed {
			r, err := p.Content(e.Path)
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, r)
			if err := errors.Join(err, r.Close()); err != nil {
				return err
			}
			line += fmt.Sprint(":", n>>10)
		}
		if !h.AtTime.Equal(moment) {
			line += " at " + h.At
		}
		lines = append(lines, line)
		return nil
	})
	return strings.Join(lines, " "), err
}

const whole = "a:300 b:0 c"

func (s *server) want(c *packages.Client, listed lists.Package, asked string) {
	s.t.Helper()
	got, err := read(s.t.Context(), c, listed)
	if err != nil || got != whole {
		s.t.Errorf("read %q, %v", got, err)
	}
	if got := s.requests(); got != asked {
		s.t.Errorf("asked for %q, want %q", got, asked)
	}
}

// cut sends the first bytes of the package and breaks off.
func (s *server) cut(w http.ResponseWriter, from, until int) {
	w.Header().Set("ETag", s.etag)
	w.Header().Set("Content-Length", fmt.Sprint(len(s.zip)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.zip)-1, len(s.zip)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(s.zip[from:until])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A download that was cut goes on where it was, in this process and in the next.
func TestRange(t *testing.T) {
	s := newServer(t)
	s.odd = func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n < 4 {
			s.cut(w, (n-1)*1000, n*1000)
		}
		return false
	}
	s.want(s.client(nil), s.listed(true), "all bytes=1000- bytes=2000- bytes=3000-")

	// A whole package is used again: with its hash there is no request, without it the server is asked.
	s.want(s.client(nil), s.listed(true), "")
	other := s.listed(false)
	other.URI += "?unhashed"
	s.odd = nil
	s.want(s.client(nil), other, "all")
	s.want(s.client(nil), other, `"1"`)
	s.mu.Lock()
	s.etag = `"2"`
	s.mu.Unlock()
	s.want(s.client(nil), other, `"1"`) // and is answered with all of it

	// The next process goes on, too.
	third := s.listed(true)
	third.URI += "?third"
	broken := s.client(func(c *packages.Config) { c.Attempts = 1 })
	s.odd = func(w http.ResponseWriter, _ *http.Request, _ int) bool { s.cut(w, 0, 5000); return true }
	if _, err := read(t.Context(), broken, third); !errors.Is(err, packages.ErrAnswer) {
		t.Errorf("cut: %v", err)
	}
	s.requests()
	s.odd = nil
	s.want(s.client(nil), third, "bytes=5000-")
}

// A process that is killed when all was downloaded, and before it recorded that, does not download it again.
func TestKilledAtTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		hashed, changed bool
		asked           string
	}{
		"with a hash":                     {true, false, ""},
		"with a hash, and it is damaged":  {true, true, "all"},
		"without one the server is asked": {false, false, `"1"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			listed := s.listed(tt.hashed)
			s.want(s.client(nil), listed, "all")
			notes, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
			if err != nil || len(notes) != 1 {
				t.Fatal(notes, err)
			}
			text, err := os.ReadFile(notes[0])
			if err == nil {
				err = os.WriteFile(notes[0], bytes.Replace(text, []byte(`,"whole":true`), nil, 1), 0o600)
			}
			if err == nil && tt.changed {
				err = os.WriteFile(strings.TrimSuffix(notes[0], ".json")+".zip", make([]byte, len(s.zip)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.want(s.client(nil), listed, tt.asked)
		})
	}
}

// A rest that does not belong to what is there is not joined with it.
func TestRestOfAnother(t *testing.T) {
	for name, tt := range map[string]struct {
		odd   func(s *server, w http.ResponseWriter)
		asked string
	}{
		"a part from elsewhere": {func(s *server, w http.ResponseWriter) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(s.zip)-1, len(s.zip)))
			w.WriteHeader(http.StatusPartialContent)
		}, "all bytes=1000- all"},
		"a part of another version": {func(s *server, w http.ResponseWriter) {
			w.Header().Set("ETag", `"3"`)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 1000-%d/%d", len(s.zip)-1, len(s.zip)))
			w.WriteHeader(http.StatusPartialContent)
		}, "all bytes=1000- all"},
		"a part without a range": {func(_ *server, w http.ResponseWriter) { w.WriteHeader(http.StatusPartialContent) }, "all bytes=1000- all"},
		"no such range": {func(_ *server, w http.ResponseWriter) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}, "all bytes=1000- all"},
		"a part with other bytes": {func(s *server, w http.ResponseWriter) { s.lie(w) }, "all bytes=1000- all"},
		"busy for a moment": {func(_ *server, w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "all bytes=1000- bytes=1000-"},
		"all of it in its place": {func(s *server, w http.ResponseWriter) { _, _ = w.Write(s.zip) }, "all bytes=1000-"},
		"all of it, broken off":  {func(s *server, w http.ResponseWriter) { s.cut(w, 0, 500) }, "all bytes=1000- bytes=500-"},
		"asked to wait, not long": {func(_ *server, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		}, "all bytes=1000- bytes=1000-"},
		"a timeout of the gateway": {func(_ *server, w http.ResponseWriter) {
			w.WriteHeader(http.StatusGatewayTimeout)
		}, "all bytes=1000- bytes=1000-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.odd = func(w http.ResponseWriter, _ *http.Request, n int) bool {
				switch n {
				case 1:
					s.cut(w, 0, 1000)
				case 2:
					tt.odd(s, w)
				}
				return n < 3
			}
			s.want(s.client(nil), s.listed(true), tt.asked)
		})
	}
	t.Run("without a validator", func(t *testing.T) {
		s := newServer(t)
		s.etag = ""
		s.odd = func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n == 1 {
				s.cut(w, 0, 1000)
			}
			return false
		}
		s.want(s.client(nil), s.listed(true), "all all")
	})
}

// lie sends a rest of the right length with other bytes.
func (s *server) lie(w http.ResponseWriter) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes 1000-%d/%d", len(s.zip)-1, len(s.zip)))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(make([]byte, len(s.zip)-1000))
}

// A redirect may lead from http to https of the same host, as one of lists may; not back.
func TestRedirectToHTTPS(t *testing.T) {
	for from, tt := range map[string]struct{ to, reached string }{
		"http://source.example/1.zip":         {"https://source.example/new/1.zip", "https://source.example/new/1.zip"},
		"http://source.example:80/1.zip":      {"https://source.example:443/1.zip", "https://source.example:443/1.zip"},
		"https://source.example/1.zip":        {"http://source.example/1.zip", ""},
		"http://source.example:8080/1.zip":    {"https://source.example/1.zip", ""},
		"https://source.example/1.zip?other":  {"https://other.example/1.zip", ""},
		"https://source.example/1.zip?user":   {"https://user@source.example/2.zip", ""},
		"https://source.example/1.zip?source": {"https://SOURCE.example:443/2.zip", "https://SOURCE.example:443/2.zip"},
	} {
		s := newServer(t)
		reached := ""
		c := s.client(func(c *packages.Config) {
			c.Transport = transport(func(r *http.Request) (*http.Response, error) {
				resp := httptest.NewRecorder()
				if r.URL.String() == from {
					http.Redirect(resp, r, tt.to, http.StatusMovedPermanently)
				} else {
					reached = r.URL.String()
					s.ServeHTTP(resp, r)
				}
				return resp.Result(), nil
			})
		})
		listed := s.listed(true)
		listed.URI = from
		if _, err := read(t.Context(), c, listed); (err == nil) != (tt.reached != "") || reached != tt.reached {
			t.Errorf("%s to %s: reached %q, %v", from, tt.to, reached, err)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// endless sends bytes until the reader stops.
func endless(w http.ResponseWriter, r *http.Request, _ int) bool {
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 32<<10)); err != nil {
			break
		}
	}
	return true
}

// A server that lies, is slow or never ends costs what the limits allow.
func TestBadServers(t *testing.T) {
	errFull := errors.New("the disk is full")
	status := func(code int) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(code); return true }
	}
	for name, tt := range map[string]struct {
		odd    func(w http.ResponseWriter, r *http.Request, n int) bool
		listed func(*lists.Package)
		config func(*packages.Config)
		want   error
		asked  string
	}{
		"nothing there":                {status(404), nil, nil, packages.ErrAnswer, "all"},
		"not modified, though unasked": {status(304), nil, nil, packages.ErrAnswer, "all"},
		"busy for ever":                {status(503), nil, func(c *packages.Config) { c.Attempts = 3 }, packages.ErrAnswer, "all all all"},
		"another hash": {nil, func(p *lists.Package) {
			p.Hash = "md5:00000000000000000000000000000000"
		}, nil, packages.ErrDiffers, "all"},
		"another length":               {nil, func(p *lists.Package) { p.Length++ }, nil, packages.ErrDiffers, "all"},
		"endless, beyond what is told": {endless, nil, nil, packages.ErrDiffers, "all"},
		"endless, and nothing is told": {endless, func(p *lists.Package) { p.Length, p.Hash = -1, "" }, func(c *packages.Config) { c.MaxBytes = 1 << 20 }, packages.ErrDiffers, "all"},
		"larger than may be":           {nil, nil, func(c *packages.Config) { c.MaxBytes = 1000 }, packages.ErrAnswer, ""},
		"no room, told":                {nil, nil, func(c *packages.Config) { c.Room = func(int64) error { return errFull } }, errFull, "all"},
		"no room, while it comes": {endless, func(p *lists.Package) { p.Length, p.Hash = -1, "" }, func(c *packages.Config) {
			left := int64(1 << 20)
			c.Room = func(n int64) error {
				if left -= max(n, 0); left < 0 {
					return errFull
				}
				return nil
			}
		}, errFull, "all"},
		"nothing comes": {func(
			_ http.ResponseWriter, r *http.Request, _ int,
		) bool {
			<-r.Context().Done()
			return true
		}, nil, func(c *packages.Config) {
			c.Window, c.Attempts, c.MinRate = 100*time.Millisecond, 2, 1<<20
		}, packages.ErrAnswer, "all all"},
		"it takes too long": {func(
			_ http.ResponseWriter, r *http.Request, _ int,
		) bool {
			<-r.Context().Done()
			return true
		}, nil, func(c *packages.Config) {
			c.Timeout = time.Millisecond
		}, packages.ErrAnswer, ""},
		"a coding": {func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Content-Encoding", "gzip")
			return false
		}, nil, nil, packages.ErrAnswer, "all"},
		"another host": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, "http://localhost:1/1.zip", http.StatusFound)
			return true
		}, nil, nil, packages.ErrAnswer, "all"},
		"round and round": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, "/1.zip", http.StatusFound)
			return true
		}, nil, nil, packages.ErrAnswer, "all all all all all all"},
		"no ZIP": {func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(w, strings.Repeat("<html>", 100))
			return true
		}, func(p *lists.Package) { p.Length, p.Hash = 600, "" }, nil, unpack.ErrFormat, "all"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.odd = tt.odd
			listed := s.listed(true)
			if tt.listed != nil {
				tt.listed(&listed)
			}
			c := s.client(tt.config)
			if _, err := read(t.Context(), c, listed); !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
			if asked := s.requests(); tt.asked != "" && asked != tt.asked {
				t.Errorf("asked for %q, want %q", asked, tt.asked)
			}
			if err := c.Sweep(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is left: %v", err)
			}
		})
	}
}

// Taken packages are remembered until all were taken, and unfinished ones are swept.
func TestUsed(t *testing.T) {
	s := newServer(t)
	c := s.client(nil)
	listed := s.listed(true)
	if begun, err := c.Begun(); begun || err != nil || c.Used(listed) {
		t.Errorf("begun %v, %v", begun, err)
	}
	p, err := c.Open(t.Context(), listed)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Discard(); err != nil {
		t.Fatal(err)
	}
	next := s.client(nil)
	newer := listed
	newer.LastMod = "2027-01-01T00:00:00Z"
	if begun, err := next.Begun(); !begun || err != nil || !next.Used(listed) || next.Used(newer) {
		t.Errorf("begun %v, %v; used %v, %v", begun, err, next.Used(listed), next.Used(newer))
	}
	s.requests()
	s.want(next, listed, "all") // it is there no more, and may be asked for
	if err := next.Sweep(); err != nil {
		t.Fatal(err)
	}
	if begun, err := c.Begun(); begun || err != nil {
		t.Errorf("begun %v, %v", begun, err)
	}
}

// Invalid manifests.
func TestBadManifests(t *testing.T) {
	const end = "</urlset>"
	for name, tt := range map[string]struct {
		edit func(string) string
		want error
	}{
		"none":               {func(string) string { return "" }, unpack.ErrManifest},
		"no XML":             {func(string) string { return "PK" }, payload.ErrSyntax},
		"another capability": {func(s string) string { return strings.Replace(s, "resourcedump-manifest", "resourcedump", 1) }, packages.ErrManifest},
		"that of changes": {func(s string) string {
			return strings.Replace(s, "resourcedump-manifest", "changedump-manifest", 1)
		}, packages.ErrManifest},
		"no capability": {func(s string) string { return strings.Replace(s, `capability="resourcedump-manifest"`, "", 1) }, packages.ErrManifest},
		"an index":      {func(s string) string { return strings.ReplaceAll(s, "urlset", "sitemapindex") }, packages.ErrManifest},
		"broken off":    {func(s string) string { return s[:len(s)-len(end)-5] }, payload.ErrSyntax},
		"entities": {func(s string) string {
			return strings.Replace(s, "<urlset", "<!DOCTYPE a [<!ENTITY b 'c'>]><urlset", 1)
		}, payload.ErrDoctype},
		"too many entries": {func(s string) string {
			return strings.Replace(s, end, strings.Repeat("<url><loc>a</loc></url>", 50_001)+end, 1)
		}, payload.ErrTooManyEntries},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			p := packagestest.New(t, payload.Head{Capability: payload.CapResourceDumpManifest, At: moment})
			p.Add(payload.Entry{Loc: "http://source.example/a"}, "a")
			p.Edit = tt.edit
			s.zip = p.Bytes()
			if got, err := read(t.Context(), s.client(nil), s.listed(true)); !errors.Is(err, tt.want) || !errors.Is(err, packages.ErrManifest) {
				t.Errorf("read %q, error %v, want %v", got, err, tt.want)
			}
		})
	}
}
