package send_test

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/delivery"
)

// A host that does not get through the handshake gets nothing of a notification. The class
// gives the reason why, the connection is closed, and the next delivery is as if nothing had been.
func TestBadHandshakes(t *testing.T) {
	const handshakeFailure, closeNotify, userCanceled = 40, 0, 90
	for name, c := range map[string]struct {
		serve func(v *visit)
		want  delivery.Class
	}{
		"says nothing": {(*visit).drain, delivery.ClassTimeout},
		"stops within a record": {func(v *visit) {
			v.readRecord()
			v.write([]byte{handshakeRecord, 3, 3, 0, 90, 2, 0, 0})
			v.drain()
		}, delivery.ClassTimeout},
		"stops within a message": {func(v *visit) {
			v.readRecord()
			v.write(record(handshakeRecord, 2, 0, 0, 86, 3, 3))
			v.drain()
		}, delivery.ClassTimeout},
		"trickles": {func(v *visit) {
			v.secure(trickling{v.Conn}, v.config)
			v.answer()
		}, delivery.ClassTimeout},

		"closes at once":          {func(*visit) {}, delivery.ClassRefused},
		"closes":                  {(*visit).readRecord, delivery.ClassRefused},
		"closes within a message": {func(v *visit) { v.readRecord(); v.write(record(handshakeRecord, 2, 0, 0, 86, 3, 3)) }, delivery.ClassRefused},
		"resets":                  {func(v *visit) { v.readRecord(); v.reset() }, delivery.ClassRefused},
		"says goodbye":            {refusing(record(alertRecord, 1, closeNotify)), delivery.ClassRefused},

		"refuses":        {refusing(record(alertRecord, 2, handshakeFailure)), delivery.ClassTLS},
		"warns for ever": {refusing(bytes.Repeat(record(alertRecord, 1, userCanceled), 100)), delivery.ClassTLS},
		"speaks HTTP":    {refusing([]byte(ok204)), delivery.ClassTLS},
		"speaks of a bad request": {refusing(
			[]byte("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"),
		), delivery.ClassTLS},
		"says anything":       {refusing(bytes.Repeat([]byte("anything at all "), 1<<14)), delivery.ClassTLS},
		"empty records":       {refusing(bytes.Repeat(record(handshakeRecord), 1<<10)), delivery.ClassTLS},
		"too large a record":  {refusing(append([]byte{handshakeRecord, 3, 3, 0xff, 0xff}, make([]byte, 0xffff)...)), delivery.ClassTLS},
		"too large a message": {refusing(record(handshakeRecord, 2, 0xff, 0xff, 0xff, 3, 3)), delivery.ClassTLS},
		"another message":     {refusing(record(handshakeRecord, 14, 0, 0, 0)), delivery.ClassTLS},
		"data":                {refusing(record(dataRecord, []byte(ok204)...)), delivery.ClassTLS},
		"TLS 1.1": {refusing(
			record(handshakeRecord, slices.Concat([]byte{2, 0, 0, 38, 3, 2}, make([]byte, 32), []byte{0, 0xc0, 0x09, 0})...),
		), delivery.ClassTLS},
		"a suite not offered":          {refusing(hello12(tls.TLS_RSA_WITH_RC4_128_SHA, "")), delivery.ClassTLS},
		"an unreadable certificate":    {presenting([]byte("a certificate")), delivery.ClassTLS},
		"too large a certificate":      {presenting(make([]byte, 300<<10)), delivery.ClassTLS},
		"many unreadable certificates": {presenting(slices.Repeat([][]byte{{0}}, 20_000)...), delivery.ClassTLS},
		"no certificate":               {presenting(), delivery.ClassTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := worldConfig{}
			if c.want == delivery.ClassTimeout {
				cfg.handshake = 200 * time.Millisecond
			}
			w := newWorld(t, cfg, nameA)
			w.change(nil, c.serve)
			// More of them than handshakes are computed at a time.
			var attempts sync.WaitGroup
			n := runtime.GOMAXPROCS(0) + 1
			for i := range n {
				attempts.Go(func() { w.expect(t, "handshake", fmt.Sprintf("h%d.example", i), c.want) })
			}
			attempts.Wait()
			w.empty()
			equal(t, "connections", w.history(), strings.Repeat(", refused", n)[2:])
			w.recovers(t, nameA)
			equal(t, "requests", w.requests(), 1)
		})
	}
}

// refusing says something in place of a handshake.
func refusing(said []byte) func(*visit) {
	return func(v *visit) {
		v.readRecord()
		v.write(said)
		v.drain()
	}
}

// presenting begins TLS 1.2 with certificates that need not be any.
func presenting(certificates ...[]byte) func(*visit) {
	length := func(n int) []byte { return []byte{byte(n >> 16), byte(n >> 8), byte(n)} }
	var list []byte
	for _, certificate := range certificates {
		list = append(append(list, length(len(certificate))...), certificate...)
	}
	message := slices.Concat([]byte{11}, length(len(list)+3), length(len(list)), list)
	said := hello12(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "")
	for piece := range slices.Chunk(message, 16<<10) {
		said = append(said, record(handshakeRecord, piece...)...)
	}
	return refusing(append(said, record(handshakeRecord, 14, 0, 0, 0)...)) // ServerHelloDone
}

// trickling is a connection that writes a byte now and then, until the other side has closed.
type trickling struct {
	net.Conn
}

func (c trickling) Write(b []byte) (int, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range b {
		<-tick.C
		if n, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i + n, err
		}
	}
	return len(b), nil
}

