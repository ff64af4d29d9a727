package topic_test

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"carillon/topic"
)

func TestKey(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "http://a.example/b?c=d", "http://a.example/b?c=d"},
		{"tilde", "http://a.example/%7Eb", "http://a.example/~b"},
		{"lower case", "http://a.example/%7eb", "http://a.example/~b"},
		{"every kind", "%41%7a%30%2D%2e%5F%7E", "Az0-._~"},
		{"reserved stays", "http://a.example/%2F%3f?x=%26", "http://a.example/%2F%3f?x=%26"},
		{"percent stays", "http://a.example/%257E", "http://a.example/%257E"},
		{"an escape of what is not ASCII stays", "http://a.example/%C3%A9%c3%a9", "http://a.example/%C3%A9%c3%a9"},
		{"IRI", "http://a.example/café/?ü=ß", "http://a.example/caf%C3%A9/?%C3%BC=%C3%9F"},
		{"IRI with an unreserved escape", "http://a.example/caf\xc3\xa9/%7E", "http://a.example/caf%C3%A9/~"},
		{"not UTF-8", "http://a.example/\xff", "http://a.example/%FF"},
		{"query", "http://a.example/?%71=%61", "http://a.example/?q=a"},
		{"broken escapes are no URL", "http://a.example/%4%31%7E", "http://a.example/%4%31%7E"},
		{"broken at the end", "http://a.example/%7", "http://a.example/%7"},
		{"an IRI with a broken escape is no URL", "HTTP://a.example/é%4", "HTTP://a.example/é%4"},
		{"host and path case stay", "HTTP://A.example/B", "http://A.example/B"},
		{"scheme", "hTTpS://a.example/", "https://a.example/"},
		{"scheme written with escapes", "%48TTP://a.example/", "http://a.example/"},
		{"another scheme stays", "URN:x", "URN:x"},
		{"a path that begins like a scheme", "/HTTP://a", "/HTTP://a"},
		{"letters that fold to ASCII are no scheme", "httpſ://a", "http%C5%BF://a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := topic.Key(c.in); got != c.want {
				t.Errorf("Key(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{
		"", "http://a.example/%7E%2f", "%4%31", "%", "%%41", "%25%37%45",
		"http://a.example/\xff%C3", "HTTP://a/é", "%48ttp://", "HTTP%3A//",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key := topic.Key(raw)
		if again := topic.Key(key); again != key {
			t.Errorf("Key(%q) = %q, but of that %q", raw, key, again)
		}
		want, err := url.PathUnescape(raw)
		if err != nil {
			if key != raw {
				t.Errorf("Key(%q) = %q, though it is no URL", raw, key)
			}
			return
		}
		for i := range len(key) {
			if key[i] >= 0x80 {
				t.Fatalf("Key(%q) = %q is not ASCII", raw, key)
			}
		}
		if iri := topic.Key(asIRI(key)); iri != topic.Key(upperEscapes(key)) {
			t.Errorf("Key(%q) = %q, but of its IRI %q", raw, key, iri)
		}
		if got, err := url.PathUnescape(key); err != nil || lowScheme(got) != lowScheme(want) {
			t.Errorf("Key(%q) = %q means %q (%v), want %q", raw, key, got, err, want)
		}
	})
}

// asIRI decodes the escapes of what is not ASCII, and writes the others in upper case.
func asIRI(uri string) string {
	return escapes.ReplaceAllStringFunc(uri, func(escape string) string {
		c, err := strconv.ParseUint(escape[1:], 16, 8)
		if err != nil || c < 0x80 {
			return strings.ToUpper(escape)
		}
		return string([]byte{byte(c)})
	})
}

// upperEscapes writes the digits of escapes in upper case.
func upperEscapes(uri string) string { return escapes.ReplaceAllStringFunc(uri, strings.ToUpper) }

var escapes = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// lowScheme writes the scheme in lower case.
func lowScheme(s string) string {
	return regexp.MustCompile("^(?i:https?)://").ReplaceAllStringFunc(s, strings.ToLower)
}
