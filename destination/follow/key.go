package follow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"carillon/payload"
)

// undated begins the keys of changes without a datetime.
const undated = "undated-"

// keyBytes is how much of a digest a key has.
const keyBytes = 16

// Key is the key of a change: what it is however it comes. Changes without a datetime are
// known by all that they say; nth tells those apart that say the same in one document,
// from 0 on.
func Key(e *payload.Entry, nth int) string {
	if e.Datetime.IsZero() {
		return undated + digest(uint64(nth), e.Loc, string(e.Change), e.LastMod, e.Hash, e.Length, e.Type, e.Encoding)
	}
	return payload.FormatDatetime(e.Datetime) + "-" + digest(uint64(e.Datetime.Nanosecond()), e.Loc, string(e.Change))
}

// digest is of the number and the parts, which cannot run into each other.
func digest(n uint64, parts ...string) string {
	h := sha256.New()
	b := binary.BigEndian.AppendUint64(nil, n)
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)[:keyBytes])
}

// keyTime is the datetime in a key, whole microseconds; zero for an undated one.
func keyTime(key string) time.Time {
	if strings.HasPrefix(key, undated) || len(key) < len("2006-01-02T15:04:05.000000Z") {
		return time.Time{}
	}
	t, _ := payload.ParseDatetime(key[:len("2006-01-02T15:04:05.000000Z")])
	return t
}

// counter tells changes apart that say the same. It is for one document.
type counter map[string]int

// key gives the key of the next change of the document.
func (c counter) key(e *payload.Entry) string {
	key := Key(e, 0)
	if !e.Datetime.IsZero() {
		return key
	}
	if len(c) >= payload.MaxEntries {
		clear(c) // a list that never ends
	}
	n := c[key]
	c[key]++
	if n == 0 {
		return key
	}
	return Key(e, n)
}
