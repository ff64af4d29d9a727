package dispatch

import "sync"

// asks are the topics whose heads are to be read. Its mutex is below that of the table.
type asks struct {
	asked  chan struct{} // a signal: there are some
	mu     sync.Mutex    // guards topics, and asking of each topic
	topics []*followed
}

// ask has the head of a topic read.
func (a *asks) ask(t *followed) {
	a.enlist(t)
	signal(a.asked)
}

// enlist records that the head of a topic is to be read when there is a signal.
func (a *asks) enlist(t *followed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.asking {
		t.asking = true
		a.topics = append(a.topics, t)
	}
}

// next takes topics whose heads are to be read; it may return none.
func (a *asks) next() []*followed {
	a.mu.Lock()
	defer a.mu.Unlock()
	some := a.topics[:min(len(a.topics), headBatch)]
	if a.topics = a.topics[len(some):]; len(a.topics) == 0 {
		a.topics = nil
	}
	for _, t := range some {
		t.asking = false
	}
	return some
}
