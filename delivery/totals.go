package delivery

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon/subscription"
)

// Classes is how many classes of outcomes there are, ClassNone included.
const Classes = int(classes)

// Totals are counts since the Dispatcher was made, and some of the moment: two of them
// tell what happened between.
type Totals struct {
	Attempts  [Classes]uint64 // by Class
	Latency   Latency         // of the same attempts
	Published uint64          // accepted, repeated ones not included
	Behind    int             // subscriptions that have something to get
	Failing   int             // of which the last attempt failed
	// HeldBytes are those of the bodies that attempts under way hold, of those that
	// count for Config.MaxBytes, which is MaxHeldBytes.
	HeldBytes, MaxHeldBytes int64
}

// totals is what is counted for Totals. Guarded by Dispatcher.mu.
type totals struct {
	attempts [Classes]uint64
	latency  Latency
}

// Totals returns the counts as of now.
func (d *Dispatcher) Totals() Totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Totals{
		Attempts: d.totals.attempts, Latency: d.totals.latency, Published: d.breaks.published.Load(),
		Behind: d.counts[ready] + d.counts[waiting] + d.counts[flying], Failing: d.failing,
		HeldBytes: d.bytes, MaxHeldBytes: d.cfg.MaxBytes,
	}
}

const (
	// latencyUnit is what the first buckets are apart, as a power of two of
	// nanoseconds: 16 microseconds.
	latencyUnit = 14
	// latencyBuckets reach beyond two minutes. The last one takes all that is longer.
	latencyBuckets = 88
)

// Latency counts attempts by how long they took, in buckets of which each is a quarter
// wider than the one before or less.
type Latency [latencyBuckets]uint64

// note counts an attempt.
func (l *Latency) note(took time.Duration) { l[latencyBucket(took)]++ }

// latencyBucket is the bucket of a time: four to each power of two.
func latencyBucket(took time.Duration) int {
	units := uint64(max(took, 0)) >> latencyUnit
	if units < 4 {
		return int(units)
	}
	octave := bits.Len64(units) - 3
	return min(4*octave+int(units>>octave), latencyBuckets-1)
}

// latencyBound is where a bucket ends.
func latencyBound(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(bucket+1) << latencyUnit
	}
	octave := bucket/4 - 1
	return time.Duration(bucket-4*octave+1) << (octave + latencyUnit)
}

// Plus adds the counts of another process.
func (l Latency) Plus(other Latency) Latency {
	for i := range l {
		l[i] += other[i]
	}
	return l
}

// Minus returns what came since an earlier one of the same Dispatcher.
func (l Latency) Minus(earlier Latency) Latency {
	for i := range l {
		l[i] -= min(l[i], earlier[i])
	}
	return l
}

// Quantile returns the time that a part q, from 0 to 1, of the attempts took at most: by
// how they are spread over the bucket, a quarter too much or too little at worst. 0 where
// there were none.
func (l Latency) Quantile(q float64) time.Duration {
	var all uint64
	for _, n := range l {
		all += n
	}
	rank, below := q*float64(all), 0.0
	for i, n := range l {
		if n == 0 {
			continue
		}
		if here := float64(n); below+here < rank && below+here < float64(all) {
			below += here
			continue
		}
		first := time.Duration(0)
		if i > 0 {
			first = latencyBound(i - 1)
		}
		return first + time.Duration((rank-below)/float64(n)*float64(latencyBound(i)-first))
	}
	return 0
}

// TopicCount is how things stand with the subscriptions to a topic.
type TopicCount struct {
	Topic         string // its key (subscription.Key)
	Subscriptions int    // in the shards that this process owns
	Behind        int    // have something to get
	Failing       int    // whose last attempt failed
	// Breaks are the continuity breaks in what this process accepted since it began.
	Breaks int
}

// TopicCounts returns the counts of every topic that somebody here subscribes to, or in
// which a continuity break was seen, in the order of their keys.
func (d *Dispatcher) TopicCounts(ctx context.Context) ([]TopicCount, error) {
	var all []TopicCount
	breaks := d.breaks.all()
	topics := d.topicsOf("")
	for some := range slices.Chunk(topics, surveyStretch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.mu.Lock()
		for _, t := range some {
			if len(t.entries) > 0 {
				all = append(all, t.count(breaks[t.key]))
				delete(breaks, t.key)
			}
		}
		d.mu.Unlock()
	}
	for key, n := range breaks {
		all = append(all, TopicCount{Topic: key, Breaks: n})
	}
	slices.SortFunc(all, func(a, b TopicCount) int { return cmp.Compare(a.Topic, b.Topic) })
	return all, nil
}

// TopicCount returns the counts of one topic, given in any spelling.
func (d *Dispatcher) TopicCount(topic string) TopicCount {
	key := subscription.Key(topic)
	breaks := d.breaks.of(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[key]; t != nil {
		return t.count(breaks)
	}
	return TopicCount{Topic: key, Breaks: breaks}
}

// count returns a topic's counts. mu is held.
func (t *topic) count(breaks int) TopicCount {
	return TopicCount{
		Topic: t.key, Subscriptions: len(t.entries), Behind: len(t.entries) - t.idle, Failing: t.failing, Breaks: breaks,
	}
}

// maxBreakTopics bounds the topics whose continuity breaks are counted by topic, some 200
// bytes each.
const maxBreakTopics = 4096

// breaks counts continuity breaks by topic, and what was published.
type breaks struct {
	published atomic.Uint64
	mu        sync.Mutex
	topics    map[string]int // by key
}

// note counts a break of a topic. Where there are too many it takes another's place.
func (b *breaks) note(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, found := b.topics[key]; !found && len(b.topics) >= maxBreakTopics {
		for other := range b.topics {
			delete(b.topics, other)
			break
		}
	}
	if b.topics == nil {
		b.topics = map[string]int{}
	}
	b.topics[key]++
}

func (b *breaks) of(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topics[key]
}

// all returns a copy of the counts by topic.
func (b *breaks) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]int, len(b.topics))
	for key, n := range b.topics {
		all[key] = n
	}
	return all
}
