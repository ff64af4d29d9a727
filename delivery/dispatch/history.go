package dispatch

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

// Attempts returns what is remembered of the latest attempts for a subscription, the
// newest first. They are in memory only, and of this process.
//
// Remembered are 32,768 attempts that delivered, and 16,384 that failed apart from them, so that
// a busy hub does not push its failures out: 1.6 MiB, and 0.8 MiB with up to 2 MiB of texts. Both are
// many small rings of eight, one for all subscriptions whose IDs fall on it: so where there are
// a few thousand subscriptions each is shown its last ones, where there are 50,000 most are
// shown at least the last one, however busy the hub is, and of a million some are shown
// nothing but their failures.
func (d *Dispatcher) Attempts(id subscription.ID) []report.Attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := append(d.history.delivered.of(id), d.history.failed.of(id)...)
	slices.SortStableFunc(all, func(a, b report.Attempt) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	return all
}

const (
	deliveredRings = 4096
	failedRings    = 2048
	ringSize       = 8
)

// history is what is remembered of attempts. Guarded by Dispatcher.mu.
type history struct{ delivered, failed records }

func newHistory() history {
	return history{newRecords(deliveredRings), newRecords(failedRings)}
}

// records are rings of attempts, each for those subscriptions whose IDs fall on it.
// Strangers can choose IDs, so where they fall depends on a seed.
type records struct {
	seed  uint64
	next  []uint8 // by ring
	all   []record
	texts []string // of those with an error; nil: nobody has had one
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
	hi, lo := bits.Mul64(binary.LittleEndian.Uint64(id[:8])^r.seed, binary.LittleEndian.Uint64(id[8:])^bits.Reverse64(r.seed))
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
func (r *records) of(id subscription.ID) (all []report.Attempt) {
	ring := r.ring(&id)
	for i := range ringSize {
		at := ring*ringSize + (int(r.next[ring])+2*ringSize-1-i)%ringSize
		rec := &r.all[at]
		if rec.class == delivery.ClassNone || rec.id != id {
			continue
		}
		a := report.Attempt{
			At: timeOf(rec.at), Took: time.Duration(rec.took) * time.Microsecond, Seq: rec.seq,
			Number: rec.number, Class: rec.class, Status: rec.status, Replay: rec.replay,
		}
		if r.texts != nil {
			a.Error = r.texts[at]
		}
		all = append(all, a)
	}
	return all
}

// remember counts an attempt that came to an end, and notes it. mu is held.
func (d *Dispatcher) remember(f *flight, now int64) {
	r := &f.result
	took := max(0, time.Duration(now-f.begun))
	class := min(r.outcome.Class, delivery.Class(delivery.Classes-1))
	d.totals.attempts[class]++
	d.totals.latency.Note(took)
	rec := record{
		id: f.was.id, at: now, seq: f.note.n.Seq, took: uint32(min(took/time.Microsecond, math.MaxUint32)),
		number: f.attempt.Number, status: uint16(r.outcome.Status), class: class, replay: f.was.replay() != nil,
	}
	if class == delivery.ClassDelivered {
		d.history.delivered.note(&rec, "")
	} else {
		d.history.failed.note(&rec, r.text)
	}
}
