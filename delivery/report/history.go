package report

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// Attempt is what is remembered of an attempt that came to an end.
type Attempt struct {
	At     time.Time // its end
	Took   time.Duration
	Seq    delivery.Seq // of its notification
	Number uint32       // as Attempt.Number
	Class  delivery.Class
	Status uint16 // 0: there was no answer
	// Error is the reason for a missing answer, in our words: never the text of the callback's server.
	Error  string
	Replay bool // it was a part of a replay
}

// History remembers the latest attempts and counts all of them. It is in memory only, and
// of this process.
type History struct {
	mu                sync.Mutex // guards what follows
	delivered, failed records
	attempts          [delivery.Classes]uint64
	latency           Latency
}

// NewHistory returns a History without attempts.
func NewHistory() *History {
	return &History{delivered: newRecords(deliveredRings), failed: newRecords(failedRings)}
}

// Add remembers an attempt that came to an end, and counts it.
func (h *History) Add(id subscription.ID, a *Attempt) {
	class := min(a.Class, delivery.Class(delivery.Classes-1))
	rec := record{
		id: id, at: a.At.UnixNano(), seq: a.Seq, took: uint32(min(a.Took/time.Microsecond, math.MaxUint32)),
		number: a.Number, status: a.Status, class: class, replay: a.Replay,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempts[class]++
	h.latency.Note(a.Took)
	if class == delivery.ClassDelivered {
		h.delivered.note(&rec, "")
	} else {
		h.failed.note(&rec, a.Error)
	}
}

// Of returns what is remembered of the latest attempts for a subscription, the newest first.
//
// Remembered are 32,768 attempts that delivered, and 16,384 that failed apart from them, so that
// a busy hub does not push its failures out: 1.6 MiB, and 0.8 MiB with up to 2 MiB of texts. Both are
// many small rings of eight, one for all subscriptions whose IDs fall on it: so where there are
// a few thousand subscriptions each is shown its last ones, where there are 50,000 most are
// shown at least the last one, however busy the hub is, and of a million some are shown
// nothing but their failures.
func (h *History) Of(id subscription.ID) []Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(h.delivered.of(id), h.failed.of(id)...)
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	return all
}

// count fills in what has been counted.
func (h *History) count(t *Totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Attempts, t.Latency = h.attempts, h.latency
}

const (
	deliveredRings = 4096
	failedRings    = 2048
	ringSize       = 8
)

// records are rings of attempts, each for those subscriptions whose IDs fall on it.
// Strangers can choose IDs, so where they fall depends on a seed.
type records struct {
	seed  uint64
	next  []uint8 // by ring
	all   []record
	texts []string // of those with an error; nil: none had one
}

// record is an AttemptRecord without its error.
type record struct {
	id     subscription.ID
	at     int64 // Unix nanoseconds
	seq    delivery.Seq
	took   uint32 // microseconds
	number uint32
	status uint16
	class  delivery.Class // ClassNone: nothing is remembered here
	replay bool
}

func newRecords(rings int) records {
	return records{seed: rand.Uint64(), next: make([]uint8, rings), all: make([]record, rings*ringSize)}
}

// ring returns the ring of an ID.
func (r *records) ring(id *subscription.ID) int {
	hi, lo := bits.Mul64(
		binary.LittleEndian.Uint64(id[:8])^r.seed, binary.LittleEndian.Uint64(id[8:])^bits.Reverse64(r.seed),
	)
	hi, _ = bits.Mul64(hi^lo, uint64(len(r.next)))
	return int(hi)
}

// note remembers an attempt in the place of the oldest in its ring.
func (r *records) note(rec *record, text string) {
	ring := r.ring(&rec.id)
	at := ring*ringSize + int(r.next[ring])
	r.next[ring] = (r.next[ring] + 1) % ringSize
	r.all[at] = *rec
	if text != "" && r.texts == nil {
		r.texts = make([]string, len(r.all))
	}
	if r.texts != nil {
		r.texts[at] = text
	}
}

// of returns what is remembered of a subscription, the newest first.
func (r *records) of(id subscription.ID) (all []Attempt) {
	ring := r.ring(&id)
	for i := range ringSize {
		at := ring*ringSize + (int(r.next[ring])+2*ringSize-1-i)%ringSize
		rec := &r.all[at]
		if rec.class == delivery.ClassNone || rec.id != id {
			continue
		}
		a := Attempt{
			At: time.Unix(0, rec.at), Took: time.Duration(rec.took) * time.Microsecond, Seq: rec.seq,
			Number: rec.number, Class: rec.class, Status: rec.status, Replay: rec.replay,
		}
		if r.texts != nil {
			a.Error = r.texts[at]
		}
		all = append(all, a)
	}
	return all
}
