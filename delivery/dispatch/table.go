package dispatch

import (
	"fmt"
	"strings"
	"sync"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// table holds what this process knows of its shards, topics and hosts. Its mutex guards the
// schedule, the flights, the bodies and the ledger as well: whether an attempt starts
// depends on all of them at once (decision 55).
type table struct {
	*base
	asks asks // has its own mutex

	mu     sync.Mutex // guards what follows
	shards [subscription.Shards]*shardTable
	topics map[string]*followed
	// topicList are those in topics, in no order.
	topicList []*followed
	left      [2]map[string]*followed // see leaveTopic
	hosts     map[string]*host
	// abroad counts the attempts under way whose entry has ended. A new entry with the same ID, after the
	// shard was gained again or after a new subscription, waits until they end.
	abroad  map[subscription.ID]int
	secrets secrets
	counts  [states]int // entries by their state; what ended counts up for ever
	failing int         // entries whose last attempt failed
}

func newTable(b *base) *table {
	return &table{
		base: b, asks: asks{asked: make(chan struct{}, 1)}, secrets: newSecrets(),
		topics: map[string]*followed{}, hosts: map[string]*host{}, abroad: map[subscription.ID]int{},
	}
}

// shardOf returns the shard of an entry, nil if it is not owned. mu is held.
func (tb *table) shardOf(e *entry) *shardTable {
	return tb.shards[subscription.ShardOf(e.id)]
}

// stays reports whether a shard has been held ever since it was gained with this table. One that
// was lost and gained again has another table, perhaps under the same epoch. mu is held.
func (tb *table) stays(sh *shardTable) bool { return tb.shards[sh.tenure.Shard] == sh }

// holds reports whether a shard is held as it was: then what a flush has saved of it since
// is stored, and else it may have been refused.
func (tb *table) holds(sh *shardTable) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.stays(sh)
}

// entryOf returns an entry of a shard that is read. mu is held.
func (tb *table) entryOf(id subscription.ID) (*entry, error) {
	sh := tb.shards[subscription.ShardOf(id)]
	switch {
	case sh == nil:
		return nil, delivery.ErrNotHeld
	case sh.loading:
		return nil, fmt.Errorf("%w: its shard is still being read", delivery.ErrUnavailable)
	}
	if e := sh.entries.get(id); e != nil {
		return e, nil
	}
	return nil, delivery.ErrNoSubscription
}

// insert adds an idle entry that stands at its start. mu is held.
func (tb *table) insert(sh *shardTable, sub subscription.Subscription) *entry {
	e := &entry{id: sub.ID, settled: delivery.Seq(sub.Start)}
	e.topic = tb.topicOf(topic.Key(sub.Topic))
	e.host = tb.hostOf(send.Origin(sub.Callback))
	e.at = int32(len(e.topic.entries))
	e.topic.entries = appended(e.topic.entries, e)
	e.host.entries++
	tb.secrets.fill(e, sub)
	sh.entries.put(e)
	tb.counts[idle]++
	e.topic.idle++
	return e
}

// remove takes a subscription out of the table. mu is held.
func (tb *table) remove(sh *shardTable, id subscription.ID) {
	if e := sh.entries.get(id); e != nil {
		sh.entries.remove(id)
		tb.forget(e)
	}
}

// forget ends an entry that its shard has no more. mu is held.
func (tb *table) forget(e *entry) {
	if e.state == flying {
		tb.abroad[e.id]++
	}
	tb.setState(e, ended) // queues, heap and flights pass over it
	t := e.topic
	if e.failures() > 0 {
		tb.countFailing(e, false)
	}
	last := t.entries[len(t.entries)-1]
	t.entries[e.at], last.at = last, e.at
	t.entries[len(t.entries)-1] = nil
	t.entries = t.entries[:len(t.entries)-1]
	t.removed++
	if few := len(t.entries); cap(t.entries) > 64 && few < cap(t.entries)/4 {
		t.entries = append(make([]*entry, 0, few*2), t.entries...)
	}
	if len(t.entries) == 0 && tb.topics[t.key] == t {
		tb.forgetTopic(t)
	}
	tb.secrets.drop(e.secret)
	e.secret = 0
	e.host.entries--
	tb.forgetHost(e.host)
}

