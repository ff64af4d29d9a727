package subscription

import (
	"container/heap"
	"container/list"
	"time"

	"carillon/internal/standing"
)

// lane is the jobs that are ready and ask the same site. It is in a ring of the
// queue while it has jobs of that ring's class and may run one more.
type lane struct {
	key     laneKey
	limit   int // how many may run; 0: any number
	running int
	slow    int                    // how many of them run beside the others
	proven  bool                   // one of its jobs did well
	ready   [classes]list.List     // of *job
	place   [classes]*list.Element // in queue.rings[way]
	way     way
	// rests: its site is in bad standing and was asked a while ago; until wake.
	rests       bool
	asked, wake time.Time
	heapIndex   int // in queue.resting
}

// laneKey is whom a job's next step asks.
type laneKey struct {
	peer peer
	site string
}

type peer uint8

const (
	peerStore    peer = iota // nobody but the store; there is one such lane
	peerTopic                // the server of the topic
	peerCallback             // the callback
	peers
)

// class tells the requests that have just been made from those that were found in
// the store. Both get their turns, so that a long list from before does not hold up those
// who come now.
type class uint8

const (
	fresh class = iota
	backlog
	classes
)

// way tells the sites that answer, as far as is known, from those that hang: these are
// asked in places of their own.
type way uint8

const (
	prompt way = iota
	beside
	ways
)

// queue holds the jobs that do not run: those that are ready, by the site that
// they ask, and those that wait, by time. Sites take turns; one in bad standing rests
// after each. Its owner guards it with a mutex.
type queue struct {
	perHost int
	books   [peers]*standing.Book // nil for peerStore
	lanes   map[laneKey]*lane
	rings   [ways][classes]list.List // of *lane
	turn    [ways]class
	waiting dueHeap
	resting restHeap
}

func newQueue(perHost int, bad standing.Config) *queue {
	q := &queue{perHost: perHost, lanes: make(map[laneKey]*lane)}
	q.books[peerTopic], q.books[peerCallback] = standing.NewBook(bad), standing.NewBook(bad)
	return q
}

// push makes the job ready.
func (q *queue) push(j *job) {
	key := j.asks()
	l := q.lanes[key]
	if l == nil {
		l = &lane{key: key}
		if key.peer != peerStore {
			l.limit = q.perHost
		}
		q.lanes[key] = l
	}
	j.lane = l
	j.element = l.ready[j.class].PushBack(j)
	q.arrange(l)
}

// wait makes the job ready at a later time.
func (q *queue) wait(j *job, due time.Time) {
	j.due = due
	heap.Push(&q.waiting, j)
}

// promote makes ready what is due, and tells when the next job will be.
func (q *queue) promote(now time.Time) (next time.Time, any bool) {
	for len(q.waiting) > 0 && !q.waiting[0].due.After(now) {
		q.push(heap.Pop(&q.waiting).(*job))
	}
	for len(q.resting) > 0 && !q.resting[0].wake.After(now) {
		l := heap.Pop(&q.resting).(*lane)
		l.rests = false
		q.arrange(l)
	}
	if len(q.waiting) > 0 {
		return q.waiting[0].due, true
	}
	return time.Time{}, false
}

// rested tells when the first lane that rests will do so no more, where that is
// earlier than next.
func (q *queue) rested(next time.Time, any bool) (time.Time, bool) {
	if len(q.resting) > 0 && (!any || q.resting[0].wake.Before(next)) {
		return q.resting[0].wake, true
	}
	return next, any
}

// remove takes the job out, wherever it is.
func (q *queue) remove(j *job) {
	switch {
	case j.element != nil:
		l := j.lane
		l.ready[j.class].Remove(j.element)
		j.element, j.lane = nil, nil
		q.arrange(l)
	case j.heapIndex > 0:
		heap.Remove(&q.waiting, j.heapIndex-1)
	}
}

