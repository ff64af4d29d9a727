package operator

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"carillon/delivery/send"
)

// Bounds of an overview.
const (
	// maxTopicSet is how many topics a process names by their hashes, so that those of several
	// are counted once each. Beyond it the count is that of the process that has most.
	maxTopicSet = 100_000
)

// overviews asks how things stand in a process.
var overviews = kind[struct{}, ownView]{name: "overview", handle: (*local).overview, unsure: true}

type ownView struct {
	Process Process  `json:"process"`
	Samples []sample `json:"samples"`
	// Oldest is when the oldest notification was accepted that a subscription waits for; zero without one.
	Oldest time.Time `json:"oldest,omitzero"`
}

func (h *local) overview(ctx context.Context, _ struct{}) (ownView, error) {
	v := ownView{Process: Process{ID: h.self, Version: h.cfg.Version, Started: h.cfg.Started.UTC(), Shards: []int{}}}
	if h.cfg.Deliveries == nil {
		return v, nil
	}
	stats, totals := h.cfg.Deliveries.Stats(), h.cfg.Deliveries.Totals()
	p := &v.Process
	for _, t := range h.holdings() {
		p.Shards = append(p.Shards, int(t.Shard))
	}
	if h.cfg.Connections != nil {
		p.Connections = connectionsOf(h.cfg.Connections())
	}
	p.Loading, p.StoreFailing, p.Unsure = stats.Loading, stats.Paused, stats.Unsure
	v.Samples = h.samples.all()
	if p.Unsure {
		return v, nil // others count what is in its shards
	}
	p.Counts = Counts{
		Topics: stats.Topics, Subscriptions: stats.Subscriptions, Behind: totals.Behind, Failing: totals.Failing,
		InFlight: stats.InFlight, SlowAttempts: stats.Slow, Unsaved: stats.Unsaved, BodyBytes: totals.HeldBytes, MaxBodyBytes: totals.MaxHeldBytes,
	}
	if h.cfg.Waiting != nil {
		p.Counts.Requests = h.cfg.Waiting()
	}
	if totals.Behind > 0 {
		v.Oldest = h.cfg.Deliveries.OldestWaiting(ctx)
	}
	return v, nil
}

// topicSets asks for the topics of a process, by hashes of their keys.
var topicSets = kind[uint64, topicSet]{name: "topic_set", handle: (*local).topicSet}

// topicSet is what topics there are; Hashes is empty where they are too many.
type topicSet struct {
	Count  int      `json:"count"`
	Hashes []uint64 `json:"hashes"`
}

func (h *local) topicSet(ctx context.Context, _ uint64) (topicSet, error) {
	if h.cfg.Deliveries == nil {
		return topicSet{}, nil
	}
	counts, err := h.cfg.Deliveries.TopicCounts(ctx)
	if err != nil {
		return topicSet{}, err
	}
	var s topicSet
	for _, c := range counts {
		if c.Subscriptions == 0 {
			continue
		}
		if s.Count++; s.Count <= maxTopicSet {
			s.Hashes = append(s.Hashes, hashOf(c.Topic))
		}
	}
	if s.Count > maxTopicSet {
		s.Hashes = nil
	}
	return s, nil
}

// hashOf is the same in every process.
func hashOf(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // it never fails
	return h.Sum64()
}