// setState moves an entry from one state to another. mu is held.
func (tb *table) setState(e *entry, to state) {
	tb.counts[e.state]--
	tb.counts[to]++
	if e.state == idle {
		e.topic.idle--
	}
	if to == idle {
		e.topic.idle++
	}
	e.state = to
}

// fail records what a failed attempt left, or 0 failures of one that succeeded. mu is held.
func (tb *table) fail(e *entry, failures uint32, due int64, class delivery.Class, status uint16) {
	if failing := e.failures() > 0; failing != (failures > 0) {
		tb.countFailing(e, failures > 0)
	}
	if failures > 0 && e.rare == nil {
		e.rare = &rare{}
	}
	if e.rare != nil {
		e.rare.failures, e.rare.due, e.rare.class, e.rare.status, e.rare.gone = failures, due, class, status, false
		e.tidy()
	}
}

// countFailing counts an entry in or out whose last attempt failed. mu is held.
func (tb *table) countFailing(e *entry, fails bool) {
	by := -1
	if fails {
		by = 1
	}
	e.topic.failing += by
	tb.failing += by
}

// hostOf returns the host with the name. mu is held.
func (tb *table) hostOf(name string) *host {
	h := tb.hosts[name]
	if h == nil {
		h = &host{Host: send.NewHost(strings.Clone(name)), limit: int32(max(1, tb.cfg.MaxPerHost/4))}
		tb.hosts[h.Name()] = h
	}
	return h
}

// forgetHost forgets a host without a callback here, once no attempt to it is under way: until then it
// keeps its limits. mu is held.
func (tb *table) forgetHost(h *host) {
	if h.entries == 0 && h.young[fresh]+h.young[again]+h.slow == 0 && tb.hosts[h.Name()] == h {
		delete(tb.hosts, h.Name())
	}
}

// topicOf returns the topic with the key; a new one asks for its head. mu is held.
func (tb *table) topicOf(key string) *followed {
	t := tb.topics[key]
	if t == nil {
		if t = tb.returnTopic(key); t == nil {
			t = &followed{key: strings.Clone(key), removed: tb.counts[ended]}
		}
		t.at = len(tb.topicList)
		tb.topicList = appended(tb.topicList, t)
		tb.topics[t.key] = t
		tb.asks.ask(t)
	}
	return t
}

// forgetTopic forgets a topic without a subscription here. mu is held.
func (tb *table) forgetTopic(t *followed) {
	delete(tb.topics, t.key)
	last := tb.topicList[len(tb.topicList)-1]
	tb.topicList[t.at], last.at = last, t.at
	tb.topicList[len(tb.topicList)-1] = nil
	tb.topicList = tb.topicList[:len(tb.topicList)-1]
}

// leaveTopic remembers a topic that lost its last subscription here with a dropped shard. It often
// comes back with a shard, above all after a restart of the engine. The remembered head then shows
// whether the log has lost its end. mu is held.
func (tb *table) leaveTopic(t *followed) {
	if tb.left[0] == nil {
		tb.left[0] = map[string]*followed{}
	}
	tb.left[0][t.key] = t
}

// returnTopic takes back what is remembered of a topic, nil if nothing is. Its head
// is to be read anew. mu is held.
func (tb *table) returnTopic(key string) *followed {
	for _, left := range tb.left {
		if t := left[key]; t != nil {
			delete(left, key)
			t.known, t.resting, t.rests = false, 0, 0
			return t
		}
	}
	return nil
}

// forgetTopics forgets topics that did not come back for a TrimInterval or two.
func (tb *table) forgetTopics() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.left[1], tb.left[0] = tb.left[0], nil
}

// doubt has a topic's head read again, after an append with an unknown end.
func (tb *table) doubt(key string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if t := tb.topics[key]; t != nil {
		tb.asks.ask(t)
	}
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
