package mirror_test

import (
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"carillon/destination/mirror"
)

func TestPaths(t *testing.T) {
	long := strings.Repeat("x", 300)
	for loc, want := range map[string]string{
		"http://Example.com/a/b.txt":                      "example.com/a/b.txt",
		"https://example.com:443/a":                       "example.com/a",
		"http://example.com:8080/a":                       "example.com+8080/a",
		"http://[::1]:8080/a":                             "%3A%3A1+8080/a",
		"http://example.com":                              "example.com/index.html",
		"http://example.com/":                             "example.com/index.html",
		"http://example.com/d/":                           "example.com/d/index.html",
		"http://example.com//a":                           "example.com/%~/a",
		"http://example.com/My%20file.pdf":                "example.com/My file.pdf",
		"http://example.com/caf%C3%A9":                    "example.com/café",
		"http://example.com/café":                         "example.com/café",
		"http://example.com/a?b=c&d=%2Fe":                 "example.com/a%3Fb=c&d=%2Fe",
		"http://example.com/?q=1":                         "example.com/%3Fq=1",
		"http://example.com/a#b":                          "example.com/a#b",
		"http://example.com/../../etc/passwd":             "example.com/%2E%2E/%2E%2E/etc/passwd",
		"http://example.com/%2e%2e/%2E/x":                 "example.com/%2E%2E/%2E/x",
		"http://example.com/..%2f..%2fx":                  "example.com/%2E.%2F..%2Fx",
		`http://example.com/..\..\x`:                      `example.com/%2E.%5C..%5Cx`,
		"http://example.com/a%00b":                        "example.com/a%00b",
		"http://example.com/a%0Ab":                        "example.com/a%0Ab",
		"http://example.com/.htaccess":                    "example.com/%2Ehtaccess",
		"http://example.com/.carillon/LOCK":               "example.com/%2Ecarillon/LOCK",
		"http://example.com/a.../b%20":                    "example.com/a%2E%2E%2E/b%20",
		"http://example.com/CON/nul.txt/com1/COM%C2%B9":   "example.com/%43ON/%6Eul.txt/%63om1/%43OM¹",
		"http://example.com/console":                      "example.com/console",
		"http://example.com/%FF%80":                       "example.com/%FF%80",
		"http://example.com/%E2%80%AEtxt.exe":             "example.com/%E2%80%AEtxt.exe",
		"http://example.com/100%25":                       "example.com/100%25",
		"http://example.com/a%EF%B8%8F%CD%8F":             "example.com/a%EF%B8%8F%CD%8F",
		"http://example.com/%E3%85%A4a":                   "example.com/%E3%85%A4a",
		"http://example.com/C:/x|y":                       "example.com/C%3A/x%7Cy",
		"http://example.com/" + long + ".txt":             "example.com/" + long[:140] + "%~" + "*.txt",
		"http://example.com/" + strings.Repeat("d/", 120): "example.com/%~long/*",
		"http://../x":                                     "%2E/x",
	} {
		got, err := mirror.PathOf(loc)
		if err != nil {
			t.Errorf("%.60s: %v", loc, err)
			continue
		}
		if head, tail, cut := strings.Cut(want, "*"); cut && strings.HasPrefix(got, head) && strings.HasSuffix(got, tail) && len(got) > len(want) {
			continue
		}
		if got != want {
			t.Errorf("%.60s is at %q, want %q", loc, got, want)
		}
	}
	for _, loc := range []string{
		"", "a/b", "ftp://example.com/x", "file:///etc/passwd", "http:///x",
		"http://user@example.com/x", "http:opaque", "http://exa mple/",
		"http://a/" + strings.Repeat("x", 9000),
	} {
		if got, err := mirror.PathOf(loc); !errors.Is(err, mirror.ErrLoc) {
			t.Errorf("%.60q is at %q, %v", loc, got, err)
		}
	}
}

func TestBases(t *testing.T) {
	for _, tt := range []struct {
		base, loc string
		want      bool
	}{
		{"http://a.test/", "http://a.test/x", true},
		{"http://a.test", "http://A.test:80/x", true},
		{"http://a.test/", "https://a.test/x", true},
		{"https://a.test/", "http://a.test/x", false},
		{"http://a.test/", "http://a.test:8080/x", false},
		{"http://a.test:8080/", "http://a.test+8080/x", false},
		{"http://a.test/", "http://b.test/x", false},
		{"http://a.test/", "http://a.test.b.test/x", false},
		{"http://a.test/", "http://u@a.test/x", false},
		{"http://a.test/pub", "http://a.test/pub", true},
		{"http://a.test/pub/", "http://a.test/pub/x?y", true},
		{"http://a.test/pub/", "http://a.test/public/x", false},
		{"http://a.test/pub/", "http://a.test/pub/../x", false},
		{"http://a.test/pub/", "http://a.test/pub/%2e%2e/x", false},
		{"http://a.test/pub/", "http://a.test/pub/..%2fx", false},
		{"http://a.test/pub/", `http://a.test/pub/..\x`, false},
		{"http://a.test/pub/", "http://a.test/x/../pub/y", true},
		{"http://a.test/pub/", "http://a.test/pub/%252e%252e/x", false},
		{"http://a.test/pub/", "http://a.test/pub/%252e.%252fx", false},
		{"http://a.test/pub/", "http://a.test/pub/..%255cx", false},
		{"http://a.test/pub/", "http://a.test/pub/..;/x", false},
		{"http://a.test/pub/", "http://a.test/pub/..%3Ba=b/x", false},
		{"http://a.test/pub/", "http://a.test/pub/..%00/x", false},
		{"http://a.test/pub/", "http://a.test/pub/%" + strings.Repeat("25", 3000) + "41", false},
		{"http://a.test/pub/", "http://a.test/pub/a..b/...;c/.d;e/100%2525", true},
		{"http://a.test/", "http://a.test/..;/x", true},
	} {
		if got, err := mirror.BaseHas(tt.base, tt.loc); err != nil || got != tt.want {
			t.Errorf("%s has %s: %t, %v", tt.base, tt.loc, got, err)
		}
	}
	for _, raw := range []string{"", "a.test", "ftp://a.test/", "http://u@a.test/", "http://a.test/?q", "http://a.test/#f", "http://a b/"} {
		if _, err := mirror.BaseHas(raw, "http://a.test/"); err == nil || !strings.HasPrefix(err.Error(), "base: ") {
			t.Errorf("the base %q is taken: %v", raw, err)
		}
	}
}

