package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/subscription"
)

// ErrDamaged: a stored record cannot be read back. Trying again does not help.
var ErrDamaged = errors.New("a stored record is damaged")

// recordVersion begins every record of this layout.
const recordVersion = '1'

// A request begins with the version and its token, 16 bytes, by which scripts tell
// it from a later one.
const tokenLen = 16

// A subscription begins with the version and the instant at which it expires, as
// sortable writes it, by which scripts find its entry in the index of leases.

func encodeSubscription(s subscription.Subscription) []byte {
	e := encoder{recordVersion}
	e.raw(sortable(s.Expires))
	e.words(s.Topic)
	e.words(s.Callback)
	e.words(string(s.Secret))
	e.uint(s.Start)
	e.signed(int64(s.Lease))
	e.instant(s.Created)
	return e
}

func decodeSubscription(id subscription.ID, record string) (subscription.Subscription, error) {
	d := decode(record)
	s := subscription.Subscription{ID: id}
	s.Expires = d.sortable()
	s.Topic = d.words()
	s.Callback = d.words()
	s.Secret = subscription.Secret(d.words())
	s.Start = d.uint()
	s.Lease = time.Duration(d.signed())
	s.Created = d.instant()
	if err := d.done(); err != nil {
		return subscription.Subscription{}, err
	}
	return s, nil
}

// encodeRequest appends a start and a verify token only where there is one: hubs of before
// cannot read such a record.
func encodeRequest(r subscription.Request) []byte {
	e := encoder{recordVersion}
	e.raw(string(r.Token[:]))
	e.words(string(r.Mode))
	e.words(r.Topic)
	e.words(r.Callback)
	e.words(string(r.Secret))
	e.signed(int64(r.Lease))
	e.instant(r.Received)
	if !r.Since.IsZero() || r.Start != 0 || r.VerifyToken != "" {
		e.instant(r.Since)
		e.uint(r.Start)
		e.words(string(r.VerifyToken))
	}
	return e
}

func decodeRequest(id subscription.ID, record string) (subscription.Request, error) {
	d := decode(record)
	r := subscription.Request{ID: id}
	copy(r.Token[:], d.take(tokenLen))
	r.Mode = subscription.Mode(d.words())
	r.Topic = d.words()
	r.Callback = d.words()
	r.Secret = subscription.Secret(d.words())
	r.Lease = time.Duration(d.signed())
	r.Received = d.instant()
	if d.rest != "" {
		r.Since = d.instant()
		r.Start = d.uint()
		r.VerifyToken = subscription.Secret(d.words())
	}
	if err := d.done(); err != nil {
		return subscription.Request{}, err
	}
	return r, nil
}

// sortableLen is the length of what sortable writes.
const sortableLen = 24

// sortable writes an instant so that the order of texts is the order of instants:
// 16 hexadecimal digits of seconds and 8 of nanoseconds.
func sortable(t time.Time) string {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.Unix())^1<<63) // negative ones sort first
	binary.BigEndian.PutUint32(b[8:], uint32(t.Nanosecond()))
	return hex.EncodeToString(b[:])
}

func parseSortable(text string) (time.Time, error) {
	var b [sortableLen / 2]byte
	if len(text) != sortableLen {
		return time.Time{}, fmt.Errorf("%w: it has no instant", ErrDamaged)
	}
	if _, err := hex.Decode(b[:], []byte(text)); err != nil {
		return time.Time{}, fmt.Errorf("%w: it has no instant", ErrDamaged)
	}
	nanos := binary.BigEndian.Uint32(b[8:])
	if nanos >= uint32(time.Second) {
		return time.Time{}, fmt.Errorf("%w: an instant has too many nanoseconds", ErrDamaged)
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b[:8])^1<<63), int64(nanos)).UTC(), nil
}

// idLen is the length of the name of a field that is a subscription's.
const idLen = 36

// parseID reads the name of a field that is a subscription's.
func parseID(field string) (subscription.ID, error) {
	id, err := uuid.Parse(field) // which takes other forms, too
	if err != nil || len(field) != idLen || strings.ContainsAny(field, "ABCDEF") {
		return subscription.ID{}, fmt.Errorf("%w: a field is no id", ErrDamaged)
	}
	return id, nil
}

// appendID writes the name of a field that is a subscription's.
func appendID(b []byte, id subscription.ID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// encoder builds a record of fields in a fixed order. Texts carry their length
// before them.
type encoder []byte

func (e *encoder) uint(n uint64)  { *e = binary.AppendUvarint(*e, n) }
func (e *encoder) signed(n int64) { *e = binary.AppendVarint(*e, n) }
func (e *encoder) raw(s string)   { *e = append(*e, s...) }
func (e *encoder) words(s string) { e.uint(uint64(len(s))); e.raw(s) }

// instant keeps every instant to the nanosecond.
func (e *encoder) instant(t time.Time) {
	e.signed(t.Unix())
	e.uint(uint64(t.Nanosecond()))
}

// decoder reads a record and does not trust it: the first field that does not fit
// is remembered, and everything after it reads as zero.
type decoder struct {
	rest string
	err  error
}

// decode begins to read a record of this layout.
func decode(record string) *decoder {
	d := &decoder{rest: record}
	if version := d.take(1); d.err == nil && version[0] != recordVersion {
		d.fail(fmt.Sprintf("it is of version %q", version))
	}
	return d
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	d.rest = ""
}

// done reports whether everything fitted and nothing is left over.
func (d *decoder) done() error {
	if d.err == nil && d.rest != "" {
		d.fail(fmt.Sprintf("it has %d bytes too many", len(d.rest)))
	}
	return d.err
}

// take reads n bytes; fewer only where there is an error.
func (d *decoder) take(n uint64) string {
	if n > uint64(len(d.rest)) {
		d.fail("it is cut off")
		return ""
	}
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) words() string { return d.take(d.uint()) }

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint([]byte(d.rest[:min(len(d.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) signed() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1) // as encoding/binary writes signed numbers
}

func (d *decoder) instant() time.Time {
	seconds, nanos := d.signed(), d.uint()
	if nanos >= uint64(time.Second) {
		d.fail("an instant has too many nanoseconds")
	}
	if d.err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos)).UTC()
}

func (d *decoder) sortable() time.Time {
	t, err := parseSortable(d.take(sortableLen))
	if err != nil && d.err == nil {
		d.err = err
	}
	return t
}
