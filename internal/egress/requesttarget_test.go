package egress_test

import (
	"errors"
	"testing"

	"carillon/internal/egress"
)

// FuzzRequestTarget: it says what net/http would send for what Target returns.
func FuzzRequestTarget(f *testing.F) {
	for _, raw := range []string{
		"http://h", "http://h?", "http://h?a b", "HTTPS://H.example:8443/a{b}%2Fc?x=%zz#f", "http://h//x?", "http://h//{x}?y",
		"https://[::1]:1/\u00e9?a#b", "http://h:/", "http://:80/", "http://u@h/", "http://\u00e9.example/", "http://h:1:2/", "http://h_i/%",
		"http://h/a b\r\nX: y", "http://a%41b/", "", "ftp://h/", "http://h:port/",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		secure, authority, target, err := egress.RequestTarget(raw)
		u, want := egress.Target(raw)
		if (err == nil) != (want == nil) || err != nil && !errors.Is(err, egress.ErrBadURL) {
			t.Fatalf("%q: %v, Target says %v", raw, err, want)
		}
		if err != nil {
			return
		}
		if secure != (u.Scheme == "https") || authority != u.Host || target != u.RequestURI() {
			t.Fatalf("%q: %t %q %q, want %q %q %q", raw, secure, authority, target, u.Scheme, u.Host, u.RequestURI())
		}
	})
}

func TestRequestTargetCostsNoMemory(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		_, _, _, _ = egress.RequestTarget("https://h.example:8443/callback/17?secret=%2f")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTLSConfig(t *testing.T) {
	if cfg := newDialer(t, egress.Config{}).TLSConfig(); cfg.InsecureSkipVerify || cfg.MinVersion < 0x0303 {
		t.Error("TLS without verification, version or sessions")
	}
}
