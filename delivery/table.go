package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon/subscription"
)

// The table holds every subscription of the shards that this process owns. What
// is in this file is guarded by Dispatcher.mu, but for what never changes.
//
// There may be millions of entries, most of them idle: an entry is one small
// struct, with what entries have in common held once (topic, host).

// state is where an entry is in the drawing of the package comment.
type state uint8

const (
	idle    state = iota // nothing to send, its lease is over, or its shard is still being read
	ready                // in its host's queue
	flying               // an attempt is under way
	waiting              // in the heap, until its retry is due
	ended                // no longer in the table
	states
)

// entry is a subscription and its position.
type entry struct {
	id       subscription.ID
	topicURL string // as subscribed to; topic.key is what it is compared by
	callback string
	secret   subscription.Secret
	topic    *topic
	host     *host
	next     *entry // in the host's queue
	start    Seq
	lease    time.Duration
	// Times are Unix nanoseconds, 0 for none.
	created, expires, due int64

	settled  Seq
	failures uint32
	at       int32 // index in topic.entries
	status   uint16
	class    Class
	state    state
	dirty    bool // in its shard's list of changes to save
	gone     bool // its callback said 410, its end is still to be stored
}

// topic is a topic that somebody here subscribes to.
type topic struct {
	key     string
	entries []*entry
	head    Seq // the highest number that is known to have been durable
	known   bool
	asking  bool // in Dispatcher.unknown
	asked   Seq  // head when it was last asked for
	fell    Seq  // the head at the latest loss that was told of
	// before is the head of before the latest rise that can have hidden a loss,
	// until somebody has read what comes after it; 0: none.
	before Seq
	// A walk wakes the entries: those before index walk are still to come.
	walking, again bool
	walk           int
	next           *topic // in Dispatcher.walks
}

// host is what callbacks with one scheme, name and port share.
type host struct {
	name    string
	entries int
	queue   [lanes]queue
	inRing  [lanes]bool
	ringed  [lanes]*host // the next in each ring
	young   [lanes]int   // attempts under way that are not slow
	slow    int          // attempts under way that are
	limit   int          // how many may be young
	shrunk  int64        // when limit was last cut, Unix nanoseconds
	last    lane         // of the latest attempt
}

// shardTable is a shard that this process owns.
type shardTable struct {
	tenure  Tenure
	entries map[subscription.ID]*entry
	// While the members are read, what happens meanwhile waits here: the
	// subscription, or nil if it ended.
	loading bool
	pending map[subscription.ID]*subscription.Subscription
	// Attempts under way. Once the shard is to be handed over none is added, and
	// landed is closed when there are none.
	flying  int
	leaving bool
	landed  chan struct{}
	// What is to be saved.
	dirty []*entry
	gaps  []Gap
}

// Gained takes over a shard: its members are read in one scan, and then their
// deliveries begin. It takes the place of what was gained before under another
// epoch. It is an error if the members could not be read, or ctx ended; the shard
// is not taken then.
func (d *Dispatcher) Gained(ctx context.Context, t Tenure) error {
	if int(t.Shard) >= len(d.shards) {
		return fmt.Errorf("shard %d: there are %d", t.Shard, len(d.shards))
	}
	sh := &shardTable{
		tenure:  t,
		entries: map[subscription.ID]*entry{},
		loading: true,
		pending: map[subscription.ID]*subscription.Subscription{},
	}
	d.mu.Lock()
	d.drop(t.Shard)
	d.shards[t.Shard] = sh
	d.mu.Unlock()

	err := d.load(ctx, sh)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && d.shards[t.Shard] != sh:
		err = fmt.Errorf("lost meanwhile: %w", ErrFenced)
	case err == nil:
		d.begin(sh)
		return nil
	case d.shards[t.Shard] == sh:
		d.drop(t.Shard)
	}
	return fmt.Errorf("reading the members of shard %d: %w", t.Shard, err)
}

// load reads the members of a shard into its table.
func (d *Dispatcher) load(ctx context.Context, sh *shardTable) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := d.adoptAll(limited, sh)
	if err == nil {
		err = limited.Err() // an engine may just stop then
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: no end of it within %s: %w", ErrUnavailable, loadTimeout, err)
	}
	return err
}

