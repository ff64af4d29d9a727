package subscription

import (
	"container/heap"
	"container/list"
	"time"
)

// lane is the jobs that are ready and ask the same host. It is in a ring of the
// queue while it has jobs of that ring's class and room for one more to run.
type lane struct {
	key     laneKey
	limit   int // how many may run; 0: any number
	running int
	ready   [classes]list.List     // of *job
	place   [classes]*list.Element // in queue.rings
}

// laneKey is whom a job's next step asks.
type laneKey struct {
	peer peer
	host string
}

type peer uint8

const (
	peerStore    peer = iota // nobody but the store; there is one such lane
	peerTopic                // the server of the topic
	peerCallback             // the callback
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

// queue holds the jobs that do not run: those that are ready, by the host that
// they ask, and those that wait, by time. Hosts take turns. Its owner guards it
// with a mutex.
type queue struct {
	perHost int
	lanes   map[laneKey]*lane
	rings   [classes]list.List // of *lane
	turn    class
	waiting dueHeap
}

func newQueue(perHost int) *queue {
	return &queue{perHost: perHost, lanes: make(map[laneKey]*lane)}
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
	for len(q.waiting) > 0 {
		if j := q.waiting[0]; j.due.After(now) {
			return j.due, true
		}
		q.push(heap.Pop(&q.waiting).(*job))
	}
	return time.Time{}, false
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

// pop takes out the next job that may run, or nil. Its lane counts it as running
// until done.
func (q *queue) pop() *job {
	for range classes {
		c := q.turn
		q.turn = (q.turn + 1) % classes
		front := q.rings[c].Front()
		if front == nil {
			continue
		}
		l := front.Value.(*lane)
		j := l.ready[c].Remove(l.ready[c].Front()).(*job)
		j.element = nil
		l.running++
		// To the end of the ring: the next host has its turn.
		q.rings[c].Remove(front)
		l.place[c] = nil
		q.arrange(l)
		return j
	}
	return nil
}

// done gives back the place of a job that pop gave out.
func (q *queue) done(j *job) {
	l := j.lane
	j.lane = nil
	l.running--
	q.arrange(l)
}

// arrange puts the lane into the rings where it belongs, takes it out of the
// others, and forgets it when nothing is left of it.
func (q *queue) arrange(l *lane) {
	room := l.limit == 0 || l.running < l.limit
	empty := l.running == 0
	for c := range l.ready {
		n := l.ready[c].Len()
		empty = empty && n == 0
		switch {
		case n > 0 && room && l.place[c] == nil:
			l.place[c] = q.rings[c].PushBack(l)
		case (n == 0 || !room) && l.place[c] != nil:
			q.rings[c].Remove(l.place[c])
			l.place[c] = nil
		}
	}
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
