//go:build linux

package main

import (
	"net/http"
	"testing"
	"time"
)

// tlsSinkOf starts a sink with hosts over TLS, and returns how to post to its callbacks,
// two on each host, and how to forget the connections.
func tlsSinkOf(t *testing.T, hosts int, m manner) (town *tlsTown, do post, forget func()) {
	t.Helper()
	b := &tlsBench{authority: t.TempDir()}
	if err := newAuthority(b.authority); err != nil {
		t.Fatal(err)
	}
	town, err := b.startTLSTown(t.Context(), hosts, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(town.stop)
	c := child{authority: b.authority, target: town.port, hosts: hosts, callbacks: 2 * hosts, connections: 1}
	client, err := c.tlsClient()
	if err != nil {
		t.Fatal(err)
	}
	return town, c.tlsPost(client), client.CloseIdleConnections
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
	town, do, _ := tlsSinkOf(t, 300, manner{})
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
	if h.accepted != 300 || h.open != 300 {
		t.Errorf("%d connections, %d of them open, want 300", h.accepted, h.open)
	}
	if n, err := town.count(); n != 600 || err != nil {
		t.Errorf("counted %d, %v; want 600", n, err)
	}
	if err := netHTTPPost(http.DefaultClient, town.callback(300, 0), nil); err == nil {
		t.Error("a client that does not know the authority was served")
	}
}

// A host that closes idle connections resumes the session with the next one.
func TestTLSSinkCloses(t *testing.T) {
	town, do, forget := tlsSinkOf(t, 2, manner{closeAfter: time.Millisecond})
	for round := range int64(2) {
		for i := range 2 {
			if err := do(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := town.closed(t.Context()); err != nil {
			t.Fatal(err)
		}
		forget() // as the client does by itself when it notices
		h, err := town.handshakes()
		if err != nil {
			t.Fatal(err)
		}
		h.want(t, 2, 2*round)
	}
}

// A host that is far away answers after a round trip, and after two more where a
// connection is opened.
func TestTLSSinkFar(t *testing.T) {
	const roundTrip = 20 * time.Millisecond
	town, do, _ := tlsSinkOf(t, 1, manner{roundTrip: roundTrip})
	for _, trips := range []time.Duration{3, 1} {
		begin := time.Now()
		if err := do(0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < trips*roundTrip {
			t.Errorf("answered within %s, which is less than %d round trips", took, trips)
		}
	}
	if n, err := town.count(); n != 2 || err != nil {
		t.Errorf("counted %d, %v; want 2", n, err)
	}
}
