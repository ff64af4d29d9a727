package hub_test

import (
	"net/url"
	"strings"
	"testing"

	"carillon/hub"
)

func TestAppendQuery(t *testing.T) {
	for callback, want := range map[string]string{
		"http://h":            "http://h?n=v%20%26=%3B%25%2B:/?",
		"http://h/":           "http://h/?n=v%20%26=%3B%25%2B:/?",
		"http://h/?":          "http://h/?n=v%20%26=%3B%25%2B:/?",
		"http://h/?a":         "http://h/?a&n=v%20%26=%3B%25%2B:/?",
		"http://h/?a=b&":      "http://h/?a=b&n=v%20%26=%3B%25%2B:/?",
		"http://h/?n=1&n=%2F": "http://h/?n=1&n=%2F&n=v%20%26=%3B%25%2B:/?",
		"http://h/?a=b?c":     "http://h/?a=b?c&n=v%20%26=%3B%25%2B:/?",
		"http://h/a;b&":       "http://h/a;b&?n=v%20%26=%3B%25%2B:/?",
	} {
		if got := hub.AppendQuery(callback, "n", "v &=;%+:/?"); got != want {
			t.Errorf("%s: %s, want %s", callback, got, want)
		}
	}
}

// FuzzAppendQuery: the callback stays as the prefix, and who parses the query
// finds what was appended, in order, as the last values.
func FuzzAppendQuery(f *testing.F) {
	for _, callback := range []string{
		"http://h", "http://h/?", "http://h/?a=b&", "http://h/p?hub.mode=x&a", "http://h?&&", "http://h/%7E?%zz=1;2",
	} {
		f.Add(callback, "http://t/?a=b&c=d", "päß +&=")
	}
	f.Fuzz(func(t *testing.T, callback, topic, reason string) {
		if strings.Contains(callback, "#") {
			return // refused before
		}
		got := hub.AppendQuery(callback, "hub.mode", "denied", "hub.topic", topic, "hub.reason", reason)
		if !strings.HasPrefix(got, callback) {
			t.Fatalf("%q is not the prefix of %q", callback, got)
		}
		_, query, found := strings.Cut(got, "?")
		if !found {
			t.Fatalf("%q has no query", got)
		}
		pairs := strings.Split(query, "&")
		if len(pairs) < 3 {
			t.Fatalf("%q", pairs)
		}
		parsed, err := url.ParseQuery(strings.Join(pairs[len(pairs)-3:], "&"))
		if err != nil || parsed.Get("hub.mode") != "denied" || parsed.Get("hub.topic") != topic || parsed.Get("hub.reason") != reason {
			t.Fatalf("%q: %v, %v", got, parsed, err)
		}
	})
}

func TestNormalHub(t *testing.T) {
	same := []string{
		"http://hub.example/web~sub/", "HTTP://Hub.Example:80/web%7Esub", "http://hub.example:/web~sub/",
	}
	for _, u := range same {
		if hub.NormalHub(u) != hub.NormalHub(same[0]) {
			t.Errorf("%s is %s, %s is %s", u, hub.NormalHub(u), same[0], hub.NormalHub(same[0]))
		}
	}
	for _, u := range []string{
		"https://hub.example/web~sub/", "http://hub.example:8080/web~sub/", "http://hub.example/Web~sub/",
		"http://hub.example/web~sub/?x", "http://other.example/web~sub/", "/web~sub/", "", "http://hub.example/web%2Fsub",
	} {
		if hub.NormalHub(u) == hub.NormalHub(same[0]) {
			t.Errorf("%q counts as the hub", u)
		}
	}
	if hub.NormalHub("http://h/%2f") != hub.NormalHub("http://h/%2F") {
		t.Error("the case of escapes counts")
	}
}
