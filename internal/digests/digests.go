// Package digests reads the hashes that ResourceSync documents have (core §7), and compares them
// with content. Sources verify what they pack with it, Destinations what they fetch.
package digests

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"slices"
	"strings"
)

// algorithms are the known ones of core §7, by the names of the Atom Link Extensions draft.
var algorithms = map[string]struct {
	size int // of a hash, bytes
	make func() hash.Hash
}{
	"md5":     {md5.Size, md5.New},
	"sha-1":   {sha1.Size, sha1.New},
	"sha-224": {sha256.Size224, sha256.New224},
	"sha-256": {sha256.Size, sha256.New},
	"sha-384": {sha512.Size384, sha512.New384},
	"sha-512": {sha512.Size, sha512.New},
}

// Digest is one hash of a document: the algorithm's name, and lower-case hexadecimal digits.
type Digest struct{ Algorithm, Hex string }

// maxText and maxDigests bound what Parse looks at: bytes of the attribute, and digests in it.
const (
	maxText    = 4 << 10
	maxDigests = 32
)

// Parse returns the digests of known algorithms in a hash attribute, each once. others reports
// whether there are further ones. A digest that is not hexadecimal, or not of the algorithm's
// length, counts as unknown: real documents have such (core, example 27). So does what is beyond
// the first 32 digests or 4096 bytes.
func Parse(told string) (known []Digest, others bool) {
	if len(told) > maxText {
		// The digest at the cut may lack its end, and does not count.
		told, others = told[:strings.LastIndexAny(told[:maxText+1], " \t\r\n")+1], true
	}
	n := 0
	for one := range strings.FieldsSeq(told) {
		if n++; n > maxDigests {
			return known, true
		}
		algorithm, value, _ := strings.Cut(one, ":")
		d := Digest{strings.ToLower(algorithm), strings.ToLower(value)}
		if d.Algorithm == "sha1" || d.Algorithm == "sha256" || d.Algorithm == "sha512" {
			d.Algorithm = "sha-" + d.Algorithm[3:]
		}
		size := algorithms[d.Algorithm].size
		if size == 0 || len(d.Hex) != hex.EncodedLen(size) || !isHex(d.Hex) {
			others = true
			continue
		}
		if !slices.Contains(known, d) {
			known = append(known, d)
		}
	}
	return known, others
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// Hashing computes SHA-256, and what the digests need, of what is written to it.
type Hashing struct {
	sums map[string]hash.Hash
	io.Writer
}

// New returns a Hashing for the digests.
func New(told []Digest) *Hashing {
	h := &Hashing{sums: map[string]hash.Hash{"sha-256": sha256.New()}}
	h.Writer = h.sums["sha-256"]
	writers := []io.Writer{h.Writer}
	for _, d := range told {
		if h.sums[d.Algorithm] == nil {
			h.sums[d.Algorithm] = algorithms[d.Algorithm].make()
			writers = append(writers, h.sums[d.Algorithm])
		}
	}
	if len(writers) > 1 {
		h.Writer = io.MultiWriter(writers...)
	}
	return h
}

// Differs returns the first of the digests that does not match what was written, and what that
// has instead. The digests must be among those given to New.
func (h *Hashing) Differs(told []Digest) (wrong Digest, have string, is bool) {
	for _, d := range told {
		if have := hex.EncodeToString(h.sums[d.Algorithm].Sum(nil)); have != d.Hex {
			return d, have, true
		}
	}
	return Digest{}, "", false
}

// SHA256 returns the SHA-256 of what was written.
func (h *Hashing) SHA256() (sum [sha256.Size]byte) {
	h.sums["sha-256"].Sum(sum[:0])
	return sum
}
