package check_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/check"
)

const (
	opening = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	indexed = `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
)

// limited reports whether a note says that a limit was reached.
func limited(found []check.Finding, says string) bool {
	for i := range found {
		if found[i].Level == check.Note && found[i].Clause == "limits" && strings.Contains(found[i].What, says) {
			return true
		}
	}
	return false
}

// Each limit ends the walk with a note, and the summary says that not everything was looked at.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits check.Limits
		says   string
	}{
		{"requests", check.Limits{Requests: 7}, "as many requests as are allowed were made (7)"},
		{"bytes", check.Limits{Bytes: 9000}, "as many bytes as are allowed were read (9000)"},
		{"depth", check.Limits{Depth: 1}, "links are followed 1 times from a place"},
		{"time", check.Limits{Time: time.Nanosecond}, "the time is over (1ns)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			found, sum, _ := s.try(check.Config{Sample: 10, Limits: tt.limits}, "/a/capabilitylist.xml")
			if !limited(found, tt.says) || sum.Complete || sum.Errors > 0 {
				t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
			}
			if l := tt.limits; l.Requests > 0 && sum.Requests > l.Requests || l.Bytes > 0 && sum.Bytes > l.Bytes {
				t.Errorf("%+v is more than %+v", sum, l)
			}
		})
	}
}

// One bound holds for all that a walk unpacks: packages, each of them small enough, and gzip
// files (TestLimitsOfWhatIsListed).
func TestUnpackedTogether(t *testing.T) {
	for _, tt := range []struct {
		name string
		most int64
	}{
		{"several packages", 3000},
		{"the first package", 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			found, sum := s.look(check.Config{Limits: check.Limits{Unpacked: tt.most}}, "/")
			if len(found) != 1 || sum.Complete || !limited(found, fmt.Sprintf("as many bytes as are allowed were unpacked (%d)", tt.most)) {
				t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
			}
		})
	}
}

// endless writes a document that never ends, until the reader stops.
func endless(head, again string) http.HandlerFunc {
	again = strings.Repeat(again, 1+10_000/len(again))
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for err == nil {
			_, err = io.WriteString(w, again)
		}
	}
}

// The documents of a hostile Source cost no more than the limits, and end the walk nowhere else.
func TestHostileSites(t *testing.T) {
	bomb := zipBomb(t)
	for _, tt := range []struct {
		name   string
		change func(*site)
		// want is a part of a line that is found.
		want     string
		requests int // at most
	}{
		{"a document with endless entries", func(s *site) {
			s.handlers["x.xml"] = endless(opening+`<rs:md capability="changelist"/>`, "<url><loc>http://a.test/</loc></url>")
		}, "error core 7 /x.xml: it is over a limit", 5},
		{"a document with endless space", func(s *site) {
			s.handlers["x.xml"] = endless(opening, " ")
		}, "error core 7 /x.xml: it is over a limit", 5},
		{"an entry without end", func(s *site) {
			s.handlers["x.xml"] = endless(opening+"<url><loc>", "a")
		}, "error core 7 /x.xml: it is over a limit", 5},
		{"more documents than bytes are allowed for", func(s *site) {
			s.files["x.xml"] = indexed + `<rs:md capability="changelist"/>` + strings.Repeat(
				"<sitemap><loc>/y1.xml</loc></sitemap>", 2,
			) + "<sitemap><loc>/y2.xml</loc></sitemap></sitemapindex>"
			s.handlers["y1.xml"] = endless(opening, "<!-- "+strings.Repeat("-x", 100_000)+" -->")
			s.handlers["y2.xml"] = s.handlers["y1.xml"]
		}, "note limits /y2.xml: not everything was looked at: as many bytes as are allowed were read", 5},
		{"a gzip bomb", func(s *site) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, opening+strings.Repeat(" ", 60_000_000))
			_ = z.Close()
			s.files["x.xml"] = b.String()
		}, "error core 7 /x.xml: it is over a limit", 5},
		{"an index that lists itself", func(s *site) {
			s.files["x.xml"] = indexed + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/><sitemap><loc>{base}/x.xml</loc></sitemap></sitemapindex>`
		}, "error core 10.2 /x.xml:1 sitemap[1]/loc: the part", 5},
		{"a chain of indexes without end", func(s *site) {
			s.before = func(r *http.Request) {
				n := strings.Trim(r.URL.Path, "/x.ml")
				s.handlers[strings.TrimPrefix(r.URL.Path, "/")] = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/xml")
					fmt.Fprintf(w, `%s<rs:md capability="resourcelist"/><sitemap><loc>/x%s1.xml</loc></sitemap></sitemapindex>`, indexed, n)
				}
			}
		}, "note limits", 25},
		{"up links in a circle", func(s *site) {
			s.files["x.xml"] = opening + `<rs:ln rel="up" href="/y.xml"/><rs:md capability="capabilitylist"/></urlset>`
			s.files["y.xml"] = opening + `<rs:ln rel="up" href="/x.xml"/><rs:md capability="capabilitylist"/></urlset>`
		}, "error core 9 /x.xml rs:ln[1]: the link with rel=up", 5},
		{"redirects without end", func(s *site) {
			s.files["x.xml"] = opening + `<rs:ln rel="up" href="/loop/1"/><rs:md capability="capabilitylist"/></urlset>`
			s.before = func(r *http.Request) {
				s.handlers[strings.TrimPrefix(r.URL.Path, "/")] = func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, r.URL.Path+"1", http.StatusFound)
				}
				delete(s.handlers, "x.xml")
			}
		}, "cannot be read: it redirects more than 5 times", 10},
		{"a redirect to another host", func(s *site) {
			s.files["x.xml"] = opening + `<rs:ln rel="up" href="/go"/><rs:md capability="capabilitylist"/></urlset>`
			s.handlers["go"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
			}
		}, "note limits /x.xml rs:ln[1]: \"/go\" was not looked at: not allowed: no such host is trusted", 5},
		{"a redirect to a file", func(s *site) {
			s.files["x.xml"] = opening + `<rs:ln rel="up" href="/go"/><rs:md capability="capabilitylist"/></urlset>`
			s.handlers["go"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "file:///etc/passwd")
				w.WriteHeader(http.StatusFound)
			}
		}, "it redirects to \"file:///etc/passwd\", which is no http or https address", 5},
		{"a document that breaks off", func(s *site) {
			s.handlers["x.xml"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100000")
				_, _ = io.WriteString(w, opening)
			}
		}, "error core 6.1 /x.xml: it cannot be read", 5},
		{"links upwards without end", func(s *site) {
			s.files["x.xml"] = opening + strings.Repeat(
				`<rs:ln rel="up" href="{base}/none"/>`, 4000,
			) + `<rs:md capability="capabilitylist"/></urlset>`
		}, "note limits /x.xml: not everything was looked at: it has more than 20 links with rel=up", 5},
		{"entities", func(s *site) {
			s.files["x.xml"] = `<!DOCTYPE urlset [<!ENTITY a "aaaaaaaa">]>` + opening + "&a;</urlset>"
		}, "error core 6.1 /x.xml", 5},
		{"a ZIP bomb", func(s *site) { s.files["x.zip"] = bomb }, "error core 11.2 /x.zip: the ZIP file exceeds a limit", 5},
		{"a ZIP that is none", func(s *site) { s.files["x.zip"] = "PK\x03\x04 and nothing" }, "error core 11.2 /x.zip", 5},
		{"a package without end", func(s *site) {
			s.handlers["x.zip"] = endless("PK\x03\x04", "x")
		}, "note limits /x.zip: not everything was looked at", 5},
		{"control characters", func(s *site) {
			s.files["x.xml"] = opening + "<rs:ln rel=\"up\" href=\"/&#x202E;&#x85;x\"/><rs:md capability=\"\u202E\u009b\"/></urlset>"
		}, "error core 7 /x.xml", 5},
		{"a million broken entries", func(s *site) {
			s.files["x.xml"] = opening + `<rs:ln rel="up" href="/x.xml"/><rs:md capability="capabilitylist"/>` +
				strings.Repeat(`<url><loc>/none</loc><rs:md capability="x"/></url>`, 50_000) + "</urlset>"
		}, "others of the kind in this document are not reported", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			tt.change(s)
			place := "/x.xml"
			if strings.HasSuffix(tt.name, "ZIP bomb") || strings.Contains(tt.name, "ZIP that") || strings.Contains(tt.name, "package") {
				place = "/x.zip"
			}
			s.open()
			found, sum, err := s.try(check.Config{
				Allow: func(u *url.URL) error {
					if "http://"+u.Host != s.base {
						return errors.New("no such host is trusted")
					}
					return nil
				},
				Limits: check.Limits{Bytes: 80 << 20},
			}, place)
			if err != nil {
				t.Fatal(err)
			}
			lines := s.lines(found)
			all := strings.Join(lines, "\n")
			if !strings.Contains(all, tt.want) {
				t.Errorf("not found: %s\n%s", tt.want, all)
			}
			if sum.Requests > tt.requests || len(found) > 150 {
				t.Errorf("%+v, %d findings", sum, len(found))
			}
			for _, r := range all {
				if r != '\n' && (r < ' ' || r == '\u202e' || r >= 0x7f && r < 0xa0) {
					t.Fatalf("%q has %U", all, r)
				}
			}
		})
	}
}