// pop takes out the next job of a way that may run, or nil. Its lane counts it as
// running until done.
func (q *queue) pop(w way, now time.Time) *job {
	for range classes {
		c := q.turn[w]
		q.turn[w] = (c + 1) % classes
		front := q.rings[w][c].Front()
		if front == nil {
			continue
		}
		l := front.Value.(*lane)
		j := l.ready[c].Remove(l.ready[c].Front()).(*job)
		j.element = nil
		l.running++
		if w == beside {
			l.slow++
		}
		l.asked = now
		q.rest(l, now)
		// To the end of the ring: the next site has its turn.
		q.rings[w][c].Remove(front)
		l.place[c] = nil
		q.arrange(l)
		return j
	}
	return nil
}

// turnedSlow notes that a running job goes on beside the others.
func (q *queue) turnedSlow(j *job) {
	j.lane.slow++
	q.arrange(j.lane)
}

// done gives back the place of a job that pop gave out.
func (q *queue) done(j *job, slow bool) {
	l := j.lane
	j.lane = nil
	l.running--
	if slow {
		l.slow--
	}
	q.arrange(l)
}

// note keeps how a site answered.
func (q *queue) note(key laneKey, a attitude, now time.Time) {
	switch b := q.books[key.peer]; a {
	case well:
		b.Succeeded(key.site)
	default:
		b.Failed(key.site, a == silent)
	}
	l := q.lanes[key]
	switch {
	case l == nil:
		return
	case a != well:
		q.rest(l, now)
	case l.rests:
		heap.Remove(&q.resting, l.heapIndex)
		l.rests = false
	}
	l.proven = a == well
	q.arrange(l)
}

// attitude is how a site answered.
type attitude uint8

const (
	well    attitude = iota // it did what it was asked for
	unmoved                 // it answered something else
	silent                  // it did not answer
)

// bad tells whether a site is in bad standing.
func (q *queue) bad(key laneKey) bool {
	b := q.books[key.peer]
	return b != nil && b.Bad(key.site)
}

// rest lets a lane rest whose site is in bad standing and was asked just now.
func (q *queue) rest(l *lane, now time.Time) {
	if l.rests || !q.bad(l.key) {
		return
	}
	if l.wake = l.asked.Add(q.books[l.key.peer].Every()); l.wake.After(now) {
		l.rests = true
		heap.Push(&q.resting, l)
	}
}

// wayOf tells how a lane's next job is to run. Of a site that has not shown yet that it
// answers one job holds a place that others need.
func (q *queue) wayOf(l *lane) way {
	b := q.books[l.key.peer]
	if b != nil && (l.slow > 0 || l.running > 0 && !l.proven || b.Away(l.key.site)) {
		return beside
	}
	return prompt
}

// arrange puts the lane into the rings where it belongs, takes it out of the
// others, and forgets it when nothing is left of it.
func (q *queue) arrange(l *lane) {
	may := (l.limit == 0 || l.running < l.limit) && !l.rests
	w := q.wayOf(l)
	empty := l.running == 0 && !l.rests
	for c := range l.ready {
		n := l.ready[c].Len()
		empty = empty && n == 0
		if l.place[c] != nil && (n == 0 || !may || w != l.way) {
			q.rings[l.way][c].Remove(l.place[c])
			l.place[c] = nil
		}
		if n > 0 && may && l.place[c] == nil {
			l.place[c] = q.rings[w][c].PushBack(l)
		}
	}
	l.way = w
	if empty {
		delete(q.lanes, l.key)
	}
}

// dueHeap orders waiting jobs by due. A job's heapIndex is its place plus one,
// 0 when it is not in the heap.
type dueHeap []*job

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i+1, j+1
}

func (h *dueHeap) Push(x any) {
	j := x.(*job)
	*h = append(*h, j)
	j.heapIndex = len(*h)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.heapIndex = 0
	return j
}

// restHeap orders resting lanes by wake.
type restHeap []*lane

func (h restHeap) Len() int           { return len(h) }
func (h restHeap) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }

func (h restHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *restHeap) Push(x any) {
	l := x.(*lane)
	l.heapIndex = len(*h)
	*h = append(*h, l)
}

func (h *restHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
