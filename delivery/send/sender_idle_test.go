//go:build unix

package send_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"carillon/delivery"
)

// The other requests of a hub use the connections of deliveries: the verification of a callback opens
// the connection for the first delivery to it, and both resume one session.
func TestTransportSharesConnections(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: version}}, nameA)
		ask := func(method string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, w.url(nameA), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.sender.Transport().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "status", resp.StatusCode, http.StatusNoContent)
			_ = resp.Body.Close()
		}
		ask(http.MethodGet)
		w.expect(t, "after a verification", nameA, delivery.ClassDelivered)
		ask(http.MethodHead)
		w.reconnect()
		ask(http.MethodGet)
		w.expect(t, "by a session", nameA, delivery.ClassDelivered)
		equal(t, "connections", w.history(), "full 3, resumed 2")
	})
}

// Bytes on an open connection between two requests answer nothing, for any kind of TLS record. The
// connection is used again if it is sound, and replaced if not; in either case the delivery is made
// once.
func TestTLSBetweenRequests(t *testing.T) {
	const reused, replaced = "full 2", "full 1, full 1"
	for name, c := range map[string]struct {
		version uint16
		say     func(f *forger) []byte
		history string
	}{
		"a late ticket": {tls.VersionTLS13, func(f *forger) []byte { return f.ticket(3600, 200) }, reused},
		"other keys":    {tls.VersionTLS13, func(f *forger) []byte { return f.updates(t, 1, 0) }, reused},
		"other keys, asked for": {
			tls.VersionTLS13,
			func(f *forger) []byte { return f.updates(t, 3, 1) }, reused,
		},
		"an empty record": {tls.VersionTLS13, func(f *forger) []byte { return f.say("") }, reused},

		"other keys without end": {
			tls.VersionTLS13,
			func(f *forger) []byte { return f.updates(t, 50, 1) }, replaced,
		},
		"a hundred tickets": {tls.VersionTLS13, func(f *forger) (b []byte) {
			for range 100 {
				b = append(b, f.ticket(3600, 200)...)
			}
			return b
		}, replaced},
		"an answer": {tls.VersionTLS13, func(f *forger) []byte { return f.say(gone410) }, replaced},
		"an answer behind a ticket": {tls.VersionTLS13, func(f *forger) []byte {
			return slices.Concat(f.ticket(3600, 200), f.say(gone410))
		}, replaced},
		"an answer behind other keys": {tls.VersionTLS13, func(f *forger) []byte {
			return slices.Concat(f.updates(t, 1, 1), f.say(gone410))
		}, replaced},
		"the beginning of an answer": {tls.VersionTLS13, func(f *forger) []byte { return f.say("H") }, replaced},
		"a farewell":                 {tls.VersionTLS13, func(f *forger) []byte { return f.record(alertRecord, 1, 0) }, replaced},
		"an alert":                   {tls.VersionTLS13, func(f *forger) []byte { return f.record(alertRecord, 2, 80) }, replaced},
		"a record of another's keys": {tls.VersionTLS13, func(f *forger) []byte {
			spoiled := f.say(gone410)
			spoiled[len(spoiled)-1]++
			return spoiled
		}, replaced},
		"a record without keys": {tls.VersionTLS13, func(*forger) []byte { return record(dataRecord, []byte(gone410)...) }, replaced},
		"what is not TLS":       {tls.VersionTLS13, func(*forger) []byte { return []byte(gone410) }, replaced},
		"a client's message":    {tls.VersionTLS13, func(f *forger) []byte { return f.message(1, 0) }, replaced},

		"an answer, 1.2":       {tls.VersionTLS12, func(f *forger) []byte { return f.say(gone410) }, replaced},
		"an empty record, 1.2": {tls.VersionTLS12, func(f *forger) []byte { return f.say("") }, reused},
		"a renegotiation":      {tls.VersionTLS12, func(f *forger) []byte { return f.message(helloRequest) }, replaced},
		"a warning": {tls.VersionTLS12, func(f *forger) []byte {
			return f.record(alertRecord, 1, 112)
		}, reused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: c.version}}, nameA)
			now := make(chan bool)
			w.change(nil, forging(t, func(v *visit, f *forger) {
				if !v.take() {
					return
				}
				v.write(f.say(ok204))
				<-now
				v.write(c.say(f))
				now <- true
				for v.take() {
					v.write(f.say(ok204))
				}
			}))
			w.expect(t, "first", nameA, delivery.ClassDelivered)
			now <- true
			<-now
			arrived(t, w.dialed.Load())
			w.change(nil, (*visit).answer)
			w.expect(t, "second", nameA, delivery.ClassDelivered)
			equal(t, "connections", w.history(), c.history)
			w.expect(t, "third", nameA, delivery.ClassDelivered)
			equal(t, "requests", w.requests(), 3)
		})
	}
}

// Half a record is more than nothing: a late answer may be on its way, and its rest would come
// as the answer to the next request.
func TestHalfARecordBetweenRequests(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		for name, length := range map[string]int{"within its header": 3, "its header": 5, "within it": 20} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: version}}, nameA)
				now := make(chan bool)
				w.change(nil, forging(t, func(v *visit, f *forger) {
					v.take()
					v.write(f.say(ok204))
					<-now
					late := f.say(gone410)
					v.write(late[:length])
					now <- true
					if v.take() {
						v.write(late[length:])
					}
				}))
				w.expect(t, "first", nameA, delivery.ClassDelivered)
				now <- true
				<-now
				arrived(t, w.dialed.Load())
				w.change(nil, (*visit).answer)
				w.expect(t, "second", nameA, delivery.ClassDelivered)
				equal(t, "connections", w.history(), "full 1, full 1")
			})
		}
	})
}

// arrived waits until there is something to read, or the end.
func arrived(t testing.TB, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
}