// Findings without end are counted, and not reported for ever.
func TestManyFindings(t *testing.T) {
	s := newSite(t)
	var index strings.Builder
	part := opening + strings.Repeat(
		`<rs:ln rel="up" href="/none"/><rs:ln rel="index" href="/none"/>`, 20,
	) + `<rs:md capability="resourcelist"/></urlset>`
	for i := range 600 {
		fmt.Fprintf(&index, "<sitemap><loc>{base}/p%d.xml</loc></sitemap>", i)
		s.handlers[fmt.Sprintf("p%d.xml", i)] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, part) }
	}
	s.files["x.xml"] = indexed + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>` + index.String() + "</sitemapindex>"
	found, sum := s.look(check.Config{}, "/x.xml")
	if len(found) != 10_000 || sum.Errors+sum.Warnings <= 10_000 || !limited(found[9_999:], "more than 10000 findings") {
		t.Errorf("%d findings are told, and the summary is %+v; the last: %s", len(found), sum, found[len(found)-1].String())
	}
}

// zipBomb is a small ZIP file that unpacks to 100 MB.
func zipBomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("manifest.xml")
	if err == nil {
		_, err = f.Write(make([]byte, 100_000_000))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hanging answers nothing, or a body that never ends.
type hanging struct{ header bool }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.header {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: stuck{r.Context()}, Request: r}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
func (stuck) Close() error { return nil }

// A Source that is slow costs the time of one answer for each address, and all of them together that of the walk.
func TestSlowSites(t *testing.T) {
	for _, tt := range []struct {
		name      string
		transport http.RoundTripper
		limits    check.Limits
		took      time.Duration
	}{
		{"no header", hanging{}, check.Limits{}, time.Minute},
		{"no body", hanging{true}, check.Limits{}, time.Minute},
		{"less time for all", hanging{}, check.Limits{Time: time.Second}, time.Second},
		{"less time for all, and no body", hanging{true}, check.Limits{Time: time.Second}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var found []check.Finding
				sum, err := check.Run(t.Context(), check.Config{Transport: tt.transport, Limits: tt.limits},
					[]string{"http://slow.test/x.xml"}, func(f check.Finding) { found = append(found, f) })
				if took := time.Since(begun); took != tt.took || err == nil && sum.Errors+sum.Notes == 0 {
					t.Errorf("%s, %v, %+v, %+v", took, err, sum, found)
				}
			})
		})
	}
}

// A walk that is given up ends at once, and says so.
func TestGivenUp(t *testing.T) {
	s := newSite(t)
	s.open()
	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(*http.Request) { cancel() }
	_, err := check.Run(ctx, check.Config{Transport: &http.Transport{DisableKeepAlives: true}}, []string{s.base + "/"}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Documents that were read are not compared any more when the caller has given up.
func TestGivenUpBeforeJudging(t *testing.T) {
	s := newSite(t)
	s.edit("a/resourcelist.xml", `<rs:md at="2026-01-05T00:05:00Z"`, `<rs:md at="2026-01-05T00:06:00Z"`)
	s.open()
	if found, _ := s.look(check.Config{}, "/a/capabilitylist.xml"); len(found) != 1 {
		t.Fatalf("%v", s.lines(found))
	}
	read := slices.Index(s.requests, "GET /a/resourcelist-2.xml")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s.before = func(*http.Request) {
		if n++; n > read+1 {
			cancel()
		}
	}
	_, err := check.Run(ctx, check.Config{Transport: &http.Transport{DisableKeepAlives: true}},
		[]string{s.base + "/a/capabilitylist.xml"},
		func(f check.Finding) { t.Errorf("%s", f.String()) })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A place that cannot be looked at is an error, and the others are looked at all the same.
func TestPlacesThatCannotBeLookedAt(t *testing.T) {
	s := newSite(t)
	s.status["trouble.xml"] = http.StatusServiceUnavailable
	s.open()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for place, want := range map[string]string{
		"/nothing.xml":     "it is answered 404 Not Found; correct the address, or begin at the site, http://",
		"/trouble.xml":     "it is answered 503 Service Unavailable; see that the server runs, and check again",
		"ftp://a.test/x":   "is no http or https address",
		"testdata":         "is not a file",
		"http://u@a.test/": "is not an absolute http or https address without a user name",
		"http://x.test/y":  "not allowed",
	} {
		if strings.HasPrefix(place, "/") {
			place = s.base + place
		}
		cfg := check.Config{Transport: transport, Files: true, Allow: func(u *url.URL) error {
			if u.Host == "x.test" {
				return errors.New("no")
			}
			return nil
		}}
		sum, err := check.Run(t.Context(), cfg, []string{place, s.base + "/a/capabilitylist.xml"}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || sum.Documents < 20 || sum.Complete {
			t.Errorf("%s: %v, %+v", place, err, sum)
		}
	}
	cfg := check.Config{Transport: transport}
	if _, err := check.Run(t.Context(), cfg, []string{filepath.Join("testdata", "duties.txt")}, nil); err == nil {
		t.Error("files are read though Config.Files is not set")
	}
	if _, err := check.Run(t.Context(), check.Config{Limits: check.Limits{Bytes: -1}}, nil, nil); err == nil {
		t.Error("a negative limit is taken")
	}
}

// A site that answers nothing but errors is in trouble. Nothing is known of its documents.
func TestSiteInTrouble(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{".well-known/resourcesync", "index.html", "robots.txt"} {
		s.status[name] = http.StatusBadGateway
	}
	found, sum, err := s.try(check.Config{}, "/")
	if err == nil || !strings.Contains(
		err.Error(), "/.well-known/resourcesync: it is answered 502 Bad Gateway; see that",
	) || len(found) > 0 || sum.Complete {
		t.Errorf("%v, %+v\n%s", err, sum, strings.Join(s.lines(found), "\n"))
	}
}

// A server with an untrusted certificate gets a finding of its own, with the remedy.
func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	_, err := check.Run(t.Context(), check.Config{Transport: transport}, []string{server.URL + "/x.xml"}, nil)
	if err == nil || !strings.Contains(err.Error(), "failed to verify certificate") || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Error(err)
	}
}

// watched calls see before each read of an answer's body.
type watched struct {
	http.RoundTripper
	see func()
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = watchedBody{resp.Body, w.see}
	}
	return resp, err
}

type watchedBody struct {
	io.ReadCloser
	see func()
}

func (b watchedBody) Read(p []byte) (int, error) {
	b.see()
	return b.ReadCloser.Read(p)
}

// While a package is read, its temporary file has no name, so that nothing is left of it after a kill.
func TestPackagesLeaveNothing(t *testing.T) {
	s := newSite(t)
	s.open()
	dir, most, may := t.TempDir(), 0, 0
	if runtime.GOOS == "windows" { // an open file cannot be removed there
		may = 1
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	see := func() {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		most = max(most, len(left))
	}
	sum, err := check.Run(t.Context(), check.Config{Transport: watched{transport, see}, Dir: dir}, []string{s.base + "/a/rd-1.zip"}, nil)
	if err != nil || sum.Packages == 0 || most > may {
		t.Errorf("%v, %+v, %d files with a name", err, sum, most)
	}
}

// A package that cannot be kept here is not the Source's fault.
func TestNoPlaceForPackages(t *testing.T) {
	s := newSite(t)
	s.open()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var found []check.Finding
	sum, err := check.Run(t.Context(), check.Config{Transport: transport, Dir: filepath.Join(t.TempDir(), "none")},
		[]string{s.base + "/a/capabilitylist.xml"}, func(f check.Finding) { found = append(found, f) })
	if err != nil || sum.Complete || len(found) != 1 || !limited(found, "packages were not looked at: no temporary file can be written: open ") {
		t.Errorf("%v, %+v\n%s", err, sum, strings.Join(s.lines(found), "\n"))
	}
}

// Memory, and the unpacked size of gzip files, have bounds too.
func TestLimitsOfWhatIsListed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits check.Limits
		change func(*site)
		says   string
	}{
		{"memory", check.Limits{Memory: 10_000}, func(*site) {}, "the documents list more than is remembered"},
		{"gzip", check.Limits{Unpacked: 100_000}, func(s *site) {
			s.open()
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, err := io.WriteString(z, strings.Replace(s.files["a/resourcelist-1.xml"], "</urlset>", strings.Repeat(" ", 1<<20)+"</urlset>", 1))
			if err = errors.Join(err, z.Close()); err != nil {
				t.Fatal(err)
			}
			s.files["a/resourcelist-1.xml"] = b.String()
		}, "as many bytes as are allowed were unpacked (100000)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.change(s)
			found, sum := s.look(check.Config{Limits: tt.limits}, "/a/capabilitylist.xml")
			if !limited(found, tt.says) || sum.Complete || sum.Errors > 0 {
				t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
			}
		})
	}
}

// The servers of the places are asked, and no others.
func TestAtServers(t *testing.T) {
	allow := check.AtServers([]string{"https://A.test/x", "http://b.test:8080/", "http://[2001:DB8::1]/", "a-file.xml"})
	for address, want := range map[string]bool{
		"https://a.test/": true, "http://a.test:80/y": true, "https://a.test:443/": true, "https://a.test:8443/": false, "http://a.test:443/": false,
		"http://b.test:8080/z": true, "https://b.test:8080/": false, "http://b.test/": false,
		"http://[2001:db8::1]:80/": true, "https://[2001:db8::1]/": true, "http://c.a.test/": false, "http://a-file.xml/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := allow(u); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
