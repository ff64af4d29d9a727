package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// The records of cursors are text, fields in a fixed order with a space between,
// so that scripts and operators can read them. Numbers are decimal without
// leading zeros.

// encodePosition makes the value that the cursors' hash has for a subscription:
//
//	SETTLED [FAILURES NEXTATTEMPT LASTFAILURE LASTSTATUS [REPLAYNEXT REPLAYLAST]]
//
// The fields in brackets are there where one of them is not zero.
func encodePosition(p delivery.Position) string { return string(appendPosition(nil, p)) }

func appendPosition(b []byte, p delivery.Position) []byte {
	b = strconv.AppendUint(b, uint64(p.Settled), 10)
	if p == (delivery.Position{Settled: p.Settled}) {
		return b
	}
	b = strconv.AppendUint(append(b, ' '), uint64(p.Failures), 10)
	b = append(append(b, ' '), encodeInstant(p.NextAttempt)...)
	b = strconv.AppendUint(append(b, ' '), uint64(p.LastFailure), 10)
	b = strconv.AppendUint(append(b, ' '), uint64(p.LastStatus), 10)
	if p.ReplayNext == 0 && p.ReplayLast == 0 {
		return b
	}
	b = strconv.AppendUint(append(b, ' '), uint64(p.ReplayNext), 10)
	return strconv.AppendUint(append(b, ' '), uint64(p.ReplayLast), 10)
}

// usualAdvance is about how long encodeAdvances makes one.
const usualAdvance = idLen + 1 + 16

// encodeAdvances makes the text that saveScript takes. A position is never longer than
// one byte says.
func encodeAdvances(advances []delivery.Advance) []byte {
	b := make([]byte, 0, len(advances)*usualAdvance)
	for _, a := range advances {
		b = append(appendID(b, a.Subscription), 0)
		at := len(b)
		b = appendPosition(b, a.Position)
		b[at-1] = byte(len(b) - at)
	}
	return b
}

func decodePosition(record string) (p delivery.Position, err error) {
	f := fieldsOf(record)
	p.Settled = delivery.Seq(f.uint(math.MaxUint64))
	if f.err == nil && f.more {
		p.Failures = uint32(f.uint(math.MaxUint32))
		p.NextAttempt = f.instant()
		p.LastFailure = delivery.Class(f.uint(math.MaxUint8))
		p.LastStatus = uint16(f.uint(math.MaxUint16))
	}
	if f.err == nil && f.more {
		p.ReplayNext = delivery.Seq(f.uint(math.MaxUint64))
		p.ReplayLast = delivery.Seq(f.uint(math.MaxUint64))
	}
	if err := f.done(); err != nil {
		return delivery.Position{}, fmt.Errorf("a position: %w", err)
	}
	return p, nil
}

// encodeGap makes the member that the zset of a subscription's gaps has for one;
// its score is First:
//
//	FIRST LAST REASON FAILURE AT [REPLAYED]
func encodeGap(g delivery.Gap) string {
	text := fmt.Sprintf("%d %d %d %d %s", g.First, g.Last, g.Reason, g.Failure, encodeInstant(g.At))
	if !g.Replayed.IsZero() {
		text += " " + encodeInstant(g.Replayed)
	}
	return text
}

func decodeGap(id subscription.ID, record string) (delivery.Gap, error) {
	f := fieldsOf(record)
	g := delivery.Gap{
		Subscription: id,
		First:        delivery.Seq(f.uint(math.MaxUint64)),
		Last:         delivery.Seq(f.uint(math.MaxUint64)),
		Reason:       delivery.GapReason(f.uint(math.MaxUint8)),
		Failure:      delivery.Class(f.uint(math.MaxUint8)),
		At:           f.instant(),
	}
	if f.err == nil && f.more {
		g.Replayed = f.instant()
	}
	if err := f.done(); err != nil {
		return delivery.Gap{}, fmt.Errorf("a gap: %w", err)
	}
	return g, nil
}

// noInstant is the zero time.
const noInstant = "-"

// encodeInstant writes Unix seconds, a point and nine digits of nanoseconds.
func encodeInstant(t time.Time) string {
	if t.IsZero() {
		return noInstant
	}
	return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond())
}

func decodeInstant(text string) (time.Time, error) {
	if text == noInstant {
		return time.Time{}, nil
	}
	seconds, nanos, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	if len(nanos) != 9 {
		return time.Time{}, fmt.Errorf("%q does not have nine digits of nanoseconds", text)
	}
	n, err := strconv.ParseUint(nanos, 10, 32)
	return time.Unix(s, int64(n)).UTC(), err
}

// fields reads a record. It does not trust it: the first field that does not fit
// is remembered, and everything after it reads as zero.
type fields struct {
	rest string
	more bool // rest is a field, or several
	err  error
}

func fieldsOf(record string) fields { return fields{rest: record, more: true} }

// next is the next field, empty without one.
func (f *fields) next() (field string) {
	switch {
	case f.err != nil:
		return ""
	case !f.more:
		f.fail(fmt.Errorf("it is cut off"))
		return ""
	}
	field, f.rest, f.more = strings.Cut(f.rest, " ")
	return field
}

func (f *fields) uint(most uint64) uint64 {
	text := f.next()
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > most {
		err = fmt.Errorf("%d is above %d", n, most)
	}
	f.fail(err)
	if f.err != nil {
		return 0
	}
	return n
}

func (f *fields) instant() time.Time {
	t, err := decodeInstant(f.next())
	f.fail(err)
	if f.err != nil {
		return time.Time{}
	}
	return t
}

// fail remembers the first error.
func (f *fields) fail(err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
}

// done reports whether the record was what was read of it, and no more.
func (f *fields) done() error {
	if f.more {
		f.fail(fmt.Errorf("it has %d fields too many", 1+strings.Count(f.rest, " ")))
	}
	return f.err
}
