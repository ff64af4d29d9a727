package directory

import (
	"context"
	"os"
	"sync"
	"time"

	"carillon/internal/await"
)

// maxPending is how many files may wait until they rest, each with its name. A scan finds the rest.
const maxPending = 1 << 16

// queue has the files on their way to the examiners: a file waits until it rests, and is
// examined by one at a time.
type queue struct {
	names    names
	rest     time.Duration // Config.Settle
	most     int           // maxPending; tests set it
	overflow func()        // is called where a file has no room
	work     chan job      // to be examined
	unsettle chan struct{} // holds one token: pending has something

	mu      sync.Mutex
	pending map[string]*wait // guarded by mu: files that may not be at rest, by path
	leaving int              // guarded by mu: files taken from pending, and not yet in busy
	busy    map[string]*job  // guarded by mu: examined or being announced; and events meanwhile
}

// wait is a file that may not be at rest. Its fields belong to the goroutine of settle,
// but for gone and touched, which do not change.
type wait struct {
	due  time.Time
	gone bool // the system said that it was removed, and nothing since
	// touched: its content may have changed, even if its size and time are as they were.
	touched bool
	looked  bool // size and modified are what they were a Settle before due
	size    int64
	// modified is compared as an instant: its clock may be another machine's.
	modified time.Time
}

// job is a file to be compared with the state of the set.
type job struct {
	rel string
	// gone: if it is not there it was deleted. Without, it may be the disk that went.
	gone bool
	// touched: its size and time do not tell whether it is as it was.
	touched bool
}

// await makes a file wait until it rests; false if there is no room for it, and a scan
// was asked for.
func (q *queue) await(rel string, w wait) bool { return q.awaiting(rel, w, true) }

// awaitAgain is await for a file taken from pending before: later events are newer.
func (q *queue) awaitAgain(rel string, w wait) { q.awaiting(rel, w, false) }

func (q *queue) awaiting(rel string, w wait, newer bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.pending[rel]
	if old != nil && !newer {
		return true
	}
	if old == nil && len(q.pending) >= q.most {
		q.overflow()
		return false
	}
	w.due = time.Now().Add(q.rest)
	q.pending[rel] = &w
	if len(q.pending) == 1 {
		await.Wake(q.unsettle)
	}
	return true
}

// settle gives the files that rest to the examiners, until ctx ends.
func (q *queue) settle(ctx context.Context) {
	step := min(max(q.rest/4, time.Millisecond), time.Second)
	for {
		select {
		case <-q.unsettle:
		case <-ctx.Done():
			return
		}
		for more := true; more; more = q.anyPending() {
			if await.For(ctx, step) != nil {
				return
			}
			for _, j := range q.atRest(time.Now()) {
				if !q.submit(ctx, j) {
					return
				}
				q.mu.Lock()
				q.leaving--
				q.mu.Unlock()
			}
		}
	}
}

func (q *queue) anyPending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) > 0
}

// atRest takes the files from pending that have rested for long enough. The others whose
// time has come are looked at. It is for the goroutine of settle, and asks the file
// system, which may hang, without mu.
func (q *queue) atRest(now time.Time) []job {
	type dueFile struct {
		rel string
		*wait
	}
	var due []dueFile
	q.mu.Lock()
	for rel, w := range q.pending {
		if !w.due.After(now) {
			due = append(due, dueFile{rel, w})
		}
	}
	q.mu.Unlock()
	var jobs []job
	for _, f := range due {
		if !f.gone && !q.rests(f.rel, f.wait, now) {
			continue
		}
		q.mu.Lock()
		if q.pending[f.rel] == f.wait { // nothing has come meanwhile
			delete(q.pending, f.rel)
			q.leaving++
			jobs = append(jobs, job{rel: f.rel, gone: f.gone, touched: f.touched})
		}
		q.mu.Unlock()
	}
	return jobs
}

// rests looks at a file. Its time says since when it is unchanged, unless it lies in the future, as a
// program may have set it or another machine's clock.
func (q *queue) rests(rel string, w *wait, now time.Time) bool {
	info, err := os.Lstat(q.names.pathOf(rel))
	if err != nil || !info.Mode().IsRegular() {
		return true // the examination will see
	}
	if w.looked && info.Size() == w.size && info.ModTime().Equal(w.modified) || restedFor(info.ModTime(), now, q.rest) {
		return true
	}
	w.looked, w.size, w.modified, w.due = true, info.Size(), info.ModTime(), now.Add(q.rest)
	return false
}

func restedFor(modified, now time.Time, settle time.Duration) bool {
	return !modified.After(now.Add(-settle))
}

// submit has a file examined; false if ctx ended. One that is under examination is
// looked at again when that has ended.
func (q *queue) submit(ctx context.Context, j job) bool {
	q.mu.Lock()
	if again, ok := q.busy[j.rel]; ok {
		if again != nil {
			j.touched = j.touched || again.touched
		}
		q.busy[j.rel] = &j
		q.mu.Unlock()
		return true
	}
	q.busy[j.rel] = nil
	q.mu.Unlock()
	select {
	case q.work <- j:
		return true
	case <-ctx.Done():
		return false
	}
}

// done ends what submit has begun.
func (q *queue) done(rel string) {
	q.mu.Lock()
	again := q.busy[rel]
	delete(q.busy, rel)
	q.mu.Unlock()
	if again != nil {
		q.awaitAgain(rel, wait{gone: again.gone, touched: again.touched})
	}
}

// underWay reports whether there is a file that the system said was removed, or any that
// is being examined or announced.
func (q *queue) underWay() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.pending {
		if w.gone {
			return true
		}
	}
	return q.leaving > 0 || len(q.busy) > 0
}
