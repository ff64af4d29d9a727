package mirror

import (
	"context"
	"runtime"
	"sync"
	"time"

	"carillon/destination/follow"
	"carillon/payload"
)

const (
	// maxOutstanding is how many resources are in work at a time, those that wait for their
	// host among them.
	maxOutstanding = 4096
	// maxSaved is how many results are saved in one step. Each step waits for the disk.
	maxSaved = 2048
	// saveWithin is how long the Catalog may take for that: the work ends then, as with every error of it.
	saveWithin = 10 * time.Second
)

// pool works on jobs until it is waited for. Those of one host wait in a queue of their own. Jobs are
// submitted and the end is waited for by one goroutine.
type pool struct {
	m        *worker
	ctx      context.Context // of one call: it ends with wait
	cancel   context.CancelCauseFunc
	places   chan struct{}
	results  chan *job
	workers  sync.WaitGroup
	gathered chan struct{} // closed when all results are saved

	mu     sync.Mutex
	queues map[string]*queue // guarded by mu
}

type queue struct {
	jobs    []*job
	workers int
}

func (w *worker) newPool(ctx context.Context) *pool {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pool{
		m: w, ctx: ctx, cancel: cancel,
		places: make(chan struct{}, maxOutstanding), results: make(chan *job, maxSaved),
		gathered: make(chan struct{}), queues: map[string]*queue{},
	}
	go p.gather()
	return p
}

// submit has a job done; it waits while there are too many, and for an earlier one of the same
// resource.
func (p *pool) submit(j *job) error {
	select {
	case p.places <- struct{}{}:
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	if err := p.m.busy.lock(p.ctx, j.loc); err != nil {
		<-p.places
		return err
	}
	host, err := p.m.prepare(p.ctx, j)
	if err != nil {
		p.cancel(err)
		p.results <- j
		return err
	}
	if host == "" {
		p.results <- j // nothing to do
		return nil
	}
	p.enqueue(host, j)
	return nil
}

func (p *pool) enqueue(host string, j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[host]
	if q == nil {
		q = &queue{}
		p.queues[host] = q
	}
	q.jobs = append(q.jobs, j)
	if q.workers < p.m.workersOf(host) {
		q.workers++
		p.workers.Go(func() { p.work(host, q) })
	}
}

// work does the jobs of one host until its queue is empty.
func (p *pool) work(host string, q *queue) {
	for {
		p.mu.Lock()
		if len(q.jobs) == 0 {
			if q.workers--; q.workers == 0 {
				delete(p.queues, host)
			}
			p.mu.Unlock()
			return
		}
		j := q.jobs[0]
		q.jobs = q.jobs[1:]
		p.mu.Unlock()
		if p.ctx.Err() == nil {
			next, err := p.m.do(p.ctx, host, j)
			if err != nil {
				p.cancel(err)
			}
			if next != "" {
				p.enqueue(next, j)
				continue
			}
		}
		p.results <- j
	}
}

// gather saves the outcome of jobs, several at a time, and ends them.
func (p *pool) gather() {
	defer close(p.gathered)
	batch := make([]*job, 0, maxSaved)
	for first := range p.results {
		batch = append(batch[:0], first)
		for len(batch) < maxSaved {
			select {
			case j, more := <-p.results:
				if more {
					batch = append(batch, j)
					continue
				}
			default:
			}
			break
		}
		p.settle(batch)
	}
}

func (p *pool) settle(batch []*job) {
	copies := make([]Copy, 0, len(batch))
	var forget []string
	failing := false
	for _, j := range batch {
		switch {
		case j.forget:
			forget = append(forget, j.loc)
		case j.save:
			copies = append(copies, j.copy)
			failing = failing || !j.copy.Next.IsZero()
		}
	}
	var err error
	if len(copies)+len(forget) > 0 {
		// Also after the caller has gone: the files are there.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), saveWithin)
		err = p.m.cfg.Catalog.Save(ctx, copies, forget)
		cancel()
	}
	if err != nil {
		p.cancel(err)
	}
	for _, j := range batch {
		j.finished = j.finished && err == nil
		p.m.claims.settle(j.claimed)
		p.m.busy.unlock(j.loc)
		<-p.places
	}
	if failing {
		select {
		case p.m.wake <- struct{}{}:
		default:
		}
	}
}

// wait waits until all is done, and returns what ended the work early, if something did.
func (p *pool) wait() error {
	p.workers.Wait()
	close(p.results)
	<-p.gathered
	err := context.Cause(p.ctx)
	p.cancel(nil)
	return err
}

// store is Take with a content that a package may have of a change.
func (w *worker) store(
	ctx context.Context, changes []follow.Change, content func(*payload.Entry) *packed,
) (done int, err error) {
	if err := w.free(); err != nil {
		return 0, err
	}
	changes = changes[:min(len(changes), maxHandled)]
	last := make(map[string]*job, len(changes))
	for i := range changes {
		e := &changes[i].Entry
		last[e.Loc] = &job{loc: e.Loc, described: w.described(e), packed: content(e)}
	}
	p := w.newPool(ctx)
	submitted := make(map[string]bool, len(last))
	for i := range changes {
		loc := changes[i].Loc
		if submitted[loc] {
			continue
		}
		submitted[loc] = true
		if w.overlong(loc) {
			last[loc].finished = true
			continue
		}
		if err = p.submit(last[loc]); err != nil {
			break
		}
	}
	err = p.wait()
	for done < len(changes) && last[changes[done].Loc].finished {
		done++
	}
	return done, err
}

// maxHandled is how many changes one Take completes at most, so that completed changes are reported
// the sooner.
const maxHandled = 1000

// workersOf is how many jobs of a host are in work at a time. Jobs that wait for no host and no disk
// wait for processors: more workers would be in each other's way.
func (w *worker) workersOf(host string) int {
	if host == localHost && !w.cfg.Sync {
		return min(w.cfg.PerHost, runtime.GOMAXPROCS(0))
	}
	return w.cfg.PerHost
}
