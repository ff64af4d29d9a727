//go:build linux

package main

import (
	"net/http"
	"testing"
	"time"
)

// tlsSinkOf starts a sink with hosts over TLS, and returns how to post to its callbacks, two on
// each host, on connections that are closed idle for so long.
func tlsSinkOf(t *testing.T, hosts int, closeAfter time.Duration) (*town, post) {
	t.Helper()
	c := child{
		Role: roleNetHTTP, Hosts: hosts, Authority: t.TempDir(), CloseAfter: closeAfter,
		Callbacks: 2 * hosts, Connections: 1,
	}
	if err := newAuthority(c.Authority); err != nil {
		t.Fatal(err)
	}
	town, err := startTown(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(town.stop)
	c.Target = town.port
	do, err := c.post()
	if err != nil {
		t.Fatal(err)
	}
	return town, do
}

func (h handshakes) want(t *testing.T, full, resumed int64) {
	t.Helper()
	if h.full != full || h.resumed != resumed {
		t.Errorf("%d full handshakes and %d resumed ones, want %d and %d", h.full, h.resumed, full, resumed)
	}
}

// Each host has a certificate that clients trust, keeps its connection, and counts
// what it is sent.
func TestTLSSink(t *testing.T) {
	town, do := tlsSinkOf(t, 300, 0)
	for i := range 2 * 300 {
		if err := do(i); err != nil {
			t.Fatal(err)
		}
	}
	h, err := town.handshakes()
	if err != nil {
		t.Fatal(err)
	}
	h.want(t, 300, 0)
	if h.open != 300 {
		t.Errorf("%d connections are open, want 300", h.open)
	}
	if n, err := town.counted(); n != 600 || err != nil {
		t.Errorf("counted %d, %v; want 600", n, err)
	}
	if err := netHTTPPost(http.DefaultClient, tlsCallback(town.port, 300, 0), nil); err == nil {
		t.Error("a client that does not know the authority was served")
	}
}

// A host that closes idle connections resumes the session with the next one.
func TestTLSSinkCloses(t *testing.T) {
	town, do := tlsSinkOf(t, 2, time.Millisecond)
	for round := range int64(2) {
		for i := range 2 {
			if err := do(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := town.closed(t.Context()); err != nil {
			t.Fatal(err)
		}
		h, err := town.handshakes()
		if err != nil {
			t.Fatal(err)
		}
		h.want(t, 2, 2*round)
	}
}
