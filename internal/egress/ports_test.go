package egress_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/internal/egress"
)

func TestPorts(t *testing.T) {
	open := newDialer(t, egress.Config{AllowLoopback: true})
	more := newDialer(t, egress.Config{AllowLoopback: true, AllowPorts: []egress.PortRange{{First: 25, Last: 25}, {First: 6379, Last: 6400}}})
	for _, tt := range []struct {
		ports      []int
		open, more bool
	}{
		{[]int{80, 443}, true, true},
		{[]int{1, 21, 22, 23, 53, 79, 81, 110, 143, 389, 442, 444, 445, 587, 993, 1023}, false, false},
		{[]int{25, 6379, 6380}, false, true},
		{[]int{1024, 3000, 4000, 5000, 6378, 6381, 6442, 6444, 8000, 8080, 8443, 8888, 8999, 9000, 9443, 32768, 49152, 65535}, true, true},
		{[]int{
			1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 5432, 5672, 5900, 5903, 5984, 6000, 6443, 6667, 9042, 9200, 9300,
			10250, 11211, 26379, 27017, 27018, 27019,
		}, false, false},
	} {
		for _, port := range tt.ports {
			checkPort(t, open, port, tt.open)
			checkPort(t, more, port, tt.more)
		}
	}
}

func checkPort(t *testing.T, d *egress.Dialer, port int, allowed bool) {
	t.Helper()
	err := d.CheckURL(fmt.Sprintf("http://host.example:%d/", port))
	if (err == nil) != allowed || err != nil && (!errors.Is(err, egress.ErrPort) || !errors.Is(err, egress.ErrForbidden)) {
		t.Errorf("port %d: %v, want allowed %t", port, err, allowed)
	}
	if !allowed {
		// A loopback address, which may be dialed: it is the port that is refused.
		conn, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if conn != nil {
			conn.Close()
		}
		if !errors.Is(err, egress.ErrPort) {
			t.Errorf("dialing port %d: %v", port, err)
		}
	}
}

// A URL without a port has that of its scheme.
func TestPortsOfSchemes(t *testing.T) {
	d := newDialer(t, egress.Config{})
	for _, url := range []string{"http://host.example", "https://host.example/", "http://host.example:/"} {
		if err := d.CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The ports that a machine gives out by itself are left alone, and the list is in
// order, so that nothing stands in it twice.
func TestServicePorts(t *testing.T) {
	last := uint16(1023)
	for _, r := range egress.ServicePorts() {
		if r.First <= last || r.Last < r.First || r.Last >= 32768 {
			t.Errorf("%s stands behind %d", r, last)
		}
		last = r.Last
	}
}

func TestParsePortRange(t *testing.T) {
	for s, want := range map[string]egress.PortRange{
		"25": {First: 25, Last: 25}, "8000-8099": {First: 8000, Last: 8099}, "1-65535": {First: 1, Last: 65535},
	} {
		var got egress.PortRange
		if err := got.UnmarshalText([]byte(s)); err != nil || got != want || got.String() != s {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "65536", "http", "1-", "-", "2-1", "0-5", "1-2-3", " 1", "1:2"} {
		if got, err := egress.ParsePortRange(s); err == nil {
			t.Errorf("%q was taken for %s", s, got)
		}
	}
}

// Each refusal is counted once, by its reason.
func TestRefusalsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := egress.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	server := newNameServer(t, zone{"inside.example.": {typeA: addresses(60, "10.0.0.1")}}.answer)
	d := newDialer(t, egress.Config{Names: server.names(t), Metrics: metrics})
	for _, url := range []string{
		"http://127.0.0.1/", "http://localhost/", "http://host.example:22/",
		"http://user@host.example/", "http://host.example/",
	} {
		_ = d.CheckURL(url)
	}
	for _, address := range []string{"10.0.0.1:80", "inside.example:80", "inside.example:25", "127.1:80"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, egress.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP carillon_egress_refused_total Connections not made, and URLs refused at once, by reason: a special address, an invalid host, a port of another service, or a refusal of the proxy.
# TYPE carillon_egress_refused_total counter
carillon_egress_refused_total{reason="address"} 4
carillon_egress_refused_total{reason="name"} 1
carillon_egress_refused_total{reason="port"} 2
carillon_egress_refused_total{reason="proxy"} 0
`), "carillon_egress_refused_total")
	if err != nil {
		t.Error(err)
	}
	if _, err := egress.NewMetrics(registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}
