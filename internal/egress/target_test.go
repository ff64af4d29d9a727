package egress_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"carillon/internal/egress"
)

// firstLine writes a request to the URL and returns its first line.
func firstLine(t *testing.T, u *url.URL) string {
	t.Helper()
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(&wire).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestTarget(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h.example":                    "/",
		"HTTP://h.example?a":                  "/?a",
		"https://h.example:8443/?":            "/?",
		"http://h.example/a{b}%2Fc":           "/a{b}%2Fc",
		"http://h.example/%7E/../.?%zz=+;":    "/%7E/../.?%zz=+;",
		"http://h.example/\u00e9/%2f?=\u00fc": "/%C3%A9/%2f?=%C3%BC",
		"http://h.example/a b\r\nX: y":        "/a%20b%0D%0AX:%20y",
		"http://h.example//double/%2f/?x":     "//double/%2f/?x",
		"http://h.example//{double}?x":        "http://h.example//{double}?x",
		"http://h.example//%zz":               "http://h.example//%zz",
		"http://h.example/a?b#c?d":            "/a?b",
		"http://[::1]:80/x":                   "/x",
	} {
		u, err := egress.Target(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := firstLine(t, u); got != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	for _, raw := range []string{
		"", "/a", "//h/a", "ftp://h/a", "http:h", "http:///a", "http://?a", "http://u@h/", "http://h:port/?secret", "http://[::1/",
	} {
		if u, err := egress.Target(raw); !errors.Is(err, egress.ErrBadURL) {
			t.Errorf("%q: %v, %v", raw, u, err)
		}
	}
}

// FuzzTarget: for any URL, a request line holds printable ASCII alone, and such characters of the URL
// stand in it unchanged.
func FuzzTarget(f *testing.F) {
	for _, raw := range []string{"http://h", "http://h/a{b}%2Fc?x=%zz", "http://h//x?", "https://[::1]:1/\u00e9?a#b"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := egress.Target(raw)
		if err != nil {
			if !errors.Is(err, egress.ErrBadURL) {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		line := strings.TrimPrefix(u.RequestURI(), u.Scheme+"://"+u.Host)
		if strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("%q: %q", raw, line)
		}
		given, _, _ := strings.Cut(raw, "#")
		plain := !strings.ContainsFunc(given, func(r rune) bool { return r <= ' ' || r >= 0x7f })
		if plain && !strings.HasSuffix(given, strings.TrimPrefix(line, "/")) {
			t.Fatalf("%q: %q", raw, line)
		}
	})
}
