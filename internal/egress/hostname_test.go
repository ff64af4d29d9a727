package egress_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// Hosts that some take for 127.0.0.1, or for localhost. They are refused at once. A dial to one, as it
// stands or as the clients write it, reaches no server and asks no name server.
func TestOddHosts(t *testing.T) {
	server := newNameServer(t, func(_ string, m dnsmessage.Message) *dnsmessage.Message {
		return addresses(60, "127.0.0.1").reply(m)
	})
	d := newDialer(t, egress.Config{Names: server.names(t)})
	bad, forbidden := egress.ErrBadURL, egress.ErrForbidden
	for host, want := range map[string]error{
		"127.1":                    bad,
		"127.0.1":                  bad,
		"127":                      bad,
		"0":                        bad,
		"2130706433":               bad,
		"0x7f000001":               bad,
		"0X7F000001":               bad,
		"0x7f.1":                   bad,
		"0x7f.0.0.0x1":             bad,
		"127.0.0.0x":               bad,
		"0177.0.0.1":               bad,
		"0177.0.0.01":              bad,
		"00000000177.1":            bad,
		"127.0.0.1.":               forbidden,
		"127.0.0.1..":              bad,
		".127.0.0.1":               bad,
		"127..1":                   bad,
		"127.000.000.001":          bad,
		"300.1.1.1":                bad,
		"1.2.3.4.5":                bad,
		"name.127":                 bad,
		"127.0.0.1":                forbidden,
		"127\u30020\u30020\u30021": bad,
		"\uff11\uff12\uff17.\uff10.\uff10.\uff11": bad, // full-width
		"\u2460\u2461\u2466.\u24ea.\u24ea.\u2460": bad,
		"127\u30021":    bad,
		"localhost":     forbidden,
		"LocalHost":     forbidden,
		"localhost.":    forbidden,
		"any.localhost": forbidden,
		"\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54": bad, // full-width
		"\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3": bad,
		"loc\u00adalhost":                       bad, // soft hyphen
		"%31%32%37.0.0.1":                       bad,
		"127.0.0.1%2e":                          bad,
		"127.0.0.1%00":                          bad,
		"%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1":     bad,
		"[::1]":                                 forbidden,
		"[0:0:0:0:0:0:0:1]":                     forbidden,
		"[::ffff:127.0.0.1]":                    forbidden,
		"[::ffff:7f00:1]":                       forbidden,
		"[::127.0.0.1]":                         forbidden,
		"[::1%25lo]":                            forbidden,
		"[::1].":                                bad,
		"[127.0.0.1]":                           bad,
		"::1":                                   bad,
		"user@127.0.0.1":                        bad,
		"host.example@127.0.0.1":                bad,
		"127.0.0.1\\@host.example":              bad,
		"host.example\\.127.0.0.1":              bad,
		"host.example#@127.0.0.1":               bad,
		"host.example\r\nx.127.0.0.1":           bad,
		"host$.example":                         bad,
		"*.example":                             bad,
		"a,b":                                   bad,
		"under_score.example":                   nil,
		"xn--bcher-kva.example":                 nil,
		"b\u00fccher.example":                   bad,
		"1e100.example":                         nil,
		"0x7f.example":                          nil,
		"127.0.0.1.example":                     nil,
		strings.Repeat("a", 63) + ".example":    nil,
		strings.Repeat("a", 64) + ".example":    bad,
		strings.Repeat("long.", 50) + "example": bad,
	} {
		raw := "http://" + host + "/"
		if err := d.CheckURL(raw); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("CheckURL(%q) = %v, want %v", raw, err, want)
		}
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" {
			continue // no client dials it
		}
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(u.Hostname(), "80"))
		if conn != nil {
			conn.Close()
		}
		if !errors.Is(err, forbidden) {
			t.Errorf("dialing %q: %v", u.Hostname(), err)
		}
		if asked := server.questions(strings.TrimSuffix(host, ".")+".", typeA); want != nil && asked > 0 && !strings.Contains(host, "ocal") {
			t.Errorf("a name server was asked for %q", host)
		}
	}
}
