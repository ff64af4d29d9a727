package pebblestore

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// encoder builds a record: a version byte, then fields in a fixed order.
// Strings carry their length before them.
type encoder []byte

func newEncoder(version byte, size int) encoder {
	return append(make(encoder, 0, size+1), version)
}

func (e *encoder) octet(b byte)    { *e = append(*e, b) }
func (e *encoder) number(n uint64) { *e = binary.AppendUvarint(*e, n) }
func (e *encoder) signed(n int64)  { *e = binary.AppendVarint(*e, n) }
func (e *encoder) raw(b []byte)    { *e = append(*e, b...) }
func (e *encoder) words(s string)  { e.number(uint64(len(s))); *e = append(*e, s...) }

// instant keeps the zero time as such, and others to the nanosecond.
func (e *encoder) instant(t time.Time) {
	if t.IsZero() {
		e.octet(0)
		return
	}
	e.octet(1)
	e.signed(t.Unix())
	e.number(uint64(t.Nanosecond()))
}

// decoder reads a record. It does not trust it: the first field that does not
// fit is remembered and everything after it reads as zero.
type decoder struct {
	rest []byte
	err  error
	// text is the whole record where its strings are parts of one: each keeps all
	// of them in memory.
	text string
}

// newDecoder expects a record of the version.
func newDecoder(record []byte, version byte) *decoder {
	d := &decoder{rest: record}
	d.version(version)
	return d
}

func (d *decoder) version(want byte) {
	if v := d.octet(); d.err == nil && v != want {
		d.fail(fmt.Sprintf("version %d", v))
	}
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	d.rest = nil
}

// done reports whether everything fitted and nothing is left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail(fmt.Sprintf("%d bytes too many", len(d.rest)))
	}
	return d.err
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail("it is cut off")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) octet() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) signed() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// uintMax reads a number of at most limit.
func (d *decoder) uintMax(limit uint64) uint64 {
	n := d.number()
	if n > limit {
		d.fail("a number is too large")
		return 0
	}
	return n
}

func (d *decoder) words() string {
	b := d.take(d.number())
	if d.text == "" {
		return string(b)
	}
	end := len(d.text) - len(d.rest)
	return d.text[end-len(b) : end]
}

func (d *decoder) instant() time.Time {
	switch d.octet() {
	case 0:
		return time.Time{}
	case 1:
		sec := d.signed()
		nsec := d.uintMax(uint64(time.Second) - 1)
		if d.err != nil {
			return time.Time{}
		}
		return time.Unix(sec, int64(nsec)).UTC()
	}
	d.fail("a time is of no known kind")
	return time.Time{}
}

// array reads exactly len(to) bytes into it.
func (d *decoder) array(to []byte) { copy(to, d.take(uint64(len(to)))) }

// list reads a counted list. The count is not trusted: every string takes
// at least a byte.
func (d *decoder) list() []string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail("a list is cut off")
	}
	if d.err != nil || n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 64))
	for range n {
		list = append(list, d.words())
	}
	return list
}

func encodeCount(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func decodeCount(record []byte) (uint64, error) {
	if len(record) != 8 {
		return 0, fmt.Errorf("%w: a count of %d bytes", ErrDamaged, len(record))
	}
	n := binary.BigEndian.Uint64(record)
	if n == math.MaxUint64 {
		return 0, fmt.Errorf("%w: a count that cannot rise", ErrDamaged)
	}
	return n, nil
}
