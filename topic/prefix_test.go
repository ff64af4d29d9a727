package topic_test

import (
	"strings"
	"testing"

	"carillon/topic"
)

// prefixes reads prefixes. An invalid text covers nothing.
func prefixes(texts ...string) (all []topic.Prefix) {
	for _, text := range texts {
		p, _ := topic.ParsePrefix(text)
		all = append(all, p)
	}
	return all
}

func TestCovers(t *testing.T) {
	for _, row := range []struct {
		prefix string
		yes    []string
		no     []string
	}{
		{
			prefix: "https://a.example/x",
			yes: []string{
				"https://a.example/x", "https://a.example/x/", "https://a.example/x/y", "https://a.example/x?q=1", "https://a.example/x/?q",
				"https://a.example/x?q=/../y", "https://a.example/x//y", "https://a.example/x/...", "https://a.example/x/..y", "https://a.example/x/y..",
				"https://A.EXAMPLE/x", "HTTPS://a.example/x", "https://a.example:443/x", "https://a.example:/x", "https://a.example/%78/y",
				"https://a.example/x/%2e%2ey", "https://a.example/x/\u00e9", "https://a.example/x/a..b/...;c/.d;e/100%2525/a%3Bb%3F",
			},
			no: []string{
				"https://a.example/xy", "https://a.example/x.y", "https://a.example/X", "https://a.example/", "https://a.example",
				"https://a.example/x%2Fy", "https://a.example/x%3Fq", "https://a.example/x;y", "https://a.example//x", "https://a.example/y?/x",
				"http://a.example/x", "https://a.example:8443/x", "https://a.example:80/x", "https://b.a.example/x", "https://a.example.evil.example/x",
				"https://a.example@evil.example/x", "https://u@a.example/x", "https://u:p@a.example/x", "https://evil.example/https://a.example/x",
				"https://a.example./x", "https://a.example\\@evil.example/x", "https://a.example/x#f",
				// Paths that some servers take for another place.
				"https://a.example/x/../y", "https://a.example/x/..", "https://a.example/x/../x/y", "https://a.example/./x", "https://a.example/x/.",
				"https://a.example/x/%2e%2e/y", "https://a.example/x/%2E%2E/y", "https://a.example/x/.%2e/y", "https://a.example/x/%2e",
				"https://a.example/x/..%2fy", "https://a.example/x/..%2Fy", "https://a.example/x%2f..%2fy", "https://a.example/x/%2e%2e%2fy",
				"https://a.example/x/..%5cy", "https://a.example/x/..\\y", "https://a.example/x\\..\\y", "https://a.example/x/..;/y", "https://a.example/x/%2e%2e;a=b/y",
				"https://a.example/x/%252e%252e/y", "https://a.example/x/%252e.%252fy", "https://a.example/x/%25%32%65%2e/y", "https://a.example/x/%2e%2e%3b/y",
				"https://a.example/x/..%3Ba=b/y", "https://a.example/x/..%00/y", "https://a.example/x/..%3fq/y", "https://a.example/x/..%23f/y", "https://a.example/x/..%255cy",
				"https://a.example/x/%" + strings.Repeat("25", 300) + "41",
				"https://a.example/x/%", "https://a.example/x/%zz", "https://a.example/x/%2e%2e/%zz",
				"https://a.example/x y", "https://a.example/x\n", "//a.example/x", "/x", "x", "", "https:a.example/x", "https:///x", "ftp://a.example/x",
				"javascript://a.example/x", "https://a%2eexample/x", "https://[::1/x",
			},
		},
		{
			prefix: "https://a.example/x/",
			yes:    []string{"https://a.example/x/", "https://a.example/x/y", "https://a.example/x/?q"},
			no:     []string{"https://a.example/x", "https://a.example/x?q", "https://a.example/xy", "https://a.example/x/../"},
		},
		{
			prefix: "https://a.example",
			yes:    []string{"https://a.example", "https://a.example/", "https://a.example?q", "https://a.example/x"},
			no:     []string{"https://a.example.b/", "https://a.examples/", "http://a.example/", "https://a.example/.."},
		},
		{
			prefix: "http://[2001:DB8::1]:8080/%c3%a9/%7ex",
			yes:    []string{"http://[2001:db8::1]:8080/%C3%A9/~x/1", "http://[2001:db8::1]:8080/%c3%a9/%7Ex", "http://[2001:db8::1]:8080/\u00e9/~x"},
			no:     []string{"http://[2001:db8::1]/%C3%A9/~x", "http://[2001:db8::2]:8080/%c3%a9/~x"},
		},
		{
			prefix: "http://a.example:80/",
			yes:    []string{"http://a.example/x", "http://a.example:80/x"},
			no:     []string{"http://a.example:443/x", "https://a.example:80/x", "http://a.example:8080/x"},
		},
		{
			// Only ASCII letters have a case in a host: the Kelvin sign is no k.
			prefix: "https://kilo.example/",
			yes:    []string{"https://KILO.example/"},
			no:     []string{"https://\u212ailo.example/"},
		},
		{prefix: "not a prefix", no: []string{"not a prefix", ""}},
	} {
		all := prefixes("https://other.example/", row.prefix)
		for _, at := range row.yes {
			if !topic.Covers(all, topic.Parse(at)) {
				t.Errorf("%s does not cover %s", row.prefix, at)
			}
		}
		for _, at := range row.no {
			if topic.Covers(all, topic.Parse(at)) {
				t.Errorf("%s covers %s", row.prefix, at)
			}
		}
	}
}

// One topic for subscriptions is one for Sources.
func FuzzCovers(f *testing.F) {
	f.Add("https://a.example/%78/%2e%2e/y?a=%7e")
	f.Add("https://a.example/x/..%2f;%5C")
	f.Add("https://A.example:443//%zz")
	all, some := prefixes("https://a.example", "http://a.example"), prefixes("https://a.example/x")
	f.Fuzz(func(t *testing.T, text string) {
		at := topic.Parse(text)
		if topic.Covers(some, at) && !topic.Covers(all, at) {
			t.Fatalf("a part covers %q, and the whole does not", text)
		}
		if topic.Covers(some, at) != topic.Covers(some, topic.Parse(at.Key())) {
			t.Fatalf("%q and %q are one topic, and one of them is covered", text, at.Key())
		}
		own, err := topic.ParsePrefix(text)
		if topic.Covers(all, at) && err == nil && !own.Covers(at) {
			t.Fatalf("%q does not cover itself", text)
		}
	})
}

// Two spellings of one server that a permission is not to take for one.
func TestServersOfPrefixes(t *testing.T) {
	for _, pair := range [][2]string{
		{"http://[fe80::1%25a]/", "http://[fe80::1%25b]/"},
		{"http://a.example/", "http://a.example./"},
		{"http://a.example/", "http://b.a.example/"},
	} {
		if topic.Covers(prefixes(pair[0]), topic.Parse(pair[1])) {
			t.Errorf("%s covers %s", pair[0], pair[1])
		}
	}
	if topic.Covers([]topic.Prefix{{}}, topic.Parse("http://a.example/")) || (topic.Prefix{}).Covers(topic.Parse("")) {
		t.Error("the zero Prefix covers something")
	}
}