func TestDigests(t *testing.T) {
	md5, sha := strings.Repeat("aB", 16), strings.Repeat("0", 64)
	known, others := mirror.Digests("md5:" + md5 + "\n sha256:" + sha + " SHA-256:" + sha + " sha-256:short crc32:00 x sha-256:f4OxZX_x")
	if want := []string{"md5:" + strings.ToLower(md5), "sha-256:" + sha}; !slices.Equal(known, want) || !others {
		t.Errorf("known %q, others %t", known, others)
	}
	if known, others := mirror.Digests(""); known != nil || others {
		t.Errorf("known %q, others %t", known, others)
	}
}

// Two names that Unicode's canonical caseless matching (D145) takes for one have one claim, as file
// systems that fold case (APFS, casefold of ext4) take them for one; others have two.
func TestClaims(t *testing.T) {
	for _, tt := range []struct {
		one, other string
		same       bool
	}{
		{"A", "a", true},
		{"stra\u00dfe", "STRASSE", true},
		{"e\u0301", "\u00c9", true},
		{"\u0130", "i\u0307", true},
		{"\u03b1\u05b0\u0345", "\u03b1\u05b0\u03b9", true},
		{"\u1fb3\u05b0", "\u03b1\u05b0\u03b9", true},
		{"\u0391\u0345\u0316", "\u03b1\u0316\u03b9", true},
		{"\u03b1\u0345", "\u03b1", false},
		{"\ufb01", "\u017fi", false},
	} {
		var claims [2]string
		for i, name := range []string{tt.one, tt.other} {
			at, err := mirror.PathOf("http://a.test/" + url.PathEscape(name))
			if err != nil {
				t.Fatal(err)
			}
			claims[i] = mirror.ClaimOf(at)
		}
		if got := claims[0] == claims[1]; got != tt.same {
			t.Errorf("%+q and %+q: one claim: %t, want %t", tt.one, tt.other, got, tt.same)
		}
	}
}

// Characters that differ in case only have one claim.
func TestClaimsFold(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			if one, two := mirror.ClaimOf(string(r)), mirror.ClaimOf(string(other)); one != two {
				t.Fatalf("%+q and %+q have the claims %+q and %+q", r, other, one, two)
			}
		}
	}
}

// ASCII characters have the same claim beside other characters and without them.
func TestClaimsOfASCII(t *testing.T) {
	for r := range rune(unicode.MaxASCII + 1) {
		if alone, beside := mirror.ClaimOf(string(r)), mirror.ClaimOf("\u00e9"+string(r)); "\u00e9"+alone != beside {
			t.Errorf("%+q has the claim %+q, and behind another character %+q", r, alone, beside)
		}
	}
}

// Whatever a loc says, its path is a place below the directory that any file system takes, and
// none of this package's own.
func FuzzPath(f *testing.F) {
	for _, loc := range []string{
		"http://a.test/%2e%2e/%2E%2e/x", "http://a.test/..%5c..%2f", "http://CON/aux.txt/.git/config", "https://[fe80::1%25eth0]:8443//?a/b#c/d",
		"http://a.test/%00%0a%7f%c2%80%e2%80%ae%ff", "http://a.test/" + strings.Repeat("%F0%9F%94%94", 80) + ".tar.gz", "http://\u00e9.test/\u0065\u0301?", "http://a.test/ . / .. /...",
	} {
		f.Add(loc)
	}
	f.Fuzz(func(t *testing.T, loc string) {
		at, err := mirror.PathOf(loc)
		if err != nil {
			return
		}
		if !fs.ValidPath(at) || !filepath.IsLocal(filepath.FromSlash(at)) || len(at) > 2000 || !utf8.ValidString(at) {
			t.Fatalf("%q is at %q", loc, at)
		}
		names := strings.Split(at, "/")
		if len(names) < 2 {
			t.Fatalf("%q is at %q: there is no host", loc, at)
		}
		for _, name := range names {
			if name == "" || name[0] == '.' || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || len(name) > 250 ||
				strings.ContainsAny(name, `\<>:"|?*`) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Fatalf("%q is at %q", loc, at)
			}
		}
		if again, err := mirror.PathOf(loc); err != nil || again != at {
			t.Fatalf("%q is at %q, and at %q", loc, at, again)
		}
		if mirror.ClaimOf(mirror.ClaimOf(at)) != mirror.ClaimOf(at) {
			t.Fatalf("the claim of %q is not its own claim", at)
		}
	})
}
