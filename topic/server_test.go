package topic_test

import (
	"net/url"
	"strings"
	"testing"

	"carillon/topic"
)

// All spellings of one server have one Origin, and no two servers share one.
func TestOrigin(t *testing.T) {
	seen := map[string]string{}
	for want, urls := range map[string][]string{
		"http://h.example":             {"http://h.example/a", "HTTP://H.example:80?b", "http://h.example", "http://h.example.#c", "http://u:p@a@h.example/", "http://h.example:080/"},
		"https://h.example":            {"https://h.example/", "https://h.example:443/", "https://h.example.:443"},
		"http://h.example:443":         {"http://h.example:443/"},
		"http://h.example:8080":        {"http://h.example:8080/"},
		"http://[::1]:8080":            {"http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1%25eth0]:8080/"},
		"http://8.8.8.8":               {"http://8.8.8.8/", "http://8.8.8.8./", "http://[::ffff:8.8.8.8]/", "http://[::ffff:808:808]:80/"},
		"http://xn--bcher-kva.example": {"http://XN--Bcher-KVA.example./"},
		"http://\u212ailo.example":     {"http://\u212aILO.example/"}, // the Kelvin sign is no k
		"": {
			"", "mailto:a@h.example", "/relative", "ftp://h.example/", "http://", "http:///a", "http://u@/", "http://h.example../",
			"http://h%41.example/", "http://" + strings.Repeat("a", 254) + "/",
		},
	} {
		for _, raw := range urls {
			if got := topic.Origin(raw); got != want {
				t.Errorf("the origin of %q is %q, want %q", raw, got, want)
			}
			if got := topic.Authority(raw); got != strings.TrimPrefix(strings.TrimPrefix(want, "http://"), "https://") {
				t.Errorf("the authority of %q is %q, its origin %q", raw, got, want)
			}
			if other, is := seen[raw]; is {
				t.Errorf("%q has the origins %q and %q", raw, other, want)
			}
			seen[raw] = want
		}
	}
}

func TestHost(t *testing.T) {
	for raw, want := range map[string]string{
		"http://H.example:8080/a": "h.example",
		"https://h.example./":     "h.example",
		"http://[::1]:8080":       "::1",
		"http://127.0.0.1:1?x":    "127.0.0.1",
		"mailto:a@h.example":      "",
	} {
		if got := topic.Host(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// FuzzServer: an origin is its own origin, and scheme, host and port of every URL that two readers
// understand alike are in it.
func FuzzServer(f *testing.F) {
	for _, raw := range []string{
		"http://h", "HTTPS://H.example.:443/%7E?a#b", "http://[::1%25a]:080", "http://u@h/", "http://h%41/", "http://[::ffff:1.2.3.4]/",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		origin := topic.Origin(raw)
		if again := topic.Origin(origin); again != origin {
			t.Fatalf("the origin of %q is %q, and of that %q", raw, origin, again)
		}
		if site := topic.Site(raw); origin != "" && site != topic.Site(origin) {
			t.Fatalf("the site of %q is %q, of its origin %q", raw, site, topic.Site(origin))
		}
		u, err := url.Parse(raw)
		if err != nil || origin == "" {
			return
		}
		if got := topic.Origin(topic.Server(u)); got != origin {
			t.Fatalf("the origin of %q is %q, and of its server %q %q", raw, origin, topic.Server(u), got)
		}
	})
}
