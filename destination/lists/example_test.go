package lists_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// serve serves the pages of a Source, packed, and answers 304 for an unchanged one.
func serve(pages map[string]page) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pages[r.URL.Path]
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, strings.ReplaceAll(p.body, site, "http://"+r.Host))
		_ = z.Close()
	}))
}

func Example() {
	pages := source()
	pages["/a/changelist.xml"] = page{body: urlset(changed("10:00", ""), change("a/1", "10:10"), change("a/2", "10:20"))}
	server := serve(pages)
	defer server.Close()

	client, err := lists.New(lists.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	sets, err := client.Discover(ctx, server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	since := time.Date(2026, 3, 1, 10, 15, 0, 0, time.UTC)
	for range 2 {
		covered, err := client.Changes(ctx, sets[0].ChangeList, since, func(e payload.Entry) error {
			fmt.Println(strings.TrimPrefix(e.Loc, server.URL), e.Change, payload.FormatDatetime(e.Datetime))
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("until", payload.FormatDatetime(covered.Until), "unchanged:", covered.Unchanged)
		since = covered.Until // the next reading goes on from there
	}
	// Output:
	// /a/2 updated 2026-03-01T10:20:00.000000Z
	// until 2026-03-01T10:20:00.000000Z unchanged: false
	// until 2026-03-01T10:20:00.000000Z unchanged: true
}

// The default transport: packed answers are read, a redirect is followed, and a dead server is an
// error that names it.
func TestOverHTTP(t *testing.T) {
	server := serve(map[string]page{"/r": {body: urlset(taken("10:00", ""), resource("a"))}})
	c, err := lists.New(lists.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	got, err := c.Resources(t.Context(), server.URL+"/r", func(payload.Entry) error { n++; return nil })
	if err != nil || n != 1 || !got.At.Equal(at("10:00")) {
		t.Errorf("%d entries, %+v, %v", n, got, err)
	}
	server.Close()
	if _, err := c.Resources(
		t.Context(), server.URL+"/r", func(payload.Entry) error { return nil },
	); err == nil || strings.Count(err.Error(), server.URL) != 1 {
		t.Errorf("error %v", err)
	}
}
