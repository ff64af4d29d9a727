package subscription_test

import (
	"net/url"
	"testing"

	"carillon/subscription"
)

func TestKey(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "http://a.example/b?c=d", "http://a.example/b?c=d"},
		{"tilde", "http://a.example/%7Eb", "http://a.example/~b"},
		{"lower case", "http://a.example/%7eb", "http://a.example/~b"},
		{"every kind", "%41%7a%30%2D%2e%5F%7E", "Az0-._~"},
		{"reserved stays", "http://a.example/%2F%3f?x=%26", "http://a.example/%2F%3f?x=%26"},
		{"percent stays", "http://a.example/%257E", "http://a.example/%257E"},
		{"not ASCII stays", "http://a.example/%C3%A9", "http://a.example/%C3%A9"},
		{"query", "http://a.example/?%71=%61", "http://a.example/?q=a"},
		{"broken escapes are no URL", "http://a.example/%4%31%7E", "http://a.example/%4%31%7E"},
		{"broken at the end", "http://a.example/%7", "http://a.example/%7"},
		{"host and path case stay", "HTTP://A.example/B", "HTTP://A.example/B"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := subscription.Key(c.in); got != c.want {
				t.Errorf("Key(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// Two spellings that WebSub §5.1.1 calls the same name one subscription; a
// topic and a callback never run into each other.
func TestNewID(t *testing.T) {
	id := subscription.NewID("http://t.example/~x", "http://c.example/?k=a")
	if got := subscription.NewID("http://t.example/%7Ex", "http://c.example/?%6b=a"); got != id {
		t.Errorf("another spelling gave %s, want %s", got, id)
	}
	if got := subscription.NewID("http://t.example/~x", "http://c.example/?k=b"); got == id {
		t.Error("another callback gave the same ID")
	}
	if id.Version() != 5 {
		t.Errorf("%s is of version %d, want 5", id, id.Version())
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "http://a.example/%7E%2f", "%4%31", "%", "%%41", "%25%37%45", "http://a.example/\xff%C3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key := subscription.Key(raw)
		if again := subscription.Key(key); again != key {
			t.Errorf("Key(%q) = %q, but of that %q", raw, key, again)
		}
		want, err := url.PathUnescape(raw)
		if err != nil {
			if key != raw {
				t.Errorf("Key(%q) = %q, though it is no URL", raw, key)
			}
			return
		}
		if got, err := url.PathUnescape(key); err != nil || got != want {
			t.Errorf("Key(%q) = %q means %q (%v), want %q", raw, key, got, err, want)
		}
	})
}
