package send_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"net"
	"slices"
	"strings"
	"testing"
)

// forger seals the records of a server, in its place: crypto/tls has no call to send tickets, updates
// of keys or broken records. From its first record on, the server must not write.
type forger struct {
	version uint16
	// Of TLS 1.3: what the keys are made of, and by what.
	secret []byte
	hash   func() hash.Hash
	length int
	aead   cipher.AEAD
	iv     []byte
	number uint64 // of the next record
}

// forging serves a connection by function, with a forger behind the handshake. The server
// sends no tickets of its own by TLS 1.3.
func forging(t testing.TB, serve func(v *visit, f *forger)) func(*visit) {
	return func(v *visit) {
		var keys bytes.Buffer
		cfg := v.config.Clone()
		cfg.KeyLogWriter = &keys
		cfg.SessionTicketsDisabled = true
		cfg.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
		first := &firstWrite{Conn: v.Conn}
		v.secure(first, cfg)
		if !v.handshake() {
			return
		}
		f := &forger{version: v.tls.ConnectionState().Version}
		switch suite := v.tls.ConnectionState().CipherSuite; suite {
		case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
			f.begin12(t, fields(t, &keys, "CLIENT_RANDOM"), first.text)
		case tls.TLS_AES_128_GCM_SHA256:
			f.hash, f.length = sha256.New, 16
			f.begin13(t, fields(t, &keys, "SERVER_TRAFFIC_SECRET_0")[1])
		case tls.TLS_AES_256_GCM_SHA384:
			f.hash, f.length = sha512.New384, 32
			f.begin13(t, fields(t, &keys, "SERVER_TRAFFIC_SECRET_0")[1])
		default:
			t.Errorf("the forger does not know cipher suite %s", tls.CipherSuiteName(suite))
			return
		}
		serve(v, f)
	}
}

// firstWrite remembers what was written first.
type firstWrite struct {
	net.Conn
	text []byte
}

func (c *firstWrite) Write(b []byte) (int, error) {
	if c.text == nil {
		c.text = bytes.Clone(b)
	}
	return c.Conn.Write(b)
}

// fields returns what stands behind a label in a log of keys.
func fields(t testing.TB, log *bytes.Buffer, label string) [2][]byte {
	for line := range strings.Lines(log.String()) {
		if words := strings.Fields(line); words[0] == label {
			random, err := hex.DecodeString(words[1])
			secret, err2 := hex.DecodeString(words[2])
			if err == nil && err2 == nil {
				return [2][]byte{random, secret}
			}
		}
	}
	t.Errorf("no %s in the log of keys", label)
	return [2][]byte{make([]byte, 32), make([]byte, 48)}
}

// begin12 makes the keys of RFC 5246 §6.3 for AES-128-GCM (RFC 5288). The server's first
// record by them was its Finished.
func (f *forger) begin12(t testing.TB, client [2][]byte, hello []byte) {
	master, serverRandom := client[1], hello[5+4+2:][:32]
	seed := slices.Concat([]byte("key expansion"), serverRandom, client[0])
	var block []byte
	for a := seed; len(block) < 2*16+2*4; {
		a = mac(master, a)
		block = append(block, mac(master, slices.Concat(a, seed))...)
	}
	f.seal(t, block[16:32])
	f.iv = block[36:40]
	f.number = 1
}

func mac(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}

// begin13 makes the keys of RFC 8446 §7.3.
func (f *forger) begin13(t testing.TB, secret []byte) {
	f.secret = secret
	f.seal(t, f.expand(t, "key", f.length))
	f.iv = f.expand(t, "iv", 12)
	f.number = 0
}

// expand is HKDF-Expand-Label without a context (RFC 8446 §7.1).
func (f *forger) expand(t testing.TB, label string, length int) []byte {
	info := []byte{byte(length >> 8), byte(length), byte(len("tls13 ") + len(label))}
	info = append(append(info, "tls13 "+label...), 0)
	out, err := hkdf.Expand(f.hash, f.secret, string(info), length)
	if err != nil {
		t.Error(err)
	}
	return out
}

func (f *forger) seal(t testing.TB, key []byte) {
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Error(err)
		return
	}
	if f.aead, err = cipher.NewGCM(block); err != nil {
		t.Error(err)
	}
}

// Kinds of records, and of messages in those of handshakes.
const (
	alertRecord     = 21
	handshakeRecord = 22
	dataRecord      = 23

	helloRequest     = 0
	newSessionTicket = 4
	keyUpdate        = 24
)

// record returns an encrypted record.
func (f *forger) record(kind byte, data ...byte) []byte {
	number := binary.BigEndian.AppendUint64(nil, f.number)
	f.number++
	if f.version == tls.VersionTLS12 {
		extra := append(slices.Clone(number), kind, 3, 3, byte(len(data)>>8), byte(len(data)))
		sealed := f.aead.Seal(nil, slices.Concat(f.iv, number), data, extra)
		return record(kind, slices.Concat(number, sealed)...)
	}
	nonce := slices.Clone(f.iv)
	for i, b := range number {
		nonce[4+i] ^= b
	}
	inner := append(slices.Clone(data), kind)
	length := len(inner) + f.aead.Overhead()
	header := []byte{dataRecord, 3, 3, byte(length >> 8), byte(length)}
	return f.aead.Seal(header, nonce, inner, header)
}

// say returns text above TLS.
func (f *forger) say(text string) []byte { return f.record(dataRecord, []byte(text)...) }

// message returns a message of a handshake, in as many records as it takes.
func (f *forger) message(kind byte, body ...byte) (records []byte) {
	whole := append([]byte{kind, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
	for piece := range slices.Chunk(whole, 16<<10) {
		records = append(records, f.record(handshakeRecord, piece...)...)
	}
	return records
}

// ticket returns a ticket of TLS 1.3 with a label that the server does not know.
func (f *forger) ticket(seconds uint32, length int) []byte {
	body := binary.BigEndian.AppendUint32(nil, seconds)
	body = append(body, 1, 2, 3, 4, 1, 0)
	body = binary.BigEndian.AppendUint16(body, uint16(length))
	body = append(body, bytes.Repeat([]byte{'x'}, length)...)
	return f.message(newSessionTicket, append(body, 0, 0)...)
}

// updates returns changes of the server's keys (RFC 8446 §4.6.3), each of which may ask the
// client to change its keys as well.
func (f *forger) updates(t testing.TB, n int, asking byte) (records []byte) {
	for range n {
		records = append(records, f.message(keyUpdate, asking)...)
		f.begin13(t, f.expand(t, "traffic upd", f.hash().Size()))
	}
	return records
}
