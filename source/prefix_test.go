package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon/source"
	"carillon/subscription"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

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
				// What some server takes for another place.
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
		s := source.Source{Prefixes: []string{"https://other.example/", row.prefix}}
		for _, topic := range row.yes {
			if !s.Covers(topic) {
				t.Errorf("%s does not cover %s", row.prefix, topic)
			}
		}
		for _, topic := range row.no {
			if s.Covers(topic) {
				t.Errorf("%s covers %s", row.prefix, topic)
			}
		}
	}
}

// What is one topic to subscriptions is so to Sources.
func FuzzCovers(f *testing.F) {
	f.Add("https://a.example/%78/%2e%2e/y?a=%7e")
	f.Add("https://a.example/x/..%2f;%5C")
	f.Add("https://A.example:443//%zz")
	f.Fuzz(func(t *testing.T, topic string) {
		all := source.Source{Prefixes: []string{"https://a.example", "http://a.example"}}
		some := source.Source{Prefixes: []string{"https://a.example/x"}}
		if some.Covers(topic) && !all.Covers(topic) {
			t.Fatalf("a part covers %q, and the whole does not", topic)
		}
		if some.Covers(topic) != some.Covers(subscription.Key(topic)) {
			t.Fatalf("%q and %q are one topic, and one of them is covered", topic, subscription.Key(topic))
		}
		if all.Covers(topic) && source.CheckPrefix(topic) == nil && !(source.Source{Prefixes: []string{topic}}).Covers(topic) {
			t.Fatalf("%q does not cover itself", topic)
		}
	})
}

func TestValidate(t *testing.T) {
	good, _, err := source.New("name", []string{"https://a.example/x"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		change func(s *source.Source)
		want   string
	}{
		"a name of nothing":       {func(s *source.Source) { s.Name = "" }, "is not a name"},
		"a name with a space":     {func(s *source.Source) { s.Name = "a b" }, "is not a name"},
		"a name that is a path":   {func(s *source.Source) { s.Name = "../a" }, "is not a name"},
		"a name with an end":      {func(s *source.Source) { s.Name = "a\n" }, "is not a name"},
		"a long name":             {func(s *source.Source) { s.Name = strings.Repeat("a", 65) }, "is not a name"},
		"no prefix":               {func(s *source.Source) { s.Prefixes = nil }, "needs a topic prefix"},
		"too many":                {func(s *source.Source) { s.Prefixes = make([]string, 101) }, "100 topic prefixes at most"},
		"no token":                {func(s *source.Source) { s.TokenHash = source.Hash{} }, "no token"},
		"no time":                 {func(s *source.Source) { s.Issued = time.Time{} }, "no times"},
		"a prefix with a query":   {func(s *source.Source) { s.Prefixes[0] += "?q=1" }, "query"},
		"a prefix without a host": {func(s *source.Source) { s.Prefixes[0] = "https:///x" }, "absolute URL"},
		"a prefix with a user":    {func(s *source.Source) { s.Prefixes[0] = "https://u@a.example/" }, "user name"},
		"a prefix with dots":      {func(s *source.Source) { s.Prefixes[0] += "/%2e%2e/" }, ". or .."},
		"dots encoded twice":      {func(s *source.Source) { s.Prefixes[0] += "/%252e%252e/" }, ". or .."},
		"a fragment":              {func(s *source.Source) { s.Prefixes[0] += "#x" }, "fragment"},
		"a backslash":             {func(s *source.Source) { s.Prefixes[0] += `\x` }, "backslash"},
		"a long prefix":           {func(s *source.Source) { s.Prefixes[0] += strings.Repeat("x", 2048) }, "longer than"},
	} {
		s := good
		s.Prefixes = []string{good.Prefixes[0]}
		row.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", name, err, row.want)
		}
		if err := source.Register(t.Context(), nil, s); err == nil || errors.Is(err, source.ErrExists) {
			t.Errorf("%s was registered: %v", name, err)
		}
	}
}
