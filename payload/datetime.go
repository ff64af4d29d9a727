package payload

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrDatetime: a string is not a W3C Datetime.
var ErrDatetime = errors.New("not a W3C Datetime")

// datetimeFormat is what the writer gives every time of its own: UTC, always
// with microseconds, so that equal lengths sort as text does (core §7).
const datetimeFormat = "2006-01-02T15:04:05.000000Z"

// FormatDatetime returns t in UTC with microseconds; finer parts are cut off. The year of t must be
// between 0 and 9999.
func FormatDatetime(t time.Time) string { return t.UTC().Format(datetimeFormat) }

// ParseDatetime reads a W3C Datetime of any of its six precisions: a year, a
// month or a day stands for its beginning in UTC. Digits of a fraction beyond
// nanoseconds are cut off. The error is ErrDatetime.
func ParseDatetime(s string) (time.Time, error) {
	w, ok := scanDatetime(s)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: %.40q", ErrDatetime, s)
	}
	return w.time, nil
}

// NormalizeDatetime returns a W3C Datetime as the same instant in UTC: with seconds and "Z", and its
// fraction digit for digit. A value without a time of day (YYYY, YYYY-MM, YYYY-MM-DD) names no instant
// and stays unchanged. The error is ErrDatetime.
func NormalizeDatetime(s string) (string, error) {
	w, ok := scanDatetime(s)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: %.40q", ErrDatetime, s)
	case !w.hasTime:
		return s, nil
	}
	fraction := ""
	if dot := strings.IndexByte(s, '.'); dot >= 0 {
		fraction = s[dot : dot+1+w.fraction]
	}
	return w.time.Format("2006-01-02T15:04:05") + fraction + "Z", nil
}

// w3c is a W3C Datetime taken apart.
type w3c struct {
	time     time.Time // in UTC
	hasTime  bool
	utc      bool // it ends in Z
	seconds  bool // it has them
	fraction int  // how many digits it has
}

// complete reports YYYY-MM-DDThh:mm:ss[.s]Z, which core §7 recommends.
func (w w3c) complete() bool { return w.utc && w.seconds }

// scanDatetime reads the grammar of the W3C note "Date and Time Formats":
// YYYY[-MM[-DD[Thh:mm[:ss[.s+]](Z|±hh:mm)]]].
func scanDatetime(s string) (w w3c, ok bool) {
	p := digits{rest: s}
	year, month, day := p.number(4, 0, 9999), 1, 1
	if p.skip('-') {
		month = p.number(2, 1, 12)
		if p.skip('-') {
			day = p.number(2, 1, 31)
			w.hasTime = p.skip('T')
		}
	}
	var hour, minute, second, nanos, offset int
	if w.hasTime {
		hour = p.number(2, 0, 23)
		p.demand(':')
		minute = p.number(2, 0, 59)
		if p.skip(':') {
			second, w.seconds = p.number(2, 0, 59), true
			nanos, w.fraction = p.fraction()
		}
		w.utc = p.rest == "Z"
		offset = p.offset()
	}
	if p.bad || p.rest != "" {
		return w3c{}, false
	}
	w.time = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if w.time.Day() != day { // 30 February
		return w3c{}, false
	}
	w.time = w.time.Add(-time.Duration(offset) * time.Minute)
	return w, 0 <= w.time.Year() && w.time.Year() <= 9999
}

// digits reads fixed-width numbers; bad is set by the first that is missing.
type digits struct {
	rest string
	bad  bool
}

func (p *digits) number(width, low, high int) int {
	if len(p.rest) < width {
		p.bad = true
		return low
	}
	n := 0
	for i := range width {
		c := p.rest[i]
		if !isDigit(c) {
			p.bad = true
			return low
		}
		n = 10*n + int(c-'0')
	}
	p.rest = p.rest[width:]
	if n < low || n > high {
		p.bad = true
		return low
	}
	return n
}

func (p *digits) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *digits) demand(c byte) {
	if !p.skip(c) {
		p.bad = true
	}
}

// fraction reads "." and one or more digits, if there is a dot.
func (p *digits) fraction() (nanos, count int) {
	if !p.skip('.') {
		return 0, 0
	}
	for unit := 100_000_000; p.rest != "" && isDigit(p.rest[0]); count++ {
		nanos += unit * int(p.rest[0]-'0')
		unit /= 10
		p.rest = p.rest[1:]
	}
	if count == 0 {
		p.bad = true
	}
	return nanos, count
}

// offset reads the time zone, in minutes east of UTC.
func (p *digits) offset() int {
	sign := 1
	switch {
	case p.skip('Z'):
		return 0
	case p.skip('-'):
		sign = -1
	default:
		p.demand('+')
	}
	hours := p.number(2, 0, 23)
	p.demand(':')
	return sign * (60*hours + p.number(2, 0, 59))
}
