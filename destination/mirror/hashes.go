package mirror

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

// algorithms are those of core §7 that are known: names of the Atom Link Extensions draft.
var algorithms = map[string]func() hash.Hash{
	"md5":     md5.New,
	"sha-1":   sha1.New,
	"sha-224": sha256.New224,
	"sha-256": sha256.New,
	"sha-384": sha512.New384,
	"sha-512": sha512.New,
}

// digest is one that a Source told.
type digest struct{ algorithm, hex string }

// digests reads what a Source told of hashes: those of known algorithms, and whether there are
// others. Digests that are not hexadecimal, or not of the algorithm's length, are seen in real documents
// (core, example 27), and count as unknown.
func digests(told string) (known []digest, others bool) {
	for one := range strings.FieldsSeq(told) {
		algorithm, value, _ := strings.Cut(one, ":")
		d := digest{strings.ToLower(algorithm), strings.ToLower(value)}
		if d.algorithm == "sha1" || d.algorithm == "sha256" || d.algorithm == "sha512" {
			d.algorithm = "sha-" + d.algorithm[3:]
		}
		raw, err := hex.DecodeString(d.hex)
		if algorithms[d.algorithm] == nil || err != nil || len(raw) != algorithms[d.algorithm]().Size() {
			others = true
			continue
		}
		if !slices.Contains(known, d) {
			known = append(known, d)
		}
	}
	return known, others
}

// hashing are the hashes of one file, while it is written or read.
type hashing struct {
	sums map[string]hash.Hash
	io.Writer
}

// newHashing makes SHA-256, and what the digests need.
func newHashing(told []digest) *hashing {
	h := &hashing{sums: map[string]hash.Hash{"sha-256": sha256.New()}}
	writers := []io.Writer{h.sums["sha-256"]}
	for _, d := range told {
		if h.sums[d.algorithm] == nil {
			h.sums[d.algorithm] = algorithms[d.algorithm]()
			writers = append(writers, h.sums[d.algorithm])
		}
	}
	h.Writer = io.MultiWriter(writers...)
	return h
}

// differs returns the first of the digests that is another than what was written has.
func (h *hashing) differs(told []digest) (wrong digest, have string, is bool) {
	for _, d := range told {
		if have := hex.EncodeToString(h.sums[d.algorithm].Sum(nil)); have != d.hex {
			return d, have, true
		}
	}
	return digest{}, "", false
}

func (h *hashing) sha256() (sum [sha256.Size]byte) {
	h.sums["sha-256"].Sum(sum[:0])
	return sum
}
