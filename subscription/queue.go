package subscription

import (
	"time"

	"carillon/internal/standing"
	"carillon/internal/turns"
	"carillon/topic"
)

// laneKey is whom a job's next step asks.
type laneKey struct {
	peer peer
	site string
}

type peer uint8

const (
	peerStore    peer = iota // the store only; there is one such lane
	peerTopic                // the server of the topic
	peerCallback             // the callback
	peers
)

func topicLane(at string) laneKey { return laneKey{peerTopic, topic.Site(at)} }

func callbackLane(callback string) laneKey { return laneKey{peerCallback, topic.Site(callback)} }

type (
	jobTurns  = turns.Queue[laneKey, *job]
	jobTicket = turns.Ticket[laneKey, *job]
	jobLane   = turns.Lane[laneKey]
)

// queue has the jobs take turns by the site that they ask, beside what is known of the sites:
// one in bad standing rests after each job, and one that may hang is asked among the slow ones.
// Its owner guards it with a mutex.
type queue struct {
	turns   *jobTurns
	perHost int
	books   [peers]*standing.Book // nil for peerStore
}

func newQueue(cfg Config) *queue {
	bad := standing.Config{Failures: cfg.BadAfter, Every: cfg.BadEvery, Sites: cfg.BadSites}
	q := &queue{perHost: cfg.PerHost}
	q.books[peerTopic], q.books[peerCallback] = standing.NewBook(bad), standing.NewBook(bad)
	q.turns = turns.NewQueue[laneKey, *job](turns.Config[laneKey]{
		Slots: cfg.Concurrency, SlowAfter: cfg.SlowAfter, SlowSlots: cfg.MaxSlow, Judge: q,
	})
	return q
}

// Limit bounds what asks one site.
func (q *queue) Limit(key laneKey) int {
	if key.peer == peerStore {
		return 0
	}
	return q.perHost
}

// Beside reports whether a site may hang. Of one that has not shown yet that it answers one
// job holds a slot that others need.
func (q *queue) Beside(l *jobLane) bool {
	b := q.books[l.Key.peer]
	return b != nil && (l.Slow > 0 || l.Running > 0 && !l.Proven || b.Away(l.Key.site))
}

// push makes the job ready, now or after a pause.
func (q *queue) push(j *job, pause time.Duration) {
	if pause > 0 {
		j.ticket = q.turns.PushAt(j.asks(), j.class, j, time.Now().Add(pause))
		return
	}
	j.ticket = q.turns.Push(j.asks(), j.class, j)
}

// remove takes the job out, unless it runs.
func (q *queue) remove(j *job) { q.turns.Remove(j.ticket) }

// next takes out the next job that may run, or nil. It counts as running until done.
func (q *queue) next(now time.Time) *job {
	t := q.turns.Next(now)
	if t == nil {
		return nil
	}
	q.rest(t.Lane(), now)
	return t.Value
}

// done gives back the slot of a job that next gave out.
func (q *queue) done(j *job) { q.turns.Done(j.ticket) }

// attitude is how a site answered.
type attitude uint8

const (
	well    attitude = iota // it did what it was asked for
	unmoved                 // it answered something else
	silent                  // it did not answer
)

// note keeps how a site answered.
func (q *queue) note(key laneKey, a attitude, now time.Time) {
	if b := q.books[key.peer]; a == well {
		b.Succeeded(key.site)
	} else {
		b.Failed(key.site, a == silent)
	}
	l := q.turns.Lane(key)
	if l == nil {
		return
	}
	if l.Proven = a == well; l.Proven {
		q.turns.Rest(l, time.Time{}, now)
		return
	}
	q.rest(l, now)
	q.turns.Arrange(l)
}

// bad reports whether a site is in bad standing.
func (q *queue) bad(key laneKey) bool {
	b := q.books[key.peer]
	return b != nil && b.Bad(key.site)
}

// rest lets a lane rest whose site is in bad standing and was asked just now.
func (q *queue) rest(l *jobLane, now time.Time) {
	if q.bad(l.Key) {
		q.turns.Rest(l, l.Last.Add(q.books[l.Key.peer].Every()), now)
	}
}
