package send_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"carillon/delivery"
)

const (
	nameA = "a.example"
	nameB = "b.example"
)

// versions runs a test with each version of TLS.
func versions(t *testing.T, test func(t *testing.T, version uint16)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { test(t, version) })
	}
}

// A certificate is verified when a connection is made (RFC 8446 §4.4.2.4), also by a cached
// session (§4.6.1). So an open connection outlives the certificate, and no session does.
func TestExpiredCertificate(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		for name, issue := range map[string]func(a *authority, until time.Time) tls.Certificate{
			"of the host": func(a *authority, until time.Time) tls.Certificate {
				return a.issue(t, until, nameA)
			},
			"of its issuer": func(a *authority, until time.Time) tls.Certificate {
				return a.intermediate(t, "an issuer", until).issue(t, never, nameA)
			},
		} {
			t.Run(name, func(t *testing.T) {
				cfg := &tls.Config{MaxVersion: version}
				w := newWorld(t, worldConfig{host: cfg}, nameA)
				brief := cfg.Clone()
				brief.Certificates = []tls.Certificate{issue(w.authority, time.Now().Add(time.Hour))}
				w.change(brief, nil)
				w.expect(t, "while it is valid", nameA, delivery.ClassDelivered)
				w.reconnect()
				w.expect(t, "by a session", nameA, delivery.ClassDelivered)
				w.clock.Store(int64(2 * time.Hour))
				w.expect(t, "over the open connection", nameA, delivery.ClassDelivered)
				for range 2 {
					w.reconnect()
					w.expect(t, "over a new connection", nameA, delivery.ClassTLS)
				}
				renewed := brief.Clone() // with the same keys of tickets
				renewed.Certificates = []tls.Certificate{issue(w.authority, time.Now().Add(4*time.Hour))}
				w.change(renewed, nil)
				w.expect(t, "with a new certificate", nameA, delivery.ClassDelivered)
				w.reconnect()
				w.expect(t, "by a new session", nameA, delivery.ClassDelivered)
				equal(t, "connections", w.history(), "full 1, resumed 2, refused, refused, full 1, resumed 1")
			})
		}
	})
}

// A host that lost the keys of its tickets gets a full handshake, and no failure.
func TestRefusedTickets(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		cfg := &tls.Config{MaxVersion: version}
		w := newWorld(t, worldConfig{host: cfg}, nameA)
		for key := range 3 {
			cfg := cfg.Clone()
			cfg.SetSessionTicketKeys([][32]byte{{byte(key)}})
			w.change(cfg, nil)
			for range 2 {
				w.reconnect()
				w.expect(t, "delivery", nameA, delivery.ClassDelivered)
			}
		}
		equal(t, "connections", w.history(), "full 1, resumed 1, full 1, resumed 1, full 1, resumed 1")
	})
}

// Tickets that a host never takes back, that are many or large, cost a full handshake at most.
// Those that TLS 1.3 forbids end the connection, and nothing of them stays.
func TestOddTickets(t *testing.T) {
	many := func(n int) func(*forger) []byte {
		return func(f *forger) (tickets []byte) {
			for range n {
				tickets = append(tickets, f.ticket(3600, 200)...)
			}
			return tickets
		}
	}
	one := func(seconds uint32, length int) func(*forger) []byte {
		return func(f *forger) []byte { return f.ticket(seconds, length) }
	}
	for name, c := range map[string]struct {
		tickets func(*forger) []byte
		want    delivery.Class
	}{
		"unknown to the host": {one(3600, 200), delivery.ClassDelivered},
		"already expired":     {one(0, 200), delivery.ClassDelivered},
		"for a week":          {one(604800, 200), delivery.ClassDelivered},
		"more than a week":    {one(604801, 200), delivery.ClassTLS},
		"sixteen of them":     {many(16), delivery.ClassDelivered},
		"a hundred of them":   {many(100), delivery.ClassTLS},
		"of 16 KB":            {one(3600, 16<<10), delivery.ClassDelivered},
		"of 60 KB":            {one(3600, 60<<10), delivery.ClassDelivered},
		// The message of the client that offers it would be longer than a message may be.
		"of nearly 64 KiB": {one(3600, 64<<10-100), delivery.ClassDelivered},
		"empty":            {one(3600, 0), delivery.ClassTLS},
		"half of one": {func(f *forger) []byte {
			return f.message(newSessionTicket, 0, 0, 1)
		}, delivery.ClassTLS},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldConfig{host: &tls.Config{MinVersion: tls.VersionTLS13}}, nameA)
			w.change(nil, forging(t, func(v *visit, f *forger) {
				v.write(c.tickets(f))
				if v.take() {
					v.write(f.say(ok204))
				}
				v.drain()
			}))
			w.expect(t, "with the tickets", nameA, c.want)
			w.reconnect()
			w.change(nil, (*visit).answer)
			for range 2 {
				w.expect(t, "afterwards", nameA, delivery.ClassDelivered)
				w.reconnect()
			}
			first, rest, _ := strings.Cut(w.history(), ", ")
			equal(t, "connections after "+first, rest, "full 1, resumed 1")
		})
	}
}