// Handshakes that hang hold up no other host, however many there are.
func TestHangingHandshakes(t *testing.T) {
	w := newWorld(t, worldConfig{}, nameA)
	begun := make(chan bool)
	hang := func(said ...byte) func(*visit) {
		return func(v *visit) {
			v.readRecord()
			v.write(said)
			begun <- true
			v.drain()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var attempts sync.WaitGroup
	var ended atomic.Int64
	for i := range 4 * runtime.GOMAXPROCS(0) {
		w.change(nil, hang(record(handshakeRecord, 2, 0, 0, 86, 3, 3)[:i%12]...))
		attempts.Go(func() {
			a := attemptOn(w.url(fmt.Sprintf("h%d.example", i)), "")
			equal(t, "class, broken off", w.sender.Send(ctx, a).Class, delivery.ClassNone)
			ended.Add(1)
		})
		<-begun
	}
	w.change(nil, (*visit).answer)
	w.expect(t, "meanwhile", nameA, delivery.ClassDelivered)
	equal(t, "handshakes that have ended", ended.Load(), 0)
	cancel()
	attempts.Wait()
	w.reconnect()
	w.expect(t, "afterwards", nameA, delivery.ClassDelivered)
}

// Hosts that do not even answer hold up no other host, however many there are.
func TestDeadHosts(t *testing.T) {
	w := newWorld(t, worldConfig{handshake: 4 * time.Second}, nameA)
	ctx, cancel := context.WithCancel(t.Context())
	var attempts sync.WaitGroup
	var timeouts atomic.Int64
	for i := range 256 * runtime.GOMAXPROCS(0) {
		attempts.Go(func() {
			if w.sender.Send(ctx, attemptOn(w.url(fmt.Sprint(deadName, i, ".example")), "")).Class == delivery.ClassTimeout {
				timeouts.Add(1)
			}
		})
		<-w.dead
	}
	w.expect(t, "meanwhile", nameA, delivery.ClassDelivered)
	equal(t, "dead hosts that were given up meanwhile", timeouts.Load(), 0)
	cancel()
	attempts.Wait()
}

// Small records are no fault.
func TestShreddedHandshake(t *testing.T) {
	w := newWorld(t, worldConfig{host: &tls.Config{MaxVersion: tls.VersionTLS12}}, nameA)
	w.change(nil, func(v *visit) {
		v.secure(&shredding{Conn: v.Conn}, v.config)
		v.answer()
	})
	w.expect(t, "delivery", nameA, delivery.ClassDelivered)
	equal(t, "connections", w.history(), "full 1")
}

// The certificates that come with a host's own are bounded, as they take memory for as long as
// its connections and sessions are kept, and time to verify.
func TestManyCertificates(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		cfg := &tls.Config{MaxVersion: version}
		w := newWorld(t, worldConfig{host: cfg}, nameA)
		own := cfg.Certificates[0]
		// All have the name of the issuer, which may be missing, but not its key.
		more := w.authority.intermediate(t, "the root", never).chain
		with := func(n int, first tls.Certificate) tls.Certificate {
			first.Certificate = slices.Concat(first.Certificate, slices.Repeat(more, n))
			return first
		}
		names := slices.Repeat([]string{nameA}, 64<<10/(len(nameA)+2))
		for i, c := range []struct {
			name        string
			certificate tls.Certificate
			want        delivery.Class
		}{
			{"sixteen", with(15, own), delivery.ClassDelivered},
			{"seventeen", with(16, own), delivery.ClassTLS},
			{"60 KB", with(60<<10/len(more[0]), own), delivery.ClassTLS},
			{"a megabyte", with(1<<20/len(more[0]), own), delivery.ClassTLS},
			{"60 KB that lead to no authority", with(60<<10/len(more[0]), newAuthority(t).issue(t, never, nameA)), delivery.ClassTLS},
			{"one of 64 KiB", w.authority.issue(t, never, names...), delivery.ClassTLS},
			{"one with a huge key", w.authority.hugeKey(t, nameA), delivery.ClassTLS},
			{"one", own, delivery.ClassDelivered},
		} {
			odd := cfg.Clone()
			odd.Certificates = []tls.Certificate{c.certificate}
			odd.SetSessionTicketKeys([][32]byte{{byte(i)}})
			w.change(odd, nil)
			w.reconnect()
			w.expect(t, c.name, nameA, c.want)
		}
		equal(t, "connections", w.history(), "full 1, "+strings.Repeat("refused, ", 6)+"full 1")
	})
}

// hugeKey returns a certificate with an RSA key of 16,384 bits, of which the host has no
// private part.
func (a *authority) hugeKey(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	modulus := new(big.Int).Lsh(big.NewInt(1), 16<<10-1)
	der := a.sign(t, key, &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: never,
	})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// shredding is a server's connection that splits the records of the handshake, as long as
// they are not encrypted, into records of a byte each (RFC 8446 §5.1).
type shredding struct {
	net.Conn
	encrypted bool
}

func (c *shredding) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 5; {
		length := 5 + int(binary.BigEndian.Uint16(rest[3:]))
		whole := rest[:length]
		rest = rest[length:]
		c.encrypted = c.encrypted || whole[0] != handshakeRecord
		if c.encrypted {
			if _, err := c.Conn.Write(whole); err != nil {
				return 0, err
			}
			continue
		}
		var shreds []byte
		for _, one := range whole[5:] {
			shreds = append(shreds, record(handshakeRecord, one)...)
		}
		if _, err := c.Conn.Write(shreds); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
