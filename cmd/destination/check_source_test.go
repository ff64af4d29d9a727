package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/check"
)

const (
	goodList = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2016-01-01T00:00:00Z"/>
  <url><loc>BASE/a.txt</loc><rs:md length="2"/></url>
</urlset>
`
	goodCapabilities = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="describedby" href="BASE/about"/>
  <rs:ln rel="up" href="BASE/description.xml"/>
  <rs:md capability="capabilitylist"/>
  <url><loc>BASE/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>
</urlset>
`
	goodDescription = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="describedby" href="BASE/about"/>
  <rs:md capability="description"/>
  <url><loc>BASE/capabilitylist.xml</loc><rs:md capability="capabilitylist"/><rs:ln rel="describedby" href="BASE/about"/></url>
</urlset>
`
)

// smallSite is a Source with one resource.
func smallSite(t *testing.T) *httptest.Server {
	t.Helper()
	var base string
	served := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(strings.ReplaceAll(text, "BASE", base)))
		}
	}
	site := http.NewServeMux()
	site.HandleFunc("/description.xml", served("application/xml", goodDescription))
	site.HandleFunc("/capabilitylist.xml", served("application/xml", goodCapabilities))
	site.HandleFunc("/resourcelist.xml", served("application/xml", strings.Replace(goodList, `href="/`, `href="BASE/`, 1)))
	site.HandleFunc("/a.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", "Fri, 01 Jan 2016 00:00:00 GMT")
		_, _ = w.Write([]byte("abc")) // one byte too many
	})
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	base = server.URL
	return server
}

// destination check says by its status what it has found, and by a line or an object each what that is.
func TestCheckCommand(t *testing.T) {
	t.Parallel()
	server := smallSite(t)
	file := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	list := server.URL + "/resourcelist.xml"
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		out    string // a part of what is printed
	}{
		{"nothing wrong", []string{list}, 0, "check: 3 documents, 0 packages, 0 resources, 3 requests (0.0 MB): 0 errors, 0 warnings, 0 notes\n"},
		{
			"a resource that differs",
			[]string{list, "--sample", "5"},
			1,
			"error core 7 " + list + ":4 url[1]/rs:md/@length: length of \"" + server.URL + "/a.txt\" is \"2\", and the served one has \"3\"; list what is served, or make the list anew\n",
		},
		{"a limit", []string{list, "--max-requests", "1"}, 0, "note limits " + list + " rs:ln[1]: not everything was looked at: as many requests as are allowed were made (1); allow more requests\n"},
		{"nothing there", []string{server.URL + "/none.xml"}, 2, "none.xml: it is answered 404 Not Found; correct the address, or begin at the site, " + server.URL + "/\n"},
		{"one of two", []string{server.URL + "/none.xml", list, "--sample", "1"}, 2, "1 resource, 5 requests (0.0 MB): 1 error, "},
		{"a file", []string{
			file("list.xml", strings.ReplaceAll(goodList, "/capabilitylist", "http://a.test/capabilitylist")),
		}, 1, "list.xml:4 url[1]/loc: loc must be an absolute"},
		{"a file that is not there", []string{filepath.Join(t.TempDir(), "none")}, 2, "no such file"},
		{
			"a file whose links lead to a host that is trusted",
			[]string{
				file("list.xml", strings.ReplaceAll(strings.ReplaceAll(goodList, `href="/`, `href="BASE/`), "BASE", server.URL)),
				"--trust-host", strings.TrimPrefix(server.URL, "http://"),
			},
			0, "check: 4 documents",
		},
		{
			"a file whose links lead elsewhere",
			[]string{file("list.xml", strings.ReplaceAll(strings.ReplaceAll(goodList, `href="/`, `href="BASE/`), "BASE", server.URL))},
			0,
			"it is at another host; allow it with --trust-host " + strings.TrimPrefix(server.URL, "http://") + "\n",
		},
		{"no place", nil, 2, "expected \"<place> ...\""},
		{"a negative limit", []string{list, "--max-depth", "0"}, 2, "--max-depth must be 1 or more, not 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			status := run(t.Context(), append([]string{"check"}, tt.args...), &out, &out)
			if status != tt.status || !strings.Contains(out.String(), tt.out) {
				t.Errorf("status %d\n%swant %d: %s", status, &out, tt.status, tt.out)
			}
		})
	}
}

// With --json each line is an object, the last with the summary.
func TestCheckCommandJSON(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	if status := run(t.Context(), []string{"check", smallSite(t).URL + "/resourcelist.xml", "--sample", "1", "--json"}, &out, &stderr); status != 1 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	lines := json.NewDecoder(&out)
	var f check.Finding
	var end struct{ Summary check.Summary }
	if err := lines.Decode(&f); err != nil || f.Level != check.Error || f.Clause != "core 7" || f.Line != 4 || f.Mend == "" {
		t.Errorf("%v %+v", err, f)
	}
	if err := lines.Decode(&end); err != nil || end.Summary.Errors != 1 || end.Summary.Documents != 3 || end.Summary.Resources != 1 || !end.Summary.Complete {
		t.Errorf("%v %+v", err, end)
	}
	if lines.More() {
		t.Error("there is more than the finding and the summary")
	}
}
