package negotiate_test

import (
	"net/http"
	"testing"

	"carillon/internal/negotiate"
)

func TestGzip(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"gzip"}, true},
		{[]string{"GZIP"}, true},
		{[]string{"x-gzip"}, true},
		{[]string{"br", "deflate, gzip"}, true},
		{[]string{"br, deflate"}, false},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip; Q = 0.0"}, false},
		{[]string{"gzip;q=0.001"}, true},
		{[]string{"gzip;q=high"}, false},
		{[]string{"gzip;level=1"}, true},
		{[]string{"*"}, true},
		{[]string{"*;q=0"}, false},
		{[]string{"*;q=0, gzip"}, true},
		{[]string{"gzip;q=0, *"}, false},
		{[]string{"*", "gzip;q=0"}, false},
		{[]string{"identity;q=1, *;q=0.5"}, true},
		{[]string{"gzippy"}, false},
	} {
		if got := negotiate.Gzip(http.Header{"Accept-Encoding": c.lines}); got != c.want {
			t.Errorf("Accept-Encoding %q: %t, want %t", c.lines, got, c.want)
		}
	}
}

func TestHasTag(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{`"a"`}, true},
		{[]string{`W/"a"`}, true},
		{[]string{`"b", "a"`}, true},
		{[]string{`"b"`, ` W/"a" `}, true},
		{[]string{"*"}, true},
		{[]string{"a"}, false},
		{[]string{`"aa"`}, false},
		{[]string{`w/"a"`}, false},
	} {
		if got := negotiate.HasTag(http.Header{"If-None-Match": c.lines}, `"a"`); got != c.want {
			t.Errorf("If-None-Match %q: %t, want %t", c.lines, got, c.want)
		}
	}
}
