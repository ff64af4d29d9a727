package send

import (
	"crypto/sha1" //nolint:gosec // WebSub §7.1 lists it; the operator chooses
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

// signer makes the X-Hub-Signature of deliveries (WebSub §7.1).
type signer struct {
	method string
	macs   sync.Pool // of *mac
}

// CheckSignature returns an error unless method is one of WebSub §7.1.
func CheckSignature(method string) error {
	_, err := newSigner(method)
	return err
}

// newSigner knows the methods of WebSub §7.1 by their names.
func newSigner(method string) (*signer, error) {
	var newHash func() hash.Hash
	switch method {
	case "sha1":
		newHash = sha1.New
	case "sha256":
		newHash = sha256.New
	case "sha384":
		newHash = sha512.New384
	case "sha512":
		newHash = sha512.New
	default:
		return nil, fmt.Errorf("field Signature is %q: it must be sha1, sha256, sha384 or sha512 (WebSub §7.1)", method)
	}
	s := &signer{method: method}
	s.macs.New = func() any {
		h := newHash()
		return &mac{hash: h, pad: make([]byte, h.BlockSize()), sum: make([]byte, 0, h.Size())}
	}
	return s, nil
}

// append appends the header's value: the method, and the HMAC over exactly the
// body with the secret as its key.
func (s *signer) append(b []byte, secret string, body []byte) []byte {
	m := s.macs.Get().(*mac)
	b = append(b, s.method...)
	b = append(b, '=')
	b = hex.AppendEncode(b, m.of(secret, body))
	s.macs.Put(m)
	return b
}

// mac is an HMAC (RFC 2104) that changes its key: crypto/hmac makes everything anew
// for each, which takes longer than hashing a small body.
type mac struct {
	hash hash.Hash
	pad  []byte // a block
	sum  []byte
}

// of returns the HMAC, good until the next call. The pad is cleared behind it; the hash's form of the
// key stays in it until then, as the secret itself does elsewhere.
func (m *mac) of(key string, message []byte) []byte {
	clear(m.pad)
	if len(key) > len(m.pad) {
		m.hash.Reset()
		m.hash.Write([]byte(key))
		copy(m.pad, m.hash.Sum(m.sum[:0]))
	} else {
		copy(m.pad, key)
	}
	m.xor(0x36)
	m.hash.Reset()
	m.hash.Write(m.pad)
	m.hash.Write(message)
	m.sum = m.hash.Sum(m.sum[:0])
	m.xor(0x36 ^ 0x5c)
	m.hash.Reset()
	m.hash.Write(m.pad)
	m.hash.Write(m.sum)
	m.sum = m.hash.Sum(m.sum[:0])
	clear(m.pad)
	return m.sum
}

func (m *mac) xor(with byte) {
	for i := range m.pad {
		m.pad[i] ^= with
	}
}
