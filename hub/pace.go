package hub

import (
	"errors"
	"sync"
	"time"

	"carillon/internal/standing"
	"carillon/subscription"
	"carillon/topic"
)

// maxBadPings is how many topics of a site in bad standing may wait to be fetched; topics known to be
// wanted do not count.
const maxBadPings = 100

// pace has the sites of topics that do not name this hub, or do not answer, asked seldom:
// by checks and by fetches together (see package standing). Its methods may be called
// from any goroutine.
type pace struct {
	mu   sync.Mutex
	book *standing.Book // owned by mu
}

func newPace() *pace { return &pace{book: standing.NewBook(standing.Config{})} }

// turn takes the turn of a topic's site to be asked. The error says when to come again.
func (p *pace) turn(at topic.Address) error {
	site := topic.Site(at.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.book.Turn(site, time.Now()); wait > 0 {
		return &subscription.Later{Err: errTopicBusy, After: wait}
	}
	return nil
}

// note keeps the outcome of asking a topic.
func (p *pace) note(at topic.Address, err error) {
	site := topic.Site(at.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.book.Succeeded(site)
	} else {
		p.book.Failed(site, errors.Is(err, ErrTopicAway))
	}
}

// bad reports whether a site is in bad standing.
func (p *pace) bad(site string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.book.Bad(site)
}
