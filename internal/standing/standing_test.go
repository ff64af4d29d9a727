package standing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon/internal/standing"
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
		if got := standing.Site(url); got != want {
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
		"stranger.duckdns.org": {"stranger.duckdns.org", "x.Stranger.duckdns.org"}, // anybody has such a site for nothing
	} {
		for _, host := range hosts {
			if got := standing.Site("http://" + host + "/"); got != want {
				t.Errorf("%s: %q, want %q", host, got, want)
			}
		}
	}
}

func TestStanding(t *testing.T) {
	b := standing.NewBook(standing.Config{Failures: 3})
	now := time.Now()
	for i := range 3 {
		if b.Bad("x") || b.Turn("x", now) != 0 {
			t.Errorf("bad after %d failures", i)
		}
		b.Failed("x", i == 2)
	}
	if !b.Bad("x") || !b.Away("x") || b.Bad("y") || b.Away("y") || b.Turn("y", now) != 0 {
		t.Error("three failures count for nothing, or for another")
	}
	now = now.Add(time.Minute)
	if first, second := b.Turn("x", now), b.Turn("x", now.Add(time.Millisecond)); first != 0 || second != 999*time.Millisecond {
		t.Errorf("turns after %v, %v", first, second)
	}
	if wait := b.Turn("x", now.Add(time.Second)); wait != 0 {
		t.Errorf("after a second: %v more", wait)
	}
	b.Failed("x", false)
	if b.Away("x") {
		t.Error("it answered")
	}
	b.Succeeded("x")
	if b.Bad("x") || b.Turn("x", now) != 0 || b.Len() != 0 {
		t.Error("one success restores nothing")
	}
}

// However many sites fail, no more than so many are remembered, the latest.
func TestStandingIsBounded(t *testing.T) {
	b := standing.NewBook(standing.Config{Failures: 2, Sites: 10})
	for range 2 {
		b.Failed("victim", false)
	}
	for i := range 9 {
		b.Failed(fmt.Sprint(i), true)
	}
	if b.Len() != 10 || !b.Bad("victim") {
		t.Errorf("%d are remembered", b.Len())
	}
	b.Failed("one more", true)
	if b.Len() != 10 || b.Bad("victim") {
		t.Errorf("%d are remembered", b.Len())
	}
}
