package subscription

import (
	"context"
	"sync"
	"time"

	"carillon/internal/turns"
)

// docket holds the jobs of the requests of this process's shards, those that run and those
// that wait. Its methods may be called from any goroutine.
type docket struct {
	cfg     Config
	metrics *metrics
	wake    chan struct{} // holds one token: the queue or running changed

	mu sync.Mutex
	// shards holds those that are this process's, nil for the others. Owned by mu.
	shards [Shards]*tenancy
	// jobs holds, for each ID, the job that counts: a request of a shard of this
	// process, or a notice. Owned by mu.
	jobs map[ID]*job
	// running holds the jobs that a goroutine works on, one for each ID at
	// most; it is not the job in jobs where that replaced it. Owned by mu.
	running map[ID]*job
	// reserved counts the Submits whose job is not in jobs yet. Owned by mu.
	reserved int
	// waits counts the jobs, and the Submits under way, by whom they concern. Owned by mu.
	waits waits
	// queue has the jobs take turns that do not run. Owned by mu.
	queue *queue
}

// tenancy is one stay of a shard with this process. Its fields are owned by
// docket.mu.
type tenancy struct {
	// read: all requests that the store held at the beginning are known, and so
	// which renewals are under way.
	read bool
	// ended holds the IDs whose job ended while requests are being read: the read requests may be older
	// than that. It is nil otherwise.
	ended map[ID]struct{}
}

func newDocket(cfg Config) *docket {
	return &docket{
		cfg: cfg, wake: make(chan struct{}, 1), jobs: make(map[ID]*job), running: make(map[ID]*job),
		waits: newWaits(), queue: newQueue(cfg),
	}
}

// pending counts the requests of this process's shards, and the denials, that are
// not settled.
func (d *docket) pending() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs)
}

func (d *docket) inFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running)
}

// signal wakes Run.
func (d *docket) signal() { ring(d.wake) }

// ring puts a token into a channel that has room for one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// gain begins a stay of the shard with this process.
func (d *docket) gain(shard Shard) *tenancy {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shards[shard] = &tenancy{}
	return d.shards[shard]
}

// owns reports whether the shard is this process's.
func (d *docket) owns(shard Shard) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shards[shard] != nil
}

// tenancies returns the shards of this process whose requests were read.
func (d *docket) tenancies() map[Shard]*tenancy {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[Shard]*tenancy)
	for shard, t := range d.shards {
		if t != nil && t.read {
			all[Shard(shard)] = t
		}
	}
	return all
}

// stays reports whether the shard has been this process's ever since.
func (d *docket) stays(shard Shard, t *tenancy) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shards[shard] == t
}

// reading records that the requests of a stay are being read, until done is called: then all of
// them are known, if whole says so.
func (d *docket) reading(t *tenancy) (done func(whole bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.ended = make(map[ID]struct{})
	return func(whole bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		t.ended, t.read = nil, t.read || whole
	}
}

// known returns the job that counts for an ID, and whether one came to its end while the
// requests of the stay are being read.
func (d *docket) known(t *tenancy, id ID) (j *job, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ended = t.ended[id]
	return d.jobs[id], ended
}

// renews reports whether a request is under way that renews the subscription.
func (d *docket) renews(sub Subscription) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[sub.ID]
	return j != nil && !j.bare && j.req.Mode == ModeSubscribe && renews(j.req, sub)
}

// takeNotice makes a notice the job that counts, unless a request for its ID is pending, here
// or in the store as stored says. The caller holds the lock of the books for it.
func (d *docket) takeNotice(notice *job, stored *Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.jobs[notice.req.ID]
	if old != nil && !old.bare || stored != nil && (old == nil || !old.knows(stored.Token)) {
		return
	}
	if old != nil {
		notice.strays = old.strays
	}
	d.replace(notice)
}

// take makes a request that the store holds the job that counts, unless it does
// already or the shard is not this process's. Client is who sent it, empty where that
// is not known. The caller holds the lock of the
// books for it.
func (d *docket) take(r Request, c turns.Class, client string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.jobs[r.ID]
	if d.shards[ShardOf(r.ID)] == nil || old != nil && old.knows(r.Token) {
		return false
	}
	j := newJob(r)
	j.class, j.client = c, client
	if old != nil {
		j.strays = old.strays // they may come late
	}
	d.replace(j)
	return true
}

