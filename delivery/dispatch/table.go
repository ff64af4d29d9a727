package dispatch

import (
	"strings"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/subscription"
)

// The table holds every subscription of the shards that this process owns. What
// is in this file is guarded by Dispatcher.mu, but for what never changes.

// state is where an entry is in the drawing of the package comment.
type state uint8

const (
	idle    state = iota // nothing to send, its lease is over, or its shard is still being read
	ready                // in its host's queue, or among those that wait for room
	flying               // an attempt is under way
	waiting              // in the heap, until its retry is due
	ended                // no longer in the table
	states
)

// topic is a topic that somebody here subscribes to.
type topic struct {
	key     string
	at      int // index in Dispatcher.topicList
	entries []*entry
	idle    int          // how many of them are idle: only those need to be woken
	failing int          // of how many the last attempt failed
	removed int          // counts the entries that left
	head    delivery.Seq // the highest number that is known to have been durable
	known   bool
	asking  bool         // in Dispatcher.unknown
	asked   delivery.Seq // head when it was last asked for
	fell    delivery.Seq // the head at the latest loss that was told of
	// before is the head of before the latest rise that can have hidden a loss,
	// until somebody has read what comes after it; 0: none.
	before delivery.Seq
	// A walk wakes the entries: those before index walk are still to come.
	walking, again bool
	walk           int
	next           *topic // in Dispatcher.walks

	notes   []*note      // those in memory, by their numbers
	resting int64        // until then nothing is read: what keeps the log was away
	rests   int          // pauses of that kind in a row
	floor   delivery.Seq // an operator has trimmed what is below: none of notes is
	refused []refusal    // what is known of those that are waited for, by their numbers
	parked  int          // how many of entries wait for room, ended ones included
}

// host is what callbacks with one scheme, name and port share.
type host struct {
	send.Host
	queue   [lanes]queue
	ringed  [lanes]*host // the next in each ring
	shrunk  int64        // when limit was last cut, Unix nanoseconds
	entries int32
	young   [lanes]int32 // attempts under way that are not slow
	slow    int32        // attempts under way that have given their slot back
	limit   int32        // how many may be young
	inRing  [lanes]bool
	last    lane // of the latest attempt
	trouble hostTrouble
}

// shardTable is a shard that this process owns.
type shardTable struct {
	tenure  delivery.Tenure
	entries entrySet
	// While the members are read, what happens meanwhile waits here: the
	// subscription, or nil if it ended.
	loading bool
	pending map[subscription.ID]*subscription.Subscription
	// Attempts under way. Once the shard is to be handed over none is added, and
	// landed is closed when there are none.
	flying  int
	leaving bool
	landed  chan struct{}
	unsure  bool // entries were passed over as it may be another process's
	// What keeps it was away when it was to be saved: no attempt starts, and it is saved beside
	// the others.
	away bool
	// What is to be saved, and of how many outcomes it came.
	dirty   []*entry
	gaps    []delivery.Gap
	saving  []delivery.Gap // those that were taken to be saved just now
	unsaved int
}

// Activated tells of a subscription that became active or was renewed. A
// renewal keeps its position. It is ignored where another process owns the shard.
func (d *Dispatcher) Activated(sub subscription.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch sh := d.shards[subscription.ShardOf(sub.ID)]; {
	case sh == nil:
	case sh.loading:
		sh.pending[sub.ID] = &sub
	default:
		d.upsert(sh, sub)
		d.kick()
	}
}

// Ended tells that a subscription is no more. An attempt that is under way is
// not broken off.
func (d *Dispatcher) Ended(id subscription.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch sh := d.shards[subscription.ShardOf(id)]; {
	case sh == nil:
	case sh.loading:
		sh.pending[id] = nil
	default:
		d.remove(sh, id)
	}
}

// upsert takes in a subscription, or what a renewal changed of it. mu is held.
func (d *Dispatcher) upsert(sh *shardTable, sub subscription.Subscription) {
	e := sh.entries.get(sub.ID)
	if e == nil {
		e = d.insert(sh, sub)
	} else {
		d.fill(e, sub)
	}
	if e.state == idle {
		d.place(e, d.now())
	}
}