// Overview is the hub at a glance.
func (d *hubService) Overview(ctx context.Context) (Overview, error) {
	parts, cover, err := gather(ctx, d.local, overviews, struct{}{})
	if err != nil {
		return Overview{}, err
	}
	o := Overview{
		At: time.Now().UTC(), URL: d.cfg.URL, Engine: d.cfg.Engine, Ready: true, Checks: []Check{}, Warnings: []string{},
		Processes: []Process{}, Coverage: cover,
	}
	if d.cfg.Checks != nil {
		o.Checks = d.cfg.Checks(ctx)
	}
	for _, c := range o.Checks {
		o.Ready = o.Ready && c.Ready
	}
	if d.cfg.Warnings != nil {
		o.Warnings = append(o.Warnings, d.cfg.Warnings()...)
	}
	var samples [][]sample
	var waiting time.Time
	for _, p := range parts {
		v := p.result
		v.Process.Self = p.process == d.self
		o.Processes = append(o.Processes, v.Process)
		o.Counts.add(v.Process.Counts)
		o.Connections.add(v.Process.Connections)
		samples = append(samples, v.Samples)
		if !v.Oldest.IsZero() && (waiting.IsZero() || v.Oldest.Before(waiting)) {
			waiting = v.Oldest
		}
	}
	slices.SortFunc(o.Processes, func(a, b Process) int { return cmp.Compare(a.ID, b.ID) })
	o.Series = series(samples)
	if !waiting.IsZero() {
		o.LagSeconds = max(0, o.At.Sub(waiting).Seconds())
	}
	if len(parts) > 1 {
		o.Counts.Topics = d.topics.of(ctx, d.local, o.Processes)
	}
	return o, nil
}

// add adds up the counts of processes, but for Topics: several have the same ones.
func (c *Counts) add(o Counts) {
	c.Topics = max(c.Topics, o.Topics)
	c.Subscriptions += o.Subscriptions
	c.Behind += o.Behind
	c.Failing += o.Failing
	c.InFlight += o.InFlight
	c.SlowAttempts += o.SlowAttempts
	c.Unsaved += o.Unsaved
	c.Requests += o.Requests
	c.BodyBytes += o.BodyBytes
	c.MaxBodyBytes += o.MaxBodyBytes
}

// connectionsOf converts the counts of a sender.
func connectionsOf(c send.Connections) Connections {
	return Connections{
		Open: c.Open, Idle: c.Idle, MaxOpen: c.MaxOpen, Hosts: c.Hosts, RememberedHosts: c.RememberedHosts,
		IdleBytes: c.IdleBytes, MaxIdleBytes: c.MaxIdleBytes, SessionBytes: c.SessionBytes, MaxSessionBytes: c.MaxSessionBytes,
		Plain: c.Plain, Full: c.Full, Resumed: c.Resumed, Dropped: c.Dropped,
	}
}

// add adds the connections of another process. A host counts once for each process that is
// connected to it.
func (c *Connections) add(o Connections) {
	c.Open += o.Open
	c.Idle += o.Idle
	c.MaxOpen += o.MaxOpen
	c.Hosts += o.Hosts
	c.RememberedHosts += o.RememberedHosts
	c.IdleBytes += o.IdleBytes
	c.MaxIdleBytes += o.MaxIdleBytes
	c.SessionBytes += o.SessionBytes
	c.MaxSessionBytes += o.MaxSessionBytes
	c.Plain += o.Plain
	c.Full += o.Full
	c.Resumed += o.Resumed
	c.Dropped += o.Dropped
}

// topicsEvery is for how long the number of topics of several processes counts.
const topicsEvery = 30 * time.Second

// topicNumber remembers for a while how many topics several processes have together.
type topicNumber struct {
	mu    sync.Mutex
	asked time.Time // owned by mu
	least int       // the most that one process had then. Owned by mu.
	count int       // owned by mu
}

// of is how many topics there are, as counted within the last topicsEvery unless one of the
// processes has another number than then.
func (n *topicNumber) of(ctx context.Context, h *local, processes []Process) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	most := 0
	for _, p := range processes {
		most = max(most, p.Counts.Topics)
	}
	if !n.asked.IsZero() && time.Since(n.asked) < topicsEvery && most == n.least {
		return n.count
	}
	parts, _, err := gather(ctx, h, topicSets, 0)
	if err != nil {
		return most
	}
	all := map[uint64]struct{}{}
	for _, p := range parts {
		most = max(most, p.result.Count)
		for _, hash := range p.result.Hashes {
			all[hash] = struct{}{}
		}
	}
	n.asked, n.least, n.count = time.Now(), most, max(most, len(all))
	return n.count
}
