package hub

import (
	"container/heap"
	"container/list"
	"slices"
	"time"
)

// turns holds the fetches that wait: those whose time has not come, by time, and
// those that are ready, by host. Hosts take turns, so that one with much to do
// holds up itself alone. Its owner guards it with a mutex.
type turns struct {
	perHost int
	due     fetchQueue
	hosts   map[string]*fetchHost // those that have or do something
	ring    list.List             // of *fetchHost: those with something ready and a free place
}

// fetchHost is what one host has to do.
type fetchHost struct {
	name    string
	running int
	ready   list.List     // of *fetchJob
	place   *list.Element // in turns.ring
}

func newTurns(perHost int) *turns {
	return &turns{perHost: perHost, hosts: make(map[string]*fetchHost)}
}

// wait lets the job be ready at its time.
func (t *turns) wait(j *fetchJob) { heap.Push(&t.due, j) }

// next takes out the job that is next, or tells how long until there may be one.
func (t *turns) next(now time.Time) (j *fetchJob, wait time.Duration) {
	wait = idle
	for len(t.due) > 0 {
		if rest := t.due[0].at.Sub(now); rest > 0 {
			wait = rest
			break
		}
		j := heap.Pop(&t.due).(*fetchJob)
		h := t.hosts[j.host]
		if h == nil {
			h = &fetchHost{name: j.host}
			t.hosts[j.host] = h
		}
		h.ready.PushBack(j)
		t.arrange(h)
	}
	front := t.ring.Front()
	if front == nil {
		return nil, wait
	}
	h := t.ring.Remove(front).(*fetchHost)
	h.place = nil
	h.running++
	j = h.ready.Remove(h.ready.Front()).(*fetchJob)
	t.arrange(h)
	return j, wait
}

// done gives back the place of a job that next gave out.
func (t *turns) done(j *fetchJob) {
	h := t.hosts[j.host]
	h.running--
	t.arrange(h)
}

// drop takes out the jobs that wait and that which is true for.
func (t *turns) drop(which func(*fetchJob) bool) {
	t.due = slices.DeleteFunc(t.due, which)
	heap.Init(&t.due)
	for _, h := range t.hosts {
		for e := h.ready.Front(); e != nil; {
			next := e.Next()
			if which(e.Value.(*fetchJob)) {
				h.ready.Remove(e)
			}
			e = next
		}
		t.arrange(h)
	}
}

// arrange puts the host at the end of the ring if it belongs there and is not in it,
// takes it out where nothing is ready, and forgets it when nothing is left of it.
func (t *turns) arrange(h *fetchHost) {
	if h.ready.Len() == 0 && h.place != nil {
		t.ring.Remove(h.place)
		h.place = nil
	}
	switch {
	case h.ready.Len() > 0 && h.running < t.perHost && h.place == nil:
		h.place = t.ring.PushBack(h)
	case h.ready.Len() == 0 && h.running == 0:
		delete(t.hosts, h.name)
	}
}

// fetchQueue is a heap: the job that is due first leads.
type fetchQueue []*fetchJob

func (q fetchQueue) Len() int           { return len(q) }
func (q fetchQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q fetchQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for package heap.
func (q *fetchQueue) Push(x any) { *q = append(*q, x.(*fetchJob)) }

// Pop is for package heap.
func (q *fetchQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
