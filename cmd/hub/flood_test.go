package main

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// A flood of connections that say nothing leaves the hub room for its store and
// its operator: the process may open 200 files here, and 300 connections come.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	p := startHubBy(t, []string{"sh", "-c", `ulimit -n 200 && exec "$0" "$@"`},
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	eventually(t, "readiness", p.isReady)
	for range 300 {
		conn, err := net.Dial("tcp", p.ready["listen"])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// The flood ends by itself after ten seconds without a header.
	client := &http.Client{Timeout: 8 * time.Second}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body, err := answer(client.Get("http://" + p.ready["admin"] + path)); err != nil || status != http.StatusOK {
			t.Errorf("%s during the flood: %d %q %v", path, status, body, err)
		}
	}
}