// adoptAll takes in every member, for as long as ctx stands.
func (d *Dispatcher) adoptAll(ctx context.Context, sh *shardTable) error {
	for m, err := range d.cursors.Members(ctx, sh.tenure.Shard) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = d.adopt(sh, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt takes a member into the table of a shard that is being read.
func (d *Dispatcher) adopt(sh *shardTable, m Member) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shards[sh.tenure.Shard] != sh {
		return fmt.Errorf("lost meanwhile: %w", ErrFenced)
	}
	e := d.insert(sh, m.Subscription)
	e.settled, e.failures = m.Settled, m.Failures
	e.due, e.class, e.status = nanos(m.NextAttempt), m.LastFailure, m.LastStatus
	if e.settled > e.topic.head {
		// It was there, whatever the log has now: others were to get it, too.
		if e.topic.known {
			d.rise(e.topic, e.settled)
			d.wake(e.topic)
		} else {
			e.topic.head = e.settled
		}
	}
	return nil
}

// begin starts the deliveries of a shard whose members were read. mu is held.
func (d *Dispatcher) begin(sh *shardTable) {
	pending := sh.pending
	sh.loading, sh.pending = false, nil
	for id, sub := range pending {
		if sub == nil {
			d.forget(sh, sh.entries[id])
		} else {
			d.upsert(sh, *sub)
		}
	}
	for _, e := range sh.entries {
		d.wake(e.topic)
	}
	d.kick()
}

// drop forgets a shard with all its entries. mu is held.
func (d *Dispatcher) drop(s subscription.Shard) {
	sh := d.shards[s]
	if sh == nil {
		return
	}
	d.shards[s] = nil
	for _, e := range sh.entries {
		d.forget(sh, e)
		if len(e.topic.entries) == 0 {
			d.leaveTopic(e.topic)
		}
	}
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
		d.forget(sh, sh.entries[id])
	}
}

// upsert takes in a subscription, or what a renewal changed of it. mu is held.
func (d *Dispatcher) upsert(sh *shardTable, sub subscription.Subscription) {
	e := sh.entries[sub.ID]
	if e == nil {
		e = d.insert(sh, sub)
	} else {
		e.fill(sub)
		e.gone = false
	}
	if e.state == idle {
		d.place(e, time.Now().UnixNano())
	}
}

// insert adds an idle entry that stands at its start. mu is held.
func (d *Dispatcher) insert(sh *shardTable, sub subscription.Subscription) *entry {
	e := &entry{id: sub.ID, settled: Seq(sub.Start)}
	e.topic = d.topicOf(subscription.Key(sub.Topic))
	e.host = d.hostOf(hostOf(sub.Callback))
	e.at = int32(len(e.topic.entries))
	e.topic.entries = append(e.topic.entries, e)
	e.host.entries++
	e.fill(sub)
	sh.entries[e.id] = e
	d.counts[idle]++
	return e
}

// fill takes over what a subscription says. Its place in the log stays, unless
// it starts behind it.
func (e *entry) fill(sub subscription.Subscription) {
	e.topicURL, e.callback, e.secret = sub.Topic, sub.Callback, sub.Secret
	if e.topicURL == e.topic.key {
		e.topicURL = e.topic.key // the same string, held once
	}
	e.start, e.lease = Seq(sub.Start), sub.Lease
	e.settled = max(e.settled, e.start) // a new life of the same subscription starts anew
	e.created, e.expires = nanos(sub.Created), nanos(sub.Expires)
}

// forget removes an entry; nil is nothing to forget. mu is held.
func (d *Dispatcher) forget(sh *shardTable, e *entry) {
	if e == nil || e.state == ended {
		return
	}
	d.setState(e, ended) // queues, heap and flights pass over it
	delete(sh.entries, e.id)
	t := e.topic
	last := t.entries[len(t.entries)-1]
	t.entries[e.at], last.at = last, e.at
	t.entries[len(t.entries)-1] = nil
	t.entries = t.entries[:len(t.entries)-1]
	if len(t.entries) == 0 && d.topics[t.key] == t {
		delete(d.topics, t.key)
	}
	e.host.entries--
	d.forgetHost(e.host)
}