// However a host ends a connection after its answer, the next delivery gets there at the
// first attempt, by a resumed session.
func TestHostCloses(t *testing.T) {
	const closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		answer string
		close  func(*visit)
		// late: the host takes the next request, and only then closes.
		late    bool
		history string
	}{
		"as announced":             {closing, (*visit).closeTLS, false, "full 1, resumed 1, resumed 1"},
		"with a farewell":          {ok204, (*visit).closeTLS, false, "full 1, resumed 1, resumed 1"},
		"without a farewell":       {ok204, (*visit).closeTCP, false, "full 1, resumed 1, resumed 1"},
		"with a farewell, late":    {ok204, (*visit).closeTLS, true, "full 2, resumed 2, resumed 1"},
		"without a farewell, late": {ok204, (*visit).closeTCP, true, "full 2, resumed 2, resumed 1"},
		"by a reset, late":         {ok204, (*visit).reset, true, "full 2, resumed 2, resumed 1"},
	} {
		t.Run(name, func(t *testing.T) {
			versions(t, func(t *testing.T, version uint16) {
				w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: version}}, nameA)
				w.change(nil, func(v *visit) {
					if !v.take() {
						return
					}
					v.say(c.answer)
					if !c.late || v.take() {
						c.close(v)
					}
				})
				for range 3 {
					w.expect(t, "delivery", nameA, delivery.ClassDelivered)
				}
				equal(t, "connections", w.history(), c.history)
			})
		})
	}
}

// A host that closes right after the handshake may have read the request: that is a failed
// attempt. The next one is as if nothing had been.
func TestHostClosesAfterHandshake(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: version}}, nameA)
		w.change(nil, func(v *visit) { v.handshake() })
		w.expect(t, "closed", nameA, delivery.ClassRefused)
		w.change(nil, (*visit).answer)
		w.expect(t, "open", nameA, delivery.ClassDelivered)
		equal(t, "requests", w.requests(), 1)
	})
}

// The hub offers HTTP/1.1 only. A host that speaks HTTP/2 all the same gets nothing, or no
// more than one request that it does not understand.
func TestHTTP2Hosts(t *testing.T) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const goAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	for name, c := range map[string]struct {
		serve func(*visit)
		want  delivery.Class
	}{
		"insists on it by an alert": {func(v *visit) {
			v.readRecord()
			v.write(record(21, 2, 120)) // no_application_protocol
			v.drain()
		}, delivery.ClassTLS},
		"insists on it by closing": {(*visit).readRecord, delivery.ClassRefused},
		"selects it unasked": {func(v *visit) {
			v.readRecord()
			v.write(hello12(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "\x00\x10\x00\x05\x00\x03\x02h2"))
			v.drain()
		}, delivery.ClassTLS},
		"begins with its frames": {func(v *visit) {
			v.handshake()
			v.say(settings)
			v.take()
			v.say(goAway)
			v.closeTLS()
		}, delivery.ClassProtocol},
		"answers by its frames": {func(v *visit) {
			v.take()
			v.say(settings + goAway)
			v.closeTLS()
		}, delivery.ClassProtocol},
		"answers by its frames and waits for more": {func(v *visit) {
			v.take()
			v.say(settings)
			v.drain()
		}, delivery.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := worldConfig{host: &tls.Config{NextProtos: []string{"h2", "http/1.1"}}}
			if c.want == delivery.ClassTimeout {
				cfg.within = 200 * time.Millisecond
			}
			w := newWorld(t, cfg, nameA)
			w.change(nil, c.serve)
			w.expect(t, "HTTP/2", nameA, c.want)
			if c.want == delivery.ClassTLS || c.want == delivery.ClassRefused {
				equal(t, "connections", w.history(), "refused")
			}
			w.recovers(t, nameA)
		})
	}
}

