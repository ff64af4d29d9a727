package egress_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// The lifetime of what comes without one is configured: here localhost, which
// /etc/hosts has.
func TestTTLOfWhatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		server := newPipeServer(zone{}.answer)
		names, err := egress.NewNames(egress.NamesConfig{TTL: 3 * time.Second, MaxTTL: time.Second, Resolver: server.resolver()}, registry)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			lookup(t, names, "localhost")
			time.Sleep(3*time.Second - time.Nanosecond)
			lookup(t, names, "localhost")
			time.Sleep(time.Nanosecond)
		}
		err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP carillon_egress_dns_lookups_total Names looked up for a dial: known (cached) or not (asked).
# TYPE carillon_egress_dns_lookups_total counter
carillon_egress_dns_lookups_total{result="asked"} 2
carillon_egress_dns_lookups_total{result="cached"} 2
`), "carillon_egress_dns_lookups_total")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNamesMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		server := newPipeServer(zone{
			"a.example.": {typeA: addresses(60, "192.0.2.1"), typeAAAA: addresses(60, "2001:db8::1")},
			"o.example.": {typeA: addresses(0, "192.0.2.1"), typeAAAA: {answer: []dnsmessage.Resource{cname(0, "o.example.", "p.example.")}, soa: &soa{60, 60}}},
			"f.example.": {typeA: {rcode: dnsmessage.RCodeServerFailure}, typeAAAA: {rcode: dnsmessage.RCodeServerFailure}},
		}.answer)
		names, err := egress.NewNames(egress.NamesConfig{Resolver: server.resolver()}, registry)
		if err != nil {
			t.Fatal(err)
		}
		lookup(t, names, "a.example")
		lookup(t, names, "a.example")
		lookup(t, names, "o.example")                       // holds for no time: not remembered
		dnsError(t, names, strings.Repeat("long.", 60)+"x") // longer than names are: neither asked about nor remembered
		dnsError(t, names, "b.example")
		dnsError(t, names, "f.example")
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP carillon_egress_dns_lookups_total Names looked up for a dial: known (cached) or not (asked).
# TYPE carillon_egress_dns_lookups_total counter
carillon_egress_dns_lookups_total{result="asked"} 4
carillon_egress_dns_lookups_total{result="cached"} 1
# HELP carillon_egress_dns_names Names that are remembered.
# TYPE carillon_egress_dns_names gauge
carillon_egress_dns_names 3
# HELP carillon_egress_dns_questions_total Questions by their end: answered with addresses, the name has none (missing), the name servers failed, or refused because too many were under way.
# TYPE carillon_egress_dns_questions_total counter
carillon_egress_dns_questions_total{result="answered"} 3
carillon_egress_dns_questions_total{result="failed"} 2
carillon_egress_dns_questions_total{result="missing"} 3
carillon_egress_dns_questions_total{result="refused"} 0
# HELP carillon_egress_dns_questions_under_way Questions that name servers have to answer.
# TYPE carillon_egress_dns_questions_under_way gauge
carillon_egress_dns_questions_under_way 0
`)); err != nil {
			t.Error(err)
		}
		if _, err := egress.NewNames(egress.NamesConfig{}, registry); err == nil {
			t.Error("the same metrics were registered twice")
		}
	})
}

func TestNewNamesRefuses(t *testing.T) {
	for name, cfg := range map[string]egress.NamesConfig{
		"MaxNames":     {MaxNames: -1},
		"TTL":          {TTL: -1},
		"MaxTTL":       {MaxTTL: -1},
		"Timeout":      {Timeout: -1},
		"MaxQuestions": {MaxQuestions: -1},
		"MaxPerDomain": {MaxPerDomain: -1},
	} {
		if _, err := egress.NewNames(cfg, nil); err == nil {
			t.Errorf("a negative %s was taken", name)
		}
	}
}