// insert adds an idle entry that stands at its start. mu is held.
func (d *Dispatcher) insert(sh *shardTable, sub subscription.Subscription) *entry {
	e := &entry{id: sub.ID, settled: delivery.Seq(sub.Start)}
	e.topic = d.topicOf(subscription.Key(sub.Topic))
	e.host = d.hostOf(send.Origin(sub.Callback))
	e.at = int32(len(e.topic.entries))
	e.topic.entries = appended(e.topic.entries, e)
	e.host.entries++
	d.fill(e, sub)
	sh.entries.put(e)
	d.counts[idle]++
	e.topic.idle++
	return e
}

// appended is append that leaves an eighth free at most where there are many.
func appended[T any](s []T, v T) []T {
	const many = 256
	if len(s) == cap(s) && len(s) >= many {
		larger := make([]T, len(s), len(s)+len(s)/8)
		copy(larger, s)
		s = larger
	}
	return append(s, v)
}

// remove takes a subscription out of the table. mu is held.
func (d *Dispatcher) remove(sh *shardTable, id subscription.ID) {
	if e := sh.entries.get(id); e != nil {
		sh.entries.remove(id)
		d.forget(e)
	}
}

// forget ends an entry that its shard has no more. mu is held.
func (d *Dispatcher) forget(e *entry) {
	if e.state == flying {
		d.abroad[e.id]++
	}
	d.setState(e, ended) // queues, heap and flights pass over it
	t := e.topic
	if e.failures() > 0 {
		d.countFailing(e, false)
	}
	last := t.entries[len(t.entries)-1]
	t.entries[e.at], last.at = last, e.at
	t.entries[len(t.entries)-1] = nil
	t.entries = t.entries[:len(t.entries)-1]
	t.removed++
	if few := len(t.entries); cap(t.entries) > 64 && few < cap(t.entries)/4 {
		t.entries = append(make([]*entry, 0, few*2), t.entries...)
	}
	if len(t.entries) == 0 && d.topics[t.key] == t {
		d.forgetTopic(t)
	}
	d.secrets.drop(e.secret)
	e.secret = 0
	e.host.entries--
	d.forgetHost(e.host)
}

// forgetHost forgets a host that nobody here has a callback on any more, once
// no attempt to it is under way: until then it keeps its limits. mu is held.
func (d *Dispatcher) forgetHost(h *host) {
	if h.entries == 0 && h.young[fresh]+h.young[again]+h.slow == 0 && d.hosts[h.Name()] == h {
		delete(d.hosts, h.Name())
	}
}

// topicOf returns the topic with the key; a new one asks for its head. mu is held.
func (d *Dispatcher) topicOf(key string) *topic {
	t := d.topics[key]
	if t == nil {
		if t = d.returnTopic(key); t == nil {
			t = &topic{key: strings.Clone(key)}
		}
		t.at = len(d.topicList)
		d.topicList = appended(d.topicList, t)
		d.topics[t.key] = t
		d.askHead(t)
	}
	return t
}

// forgetTopic forgets a topic that nobody here subscribes to any more. mu is held.
func (d *Dispatcher) forgetTopic(t *topic) {
	delete(d.topics, t.key)
	last := d.topicList[len(d.topicList)-1]
	d.topicList[t.at], last.at = last, t.at
	d.topicList[len(d.topicList)-1] = nil
	d.topicList = d.topicList[:len(d.topicList)-1]
}

// hostOf returns the host with the name. mu is held.
func (d *Dispatcher) hostOf(name string) *host {
	h := d.hosts[name]
	if h == nil {
		h = &host{Host: send.NewHost(strings.Clone(name)), limit: int32(max(1, d.cfg.MaxPerHost/4))}
		d.hosts[h.Name()] = h
	}
	return h
}

// setState moves an entry from one state to another. mu is held.
func (d *Dispatcher) setState(e *entry, to state) {
	d.counts[e.state]--
	d.counts[to]++
	if e.state == idle {
		e.topic.idle--
	}
	if to == idle {
		e.topic.idle++
	}
	e.state = to
}