// forgetHost forgets a host that nobody here has a callback on any more, once
// no attempt to it is under way: until then it keeps its limits. mu is held.
func (d *Dispatcher) forgetHost(h *host) {
	if h.entries == 0 && h.young[fresh]+h.young[again]+h.slow == 0 && d.hosts[h.name] == h {
		delete(d.hosts, h.name)
	}
}

// topicOf returns the topic with the key; a new one asks for its head. mu is held.
func (d *Dispatcher) topicOf(key string) *topic {
	t := d.topics[key]
	if t == nil {
		if t = d.returnTopic(key); t == nil {
			t = &topic{key: key}
		}
		d.topics[key] = t
		d.askHead(t)
	}
	return t
}

// hostOf returns the host with the name. mu is held.
func (d *Dispatcher) hostOf(name string) *host {
	h := d.hosts[name]
	if h == nil {
		h = &host{name: name, limit: max(1, d.cfg.MaxPerHost/4)}
		d.hosts[name] = h
	}
	return h
}

// setState moves an entry from one state to another. mu is held.
func (d *Dispatcher) setState(e *entry, to state) {
	d.counts[e.state]--
	d.counts[to]++
	e.state = to
}

// subscription returns the entry as the rest of the hub knows it.
func (e *entry) subscription() subscription.Subscription {
	return subscription.Subscription{
		ID: e.id, Topic: e.topicURL, Callback: e.callback, Secret: e.secret,
		Start: uint64(e.start), Lease: e.lease, Expires: timeOf(e.expires), Created: timeOf(e.created),
	}
}

// position returns where the entry stands.
func (e *entry) position() Position {
	p := Position{Settled: e.settled, Failures: e.failures}
	if e.failures > 0 {
		p.NextAttempt, p.LastFailure, p.LastStatus = timeOf(e.due), e.class, e.status
	}
	return p
}

// Topics returns the keys of the topics that somebody here subscribes to, sorted.
func (d *Dispatcher) Topics() []string {
	d.mu.Lock()
	keys := slices.AppendSeq(make([]string, 0, len(d.topics)), maps.Keys(d.topics))
	d.mu.Unlock()
	slices.Sort(keys)
	return keys
}

// Spelling returns a topic as one of its subscriptions spells it, given its key
// or any other spelling; ok is false where nobody here subscribes to it.
func (d *Dispatcher) Spelling(topic string) (spelling string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[subscription.Key(topic)]
	if t == nil {
		return "", false
	}
	return t.entries[0].topicURL, true
}

// Subscribers returns the subscriptions to a topic that are in the shards of
// this process.
func (d *Dispatcher) Subscribers(topic string) []subscription.Subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[subscription.Key(topic)]
	if t == nil {
		return nil
	}
	subs := make([]subscription.Subscription, len(t.entries))
	for i, e := range t.entries {
		subs[i] = e.subscription()
	}
	return subs
}

// Position returns where a subscription stands; ok is false for one that is not
// in the shards of this process.
func (d *Dispatcher) Position(id subscription.ID) (p Position, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sh := d.shards[subscription.ShardOf(id)]
	if sh == nil || sh.entries[id] == nil {
		return Position{}, false
	}
	return sh.entries[id].position(), true
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// slowest returns the marks of the shards that are owned and read. A subscription
// whose lease is over counts until it is ended: its renewal may be under way.
// One that begins meanwhile needs nothing older than Config.KeepAtLeast.
func (d *Dispatcher) slowest() []mark {
	var marks []mark
	for s := range d.shards {
		d.mu.Lock() // for one shard at a time: others are waiting
		if sh := d.shards[s]; sh != nil && !sh.loading && !sh.leaving {
			m := mark{sh.tenure, map[string]Seq{}}
			for _, e := range sh.entries {
				if settled, found := m.lowest[e.topic.key]; !found || e.settled < settled {
					m.lowest[e.topic.key] = e.settled
				}
			}
			marks = append(marks, m)
		}
		d.mu.Unlock()
	}
	return marks
}
