package egress_test

import (
	"errors"
	"strings"
	"testing"

	"carillon/internal/egress"
	"carillon/topic"
)

func TestCheckURL(t *testing.T) {
	open := newDialer(t, egress.Config{})
	loop := newDialer(t, egress.Config{AllowLoopback: true})
	nets := newDialer(t, egress.Config{AllowNets: prefixes("10.0.0.0/8", "fd00::/8")})
	bad, forbidden := egress.ErrBadURL, egress.ErrForbidden
	tests := []struct {
		dialer *egress.Dialer
		url    string
		want   error
	}{
		{open, "http://example.com", nil},
		{open, "https://example.com:8443/a?b=c&d", nil},
		{open, "HTTP://Example.com/", nil},
		{open, "http://93.184.216.34/", nil},
		{open, "http://[2606:2800:220:1::1]:80/", nil},
		{open, "http://notlocalhost/", nil},

		{open, "", bad},
		{open, "/relative", bad},
		{open, "//example.com/", bad},
		{open, "ftp://example.com/", bad},
		{open, "javascript:alert(1)", bad},
		{open, "http:example.com", bad},
		{open, "http:///path", bad},
		{open, "http://:80/", bad},
		{open, "http://user@example.com/", bad},
		{open, "http://user:pass@example.com/", bad},
		{open, "http://@example.com/", bad},
		{open, "http://example.com/#x", bad},
		{open, "http://example.com/#", bad},
		{open, "http://example.com:0/", bad},
		{open, "http://example.com:65536/", bad},
		{open, "http://example.com:port/", bad},
		{open, "http://example.com/a b", bad},
		{open, " http://example.com/", bad},
		{open, "http://example.com/\r\nX: y", bad},
		{open, "http://example.com/a<b", bad},
		{open, "http://example.com/a>b", bad},
		{open, `http://example.com/a"b`, bad},
		{open, "http://example.com/\xff", bad},
		{open, "http://[::1/", bad},
		{open, "http://exa%zzmple.com/", bad},

		{open, "http://127.0.0.1/", forbidden},
		{open, "http://127.0.0.1./", forbidden},
		{open, "http://10.0.0.1:8080/", forbidden},
		{open, "http://169.254.169.254/latest/meta-data/", forbidden},
		{open, "http://[::1]/", forbidden},
		{open, "http://[::ffff:127.0.0.1]/", forbidden},
		{open, "http://[::ffff:a00:1]/", forbidden},
		{open, "http://[fe80::1%25eth0]/", forbidden},
		{open, "http://[fd00::1]/", forbidden},
		{open, "http://localhost/", forbidden},
		{open, "http://LOCALHOST.:80/", forbidden},
		{open, "http://a.localhost/", forbidden},

		{loop, "http://127.0.0.1/", nil},
		{loop, "http://127.9.9.9:1234/", nil},
		{loop, "http://[::1]:1234/", nil},
		{loop, "http://localhost:1234/", nil},
		{loop, "http://10.0.0.1/", forbidden},
		{nets, "http://10.0.0.1/", nil},
		{nets, "http://[::ffff:10.0.0.1]/", nil},
		{nets, "http://[fd00::1]/", nil},
		{nets, "http://11.0.0.1/", nil},
		{nets, "http://192.168.0.1/", forbidden},
		{nets, "http://127.0.0.1/", forbidden},
	}
	for _, tt := range tests {
		err := tt.dialer.CheckURL(tt.url)
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("CheckURL(%q) = %v, want %v", tt.url, err, tt.want)
		}
	}
}

// A victim's host is spelled in letters that look like its own, or with invisible ones. It is refused,
// or counts as one host: no stranger has as many as there are spellings.
func TestOneHostHasOneSpelling(t *testing.T) {
	d := newDialer(t, egress.Config{})
	for _, host := range []string{
		"vic\u00adtim.com", "vic%C2%ADtim.com", strings.Repeat("\u00ad", 500) + "victim.com", "\uff56ictim.com", "%EF%BD%96ictim.com",
		"victim\u3002com", "a1.victim\u3002com", "victim\uff0ecom", "victim\uff61com", "vict\u0130m.com", "vi\u200bctim.com", "v\u0456ctim.com",
		"\uff18.8.8.8", "8\u30028.8.8", "8.8.8.%EF%BC%98", "b\u00fccher.example", "b%C3%BCcher.example",
	} {
		err := d.CheckURL("http://" + host + "/")
		var bad *egress.BadURL
		if !errors.As(err, &bad) || !strings.Contains(bad.Rule, "xn--") {
			t.Errorf("CheckURL of %q = %v", host, err)
		}
	}
	for _, host := range []string{"%76ictim.com", "victim%2ecom", "8.8.8.%38", "vi%00ctim.com", "victim.com..", strings.Repeat("a.", 130) + "com"} {
		if err := d.CheckURL("http://" + host + "/"); !errors.Is(err, egress.ErrBadURL) {
			t.Errorf("CheckURL of %q = %v", host, err)
		}
	}
	for _, same := range [][]string{
		{"victim.com", "VICTIM.com", "victim.com.", "Victim.Com.:80", "victim.com:", "victim.com:080", "victim.com.:0000000080"},
		{"xn--bcher-kva.example", "XN--Bcher-KVA.example."},
		{"8.8.8.8", "8.8.8.8.", "[::ffff:8.8.8.8]", "[::ffff:808:808]:80", "[0:0:0:0:0:FFFF:8.8.8.8]"},
		{"[2606:2800:220:1::1]", "[2606:2800:220:1:0:0:0:1]", "[2606:2800:0220:0001::1]:80", "[2606:2800:220:1::0.0.0.1]"},
	} {
		for _, host := range same {
			at := "http://" + host + "/x"
			if err := d.CheckURL(at); err != nil {
				t.Errorf("CheckURL(%q) = %v", at, err)
			}
			for name, of := range map[string]func(string) string{"Origin": topic.Origin, "Host": topic.Host} {
				if got, want := of(at), of("http://"+same[0]+"/"); got != want {
					t.Errorf("%s(%q) = %q, want %q", name, at, got, want)
				}
			}
		}
	}
	long := "http://" + strings.Repeat("a", 254) + "/"
	if topic.Origin(long) != "" || topic.Host(long) != "" {
		t.Error("a host longer than any name counts as one of its own")
	}
}

func TestLoopbackURL(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:8080/websub/": true,
		"http://127.1.1.1/":             true,
		"http://[::1]:8080/":            true,
		"http://[::ffff:127.0.0.1]/":    true,
		"https://localhost/":            true,
		"http://hub.localhost./":        true,
		"http://hub.example.org/":       false,
		"http://10.0.0.1/":              false,
		"http://0.0.0.0/":               false,
		"http://localhost.example.org/": false,
		"http://[broken/":               false,
		"":                              false,
	} {
		if got := egress.LoopbackURL(url); got != want {
			t.Errorf("LoopbackURL(%q) = %v, want %v", url, got, want)
		}
	}
}