// replace makes j the job that counts for its ID. A callback that is being asked is not
// hung up on: it would be asked again while it still works on its answer. The caller holds
// mu, and the lock of the books for it.
func (d *docket) replace(j *job) {
	if old := d.jobs[j.req.ID]; old != nil {
		d.queue.remove(old)
		if !old.bare {
			d.metrics.count(superseded)
		}
	}
	if r := d.running[j.req.ID]; r != nil && r.began == stepValidate {
		r.cancel()
	}
	d.put(j)
}

// put makes j the job that counts, and queues it unless another job of its ID
// is still running: finish does so then. The caller holds mu.
func (d *docket) put(j *job) {
	if old := d.jobs[j.req.ID]; old != nil {
		d.forget(old)
	}
	d.jobs[j.req.ID] = j
	d.waits.add(j)
	if d.running[j.req.ID] == nil {
		d.queue.push(j, 0)
	}
	d.signal()
}

// forget takes out the job that counts. The caller holds mu.
func (d *docket) forget(j *job) {
	delete(d.jobs, j.req.ID)
	d.waits.remove(j)
}

// disown sees to it that nothing comes of a request whose Submit failed, and
// which may be in the store all the same, perhaps in the place of one that was
// accepted. In a shard of another process it does nothing: to take the request out
// there could lose both. The caller holds the lock of the books for it.
func (d *docket) disown(r Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch old := d.jobs[r.ID]; {
	case d.shards[ShardOf(r.ID)] == nil:
	case old != nil:
		old.addStray(r.Token)
	default:
		d.put(newStray(r))
	}
}

// counts reports whether the job is the one that counts for its ID. Under the lock
// of the books that stays so.
func (d *docket) counts(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[j.req.ID] == j
}

// mayWrite reports whether the job counts, and if so that it is being written: it is
// not cancelled then because its shard is lost.
func (d *docket) mayWrite(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.writing = d.jobs[j.req.ID] == j
	return j.writing
}

// handOver settles the request that replaced the job's by the same answer, if the callback
// has confirmed exactly what that one asks for, too. So a subscriber that asks again and
// again, faster than its callback answers, comes to an end. The caller holds the lock of the
// books.
func (d *docket) handOver(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	heir := d.jobs[j.req.ID]
	if heir == nil || heir == j || heir.bare || j.bare || j.result != activated || !heir.req.same(j.req) {
		return
	}
	heir.req, heir.kept, heir.asked = heir.req.Replacing(j.req), j.kept, j.asked
	heir.settled(activated)
}

// note keeps how a site answered.
func (d *docket) note(site laneKey, a attitude) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.note(site, a, time.Now())
}

// start gives every job that may run a goroutine, which advances it, and reports when there may
// be another.
func (d *docket) start(work context.Context, advance func(context.Context, *job) move) (next time.Time, any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.queue.turns.Tick(now)
	for j := d.queue.next(now); j != nil; j = d.queue.next(now) {
		var ctx context.Context
		ctx, j.cancel = context.WithCancel(work)
		j.done, j.began = make(chan struct{}), j.step
		d.running[j.req.ID] = j
		go func() {
			defer close(j.done)
			defer j.cancel()
			d.finish(j, advance(ctx, j))
		}()
	}
	return d.queue.turns.Wake()
}

// finish puts back a job whose goroutine ends, or the one that replaced it. One
// whose shard was lost is forgotten already.
func (d *docket) finish(j *job, m move) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, j.req.ID)
	j.writing = false
	d.queue.done(j)
	switch current := d.jobs[j.req.ID]; {
	case current == nil:
	case current != j:
		d.waits.moved(current)
		d.queue.push(current, 0)
	case m.end:
		d.forget(j)
		if t := d.shards[ShardOf(j.req.ID)]; t != nil && t.ended != nil {
			t.ended[j.req.ID] = struct{}{}
		}
	default:
		d.waits.moved(j)
		d.queue.push(j, m.pause)
	}
	d.signal()
}

// leave forgets the shard and its jobs, and cancels those with a request under way. It returns those
// to wait for, and how many denials will not be sent.
func (d *docket) leave(shard Shard) (running []*job, untold int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shards[shard] == nil {
		return nil, 0
	}
	d.shards[shard] = nil
	for id, j := range d.jobs {
		if ShardOf(id) != shard {
			continue
		}
		if d.running[id] != j {
			d.queue.remove(j)
			if j.bare && j.step == stepDeny {
				untold++
			}
		}
		d.forget(j)
	}
	for id, j := range d.running {
		if ShardOf(id) != shard || j.bare {
			continue
		}
		if !j.writing {
			j.cancel()
		}
		running = append(running, j)
	}
	return running, untold
}