// Two names at one address: neither the connections nor the sessions of one are used for
// the other, and no notification is sent to a name that the certificate does not hold.
func TestTwoNamesAtOneAddress(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		cfg := &tls.Config{MaxVersion: version}
		w := newWorld(t, worldConfig{host: cfg}, nameA)
		w.expect(t, "the name of the certificate", nameA, delivery.ClassDelivered)
		w.expect(t, "another, a connection being open", nameB, delivery.ClassTLS)
		w.reconnect()
		w.expect(t, "another, a session being known", nameB, delivery.ClassTLS)
		w.expect(t, "the address, a session being known", "127.0.0.1", delivery.ClassTLS)
		w.expect(t, "the name, by its session", nameA, delivery.ClassDelivered)
		equal(t, "connections", w.history(), "full 1, refused, refused, refused, resumed 1")

		both := cfg.Clone() // with the same keys of tickets
		both.Certificates = []tls.Certificate{w.authority.issue(t, never, nameA, nameB, "127.0.0.1")}
		w.change(both, nil)
		for range 2 {
			w.reconnect()
			for _, name := range []string{nameB, "127.0.0.1"} {
				w.expect(t, name, name, delivery.ClassDelivered)
			}
		}
		equal(t, "connections", w.history(),
			"full 1, refused, refused, refused, resumed 1, full 1, full 1, resumed 1, resumed 1")
	})
}

// The name of an address is an address: a certificate that spells it as a name is not for it.
func TestAddressAsName(t *testing.T) {
	w := newWorld(t, worldConfig{}, "127.0.0.1")
	w.expect(t, "as an address", "127.0.0.1", delivery.ClassDelivered)
	w.reconnect()
	named := w.cfg.Clone()
	named.Certificates = []tls.Certificate{w.authority.issueNamed(t, "127.0.0.1")}
	named.SetSessionTicketKeys([][32]byte{{1}})
	w.change(named, nil)
	w.expect(t, "as a name", "127.0.0.1", delivery.ClassTLS)
	equal(t, "connections", w.history(), "full 1, refused")
}

// A host whose certificate becomes another's is refused, also where the sender offers a
// session of before: as the session is not resumed, the certificate counts.
func TestCertificateOfAnother(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		cfg := &tls.Config{MaxVersion: version}
		w := newWorld(t, worldConfig{host: cfg}, nameA)
		w.expect(t, "before", nameA, delivery.ClassDelivered)
		for name, certificate := range map[string]tls.Certificate{
			"another name":      w.authority.issue(t, never, nameB),
			"another authority": newAuthority(t).issue(t, never, nameA),
		} {
			other := cfg.Clone()
			other.Certificates = []tls.Certificate{certificate}
			other.SetSessionTicketKeys([][32]byte{{1}})
			w.change(other, nil)
			w.reconnect()
			w.expect(t, name, nameA, delivery.ClassTLS)
			w.change(cfg, nil)
			w.expect(t, "afterwards", nameA, delivery.ClassDelivered)
			w.reconnect()
			w.expect(t, "by a session again", nameA, delivery.ClassDelivered)
		}
		equal(t, "connections", w.history(), "full 1, refused, full 1, resumed 1, refused, full 1, resumed 1")
	})
}

// A host that wants a certificate of the hub's gets none.
func TestCertificateOfTheHub(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		cfg := &tls.Config{MaxVersion: version}
		w := newWorld(t, worldConfig{host: cfg}, nameA)
		asking := cfg.Clone()
		asking.ClientAuth = tls.RequireAnyClientCert
		w.change(asking, nil)
		w.expect(t, "asked for one", nameA, delivery.ClassTLS)
		w.change(cfg, nil)
		w.expect(t, "not asked", nameA, delivery.ClassDelivered)
	})
}
