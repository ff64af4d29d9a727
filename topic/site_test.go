package topic_test

import (
	"strings"
	"testing"

	"carillon/topic"
)

func TestSite(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.com/":                     "example.com",
		"https://A.b.Example.COM:8443/x?y":        "example.com",
		"https://example.com.:443/":               "example.com",
		"http://x1.stranger.co.uk/":               "stranger.co.uk",
		"http://one.github.io/":                   "one.github.io",
		"http://two.one.github.io/":               "one.github.io",
		"http://co.uk/":                           "co.uk",
		"http://localhost:80/":                    "localhost",
		"http://a.ns.svc.cluster.local/":          "a.ns.svc.cluster.local",
		"http://192.0.2.1:81/":                    "192.0.2.1",
		"http://[::ffff:192.0.2.1]/":              "192.0.2.1",
		"http://[2001:db8:1:2:3:4:5:6]:80/":       "2001:db8:1:2::/64",
		"http://[2001:db8:1:2:ffff::%25eth0]:80/": "2001:db8:1:2::/64",
		"http:///":    "",
		"::":          "",
		"no url":      "",
		"http://%zz/": "",
	} {
		if got := topic.Site(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// All spellings of a host that are taken are one site, and its name is short.
func TestSpellingsOfOneSite(t *testing.T) {
	for want, hosts := range map[string][]string{
		"victim.com":           {"victim.com", "VICTIM.com", "victim.com.", "Victim.Com.:80", "victim.com:", "victim.com:080", "any.name.Victim.com."},
		"xn--bcher-kva.com":    {"xn--bcher-kva.com", "XN--Bcher-KVA.com."},
		"8.8.8.8":              {"8.8.8.8", "8.8.8.8.", "[::ffff:8.8.8.8]", "[::ffff:808:808]:80", "[0:0:0:0:0:FFFF:8.8.8.8]"},
		"2606:2800:220:1::/64": {"[2606:2800:220:1::1]", "[2606:2800:220:1:0:0:0:1]", "[2606:2800:0220:0001::2]:80", "[2606:2800:220:1::0.0.0.1]", "[2606:2800:220:1::1%251]"},
		"":                     {strings.Repeat("a", 254), strings.Repeat("a.", 1000) + "local"},
		"printer":              {"printer", "PRINTER.", "Printer:8080"},
		"stranger.duckdns.org": {"stranger.duckdns.org", "x.Stranger.duckdns.org"}, // such a site is free for all
	} {
		for _, host := range hosts {
			if got := topic.Site("http://" + host + "/"); got != want {
				t.Errorf("%s: %q, want %q", host, got, want)
			}
		}
	}
}

func TestDomain(t *testing.T) {
	for name, want := range map[string]string{
		"a.b.example.co.uk": "example.co.uk", "A.B.Example.COM.": "example.com", "x.one.github.io": "one.github.io",
		"co.uk": "co.uk", "com": "com", "printer": "printer", "": "",
		// The list holds neither: one is younger than it, the other is private.
		"a.b.evil.nosuchtld": "evil.nosuchtld", "a.ns.svc.cluster.local": "cluster.local",
	} {
		if got := topic.Domain(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A site is the registered domain, so that limits of name servers and of sites agree, but for
// names in private networks. A stranger makes no sites without number, also not below a top-level
// domain that is younger than the list of public suffixes.
func TestSitesAreRegisteredDomains(t *testing.T) {
	for _, name := range []string{
		"a.example.com", "example.co.uk", "x.y.github.io", "a1.evil.nosuchtld", "b.a2.evil.nosuchtld", "co.uk", "printer",
	} {
		if got, want := topic.Site("http://"+name+"/"), topic.Domain(name); got != want {
			t.Errorf("the site of %s is %q, its domain %q", name, got, want)
		}
	}
	for _, name := range []string{"a.svc.cluster.local", "a.b.internal", "a.b.corp", "a.b.lan", "a.b.test", "a.b.localhost"} {
		if got := topic.Site("http://" + name + "/"); got != name {
			t.Errorf("the site of %s is %q", name, got)
		}
	}
}
