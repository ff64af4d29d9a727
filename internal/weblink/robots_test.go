package weblink_test

import (
	"slices"
	"strings"
	"testing"

	"carillon/internal/weblink"
)

func TestSitemaps(t *testing.T) {
	got, err := weblink.Sitemaps(strings.NewReader("\ufeffSitemap: /a\nUser-agent: *\nDisallow:\n" +
		"sitemap:http://h/b#c # the second\nSitemap:\nX-Sitemap: /d\n"))
	want := []weblink.Sitemap{{URI: "/a", Line: 1}, {URI: "http://h/b#c", Line: 4}, {URI: "", Line: 5}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = weblink.Sitemaps(strings.NewReader(strings.Repeat("Sitemap: /a\n", 1000)))
	if err != nil || len(got) != 100 {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

// FuzzSitemaps: whatever a robots.txt has, each URI is short and one line, and no line comes twice.
func FuzzSitemaps(f *testing.F) {
	f.Add("Sitemap: /a\r\n")
	f.Add(strings.Repeat("a", 100_000) + "\nSitemap: /b")
	f.Fuzz(func(t *testing.T, robots string) {
		all, err := weblink.Sitemaps(strings.NewReader(robots))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range all {
			if strings.Contains(s.URI, "\n") || !strings.Contains(robots, s.URI) ||
				i > 0 && s.Line <= all[i-1].Line {
				t.Errorf("%+v", all)
			}
		}
	})
}
