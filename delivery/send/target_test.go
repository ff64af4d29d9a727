package send_test

import (
	"testing"

	"pgregory.net/rapid"

	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/topic"
)

// A callback in two parts leads where the whole leads.
func TestTargetInTwoParts(t *testing.T) {
	for callback, split := range map[string]bool{
		"http://h.example/callback/1?a=b": true,
		"https://h.example:8443/c":        true,
		"http://h.example":                false,
		"http://h.example?a":              false,
		"http://h.example/#part":          false,
		"http://h.example/a b":            false,
		"http://h.example/\u00e9":         false,
		"http://h.example//two/../":       false,
		"http://H.example:80/c":           false,
		"https://h.example:443/c":         false,
		"http://[::1]:80/c":               false,
		"http://h_example/c":              true,
		"http://u@h.example/c":            false,
		"http://h.example:port/c":         false,
		"ftp://h.example/c":               false,
		"":                                false,
	} {
		if got := checkSplit(t, callback); got != split {
			t.Errorf("%s: in two parts: %v, want %v", callback, got, split)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"h", "h:81", "H", "h:80", "[::1]", "[::1]:8", "h.", "h:", "\u00e9"}).Draw(t, "host")
		checkSplit(t, rapid.SampledFrom([]string{"http://", "https://", "HTTP://"}).Draw(t, "scheme")+host+
			rapid.StringMatching(`[/?#a% \x00\x7f\x{e9}]{0,6}`).Draw(t, "rest"))
	})
}

func checkSplit(t rapid.TB, callback string) (split bool) {
	secure, authority, target, split, err := send.SplitTarget(callback)
	wantSecure, wantAuthority, wantTarget, wantErr := egress.RequestTarget(callback)
	if (err == nil) != (wantErr == nil) || secure != wantSecure || authority != wantAuthority || target != wantTarget {
		t.Errorf("%q: %v %q %q %v, want %v %q %q %v",
			callback, secure, authority, target, err, wantSecure, wantAuthority, wantTarget, wantErr)
	}
	return split
}

// Origin is topic.Origin, without memory for most.
func TestOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		url := rapid.StringMatching(
			`(http|https|HTTP|ftp|)(://|:/)([a-c]|[A-C]|é|@|:|\.|:80|:443|:8080|:080|\[::1\]|\[0:0::1\]|%41){0,4}(/|\?|#|)[a-c/?#@:A]{0,4}`,
		).Draw(t, "URL")
		if got, want := send.Origin(url), topic.Origin(url); got != want {
			t.Fatalf("%q: got %q, want %q", url, got, want)
		}
	})
}
