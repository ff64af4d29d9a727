package follow

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// undated begins the keys of changes without a datetime.
const undated = "undated-"

// keyBytes is how much of a digest a key has.
const keyBytes = 16

// Key is the key of a change, by whatever way it comes. A resource may change more than once at one
// datetime (core §12.1), as often happens at Sources that count seconds. So the key is also made of
// the description of the content; nth separates changes with the same description in one reading, from
// 0 on.
func Key(e *payload.Entry, nth int) string {
	if e.Datetime.IsZero() {
		return undated + digest(uint64(nth), e.Loc, string(e.Change), e.LastMod, e.Hash, e.Length, e.Type, e.Encoding)
	}
	at := fmt.Sprint(e.Datetime.Unix(), " ", e.Datetime.Nanosecond())
	return payload.FormatDatetime(lists.Latest(e)) + "-" +
		digest(uint64(nth), at, e.Loc, string(e.Change), e.LastMod, e.Hash, e.Length)
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

// keyTime is the datetime in a key, whole microseconds. A datetime without a time of day stands for
// its end; zero for an undated change.
func keyTime(key string) time.Time {
	if strings.HasPrefix(key, undated) || len(key) < len("2006-01-02T15:04:05.000000Z") {
		return time.Time{}
	}
	t, _ := payload.ParseDatetime(key[:len("2006-01-02T15:04:05.000000Z")])
	return t
}

// counter separates changes with the same description. It is for one reading, in the order of the
// datetimes.
type counter struct {
	list           string    // that is read: its undated changes are others than those of the one before
	at             time.Time // of those that are counted
	dated, undated map[string]int
}

// reading gives the counter the names of the lists that are read.
func (c *counter) reading(ctx context.Context) context.Context {
	return lists.WithNames(ctx, func(list string) {
		c.list = list
		clear(c.undated)
	})
}

// key gives the key of the next change of the reading.
func (c *counter) key(e *payload.Entry) string {
	if c.dated == nil {
		c.dated, c.undated = map[string]int{}, map[string]int{}
	}
	of := c.undated
	switch {
	case !e.Datetime.IsZero():
		if of = c.dated; !e.Datetime.Equal(c.at) {
			clear(of)
			c.at = e.Datetime
		}
	case len(of) >= payload.MaxEntries:
		clear(of) // a list that never ends
	}
	key := Key(e, 0)
	n := of[key]
	if of[key]++; n > 0 {
		key = Key(e, n)
	}
	if e.Datetime.IsZero() && c.list != "" {
		return within(c.list, key)
	}
	return key
}

// within is the key of an undated change as it is known in one list, or one notification: the next
// one may say the same of another change.
func within(document, key string) string { return undated + digest(0, document, key) }

// pushedKey is what the nth undated change is noted as that was pushed, and that a list may have too.
func pushedKey(e *payload.Entry, nth int) string { return within("pushed", Key(e, nth)) }
