package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"carillon/operator"
)

// The bounds of connections that operators see are those of the files and of --connection-bytes.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"carillon_delivery_connection_limit":            float64(outgoingConnections()),
		"carillon_delivery_idle_connection_limit_bytes": 6 << 20,
		"carillon_delivery_tls_session_limit_bytes":     2 << 20,
	}
	for _, f := range gather(t, "pebble:"+t.TempDir(), "--connection-bytes=8MiB") {
		if value, asked := want[f.GetName()]; asked {
			if got := f.GetMetric()[0].GetGauge().GetValue(); got != value {
				t.Errorf("%s is %v, want %v", f.GetName(), got, value)
			}
			delete(want, f.GetName())
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no %v", want)
	}
}

// A hub with room for fewer connections than its callbacks have hosts delivers to all of them,
// keeps to the room, and says what was dropped.
func TestLittleRoomForConnections(t *testing.T) {
	const hosts, rounds = 150, 3
	s := newSink(t)
	over := newTLSHosts(t, s)
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(), "--connection-bytes", "1MB")
	hub, topic := p.ready["url"], s.topicURL("room")
	s.setHub(hub, 0)
	for i := range hosts {
		persist(t, "subscribing", func() (int, string, error) { return subscribe(hub, topic, over.url(i), nil) }, http.StatusAccepted)
	}
	all := func(done func(name string) bool) func() bool {
		return func() bool {
			for i := range hosts {
				if !done(over.address(i)) {
					return false
				}
			}
			return true
		}
	}
	s.await(t, "the verifications", all(func(name string) bool { return s.verified[name] > 0 }))
	for round := range rounds {
		body := fmt.Sprint("round ", round)
		persist(t, "publishing", func() (int, string, error) { return publish(hub, topic, "text/plain", body) }, http.StatusOK)
		s.await(t, body, all(func(name string) bool { return s.has(name, body) }))
	}
	eventually(t, "the count of what was delivered", func() bool {
		_, text := look(p.ready["admin"], "/metrics")
		return strings.Contains(text, fmt.Sprintf("carillon_delivery_attempts_total{class=\"delivered\"} %d\n", rounds*hosts))
	})
	var o operator.Overview
	askJSON(t, p, "/api/v1/overview", &o)
	c := o.Connections
	t.Logf("%+v", c)
	if c.MaxIdleBytes != 750_000 || c.IdleBytes > c.MaxIdleBytes || c.Idle < 10 || c.Idle > hosts/2 {
		t.Errorf("%d idle connections take %d of %d bytes", c.Idle, c.IdleBytes, c.MaxIdleBytes)
	}
	if c.MaxSessionBytes != 250_000 || c.SessionBytes > c.MaxSessionBytes || c.SessionBytes == 0 {
		t.Errorf("the sessions take %d of %d bytes", c.SessionBytes, c.MaxSessionBytes)
	}
	if c.Dropped == 0 || c.Full < hosts {
		t.Errorf("%d dropped, %d full handshakes", c.Dropped, c.Full)
	}
	if len(o.Processes) != 1 || o.Processes[0].Connections.MaxOpen != c.MaxOpen {
		t.Errorf("the processes have %+v", o.Processes)
	}
}
