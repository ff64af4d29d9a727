package dump

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"carillon/internal/await"
)

// requests are those for a Resource Dump.
type requests struct {
	urgent chan struct{} // holds one token: a request waits

	mu        sync.Mutex
	waiting   []chan outcome // guarded by mu
	answering []chan outcome // guarded by mu: those that the dump being made answers
}

// outcome is how the making of a Resource Dump has ended.
type outcome struct {
	Progress
	At time.Time
	// Err is why there is no new dump; nil if there is one.
	Err error
}

// some reports whether a dump is waited for that has not begun.
func (r *requests) some() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0
}

// ask requests a Resource Dump that begins from now on, and returns a channel with its outcome.
func (r *requests) ask() chan outcome {
	answer := make(chan outcome, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, answer)
	r.mu.Unlock()
	await.Wake(r.urgent)
	return answer
}

// begin records that a Resource Dump begins: it has what there was at all requests until now.
func (r *requests) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answering, r.waiting = append(r.answering, r.waiting...), nil
}

// waits reports whether the dump of a request has not begun yet.
func (r *requests) waits(request chan outcome) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.waiting, request)
}

// answer answers the requests of the dump that has ended. An error answers all of them.
func (r *requests) answer(o outcome) {
	r.mu.Lock()
	ended := r.answering
	r.answering = nil
	if o.Err != nil {
		ended, r.waiting = append(ended, r.waiting...), nil
	}
	r.mu.Unlock()
	for _, request := range ended {
		request <- o // which has room
	}
}

// Answer ends the answer to a request for a dump.
type Answer struct {
	Progress
	Done bool `json:"done"`
	// At is the moment of the dump, Error the reason for its absence.
	At    time.Time `json:"at,omitzero"`
	Error string    `json:"error,omitempty"`
}

func answerOf(o outcome) Answer {
	a := Answer{Progress: o.Progress, Done: true, At: o.At}
	if o.Err != nil {
		a.Error = o.Err.Error()
	}
	return a
}

// ReadAnswer reads the answer to a request for a dump, and reports each Progress to tell.
func ReadAnswer(r io.Reader, tell func(Progress)) (Answer, error) {
	in := json.NewDecoder(r)
	for {
		var a Answer
		if err := in.Decode(&a); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return a, err
		}
		if a.Done {
			return a, nil
		}
		tell(a.Progress)
	}
}
