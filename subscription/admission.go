package subscription

import (
	"fmt"
	"time"

	"carillon/internal/standing"
)

// renewalShare is which part of MaxPending is kept for those whose subscription stands.
const renewalShare = 10

// aroundFactor is how many times as much as one client the /48 network of IPv6 around it
// may have: a provider may give all of it to one customer.
const aroundFactor = 4

// errBad is the ErrHostBusy of a site in bad standing.
var errBad = fmt.Errorf("%w, which refuses or does not answer", ErrHostBusy)

// enter takes a slot among the pending for a request, until release is called. Known: the
// subscription stands.
func (d *docket) enter(r Request, client string, known bool) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := waitsFor(r, firstStep(r.Mode))
	// One that replaces another needs no room, nor does a request of another
	// process's shard, which is not kept here, in all.
	if d.jobs[r.ID] == nil {
		if d.shards[ShardOf(r.ID)] != nil && d.full(known) {
			return nil, ErrBusy
		}
		if err := d.crowded(r, at, client); err != nil && !known {
			return nil, err
		}
	}
	d.reserved++
	d.waits.count(at, r.Topic, client, 1)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reserved--
		d.waits.count(at, r.Topic, client, -1)
	}, nil
}

// full reports whether there is no room for one more. The caller holds mu.
func (d *docket) full(known bool) bool {
	room := d.cfg.MaxPending
	if !known {
		room -= room / renewalShare
	}
	return len(d.jobs)+d.reserved >= room
}

// crowded reports whether there is no room for one more of the client or for the sites;
// at is whom the request would wait for first. The caller holds mu.
func (d *docket) crowded(r Request, at laneKey, client string) error {
	if client != "" && d.waits.clients[client] >= d.cfg.MaxPendingPerClient ||
		d.waits.clients[standing.Around(client)] >= d.cfg.MaxPendingPerClient*aroundFactor {
		return &Later{ErrClientBusy, d.cfg.RetryFirst}
	}
	asked := []laneKey{callbackLane(r.Callback)}
	if at.peer == peerTopic {
		asked = append(asked, at)
		if d.waits.topics[r.Topic] == 0 && d.waits.distinct[at.site] >= d.cfg.MaxPendingTopics {
			return &Later{ErrHostBusy, d.cfg.RetryFirst}
		}
	}
	for _, site := range asked {
		switch waiting := d.waits.sites[site]; {
		case waiting >= d.cfg.MaxPendingPerHost:
			return &Later{ErrHostBusy, d.cfg.RetryFirst}
		case d.queue.bad(site) && waiting >= d.cfg.MaxPendingBad:
			// One place comes free in BadEvery, and others wait for it too.
			return &Later{errBad, time.Duration(d.cfg.MaxPendingBad/4+1) * d.cfg.BadEvery}
		}
	}
	return nil
}

// reserve takes a place among the pending for a notice, unless they are too many.
func (d *docket) reserve(id ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs[id] == nil && d.full(false) {
		return false
	}
	d.reserved++
	return true
}

func (d *docket) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
}
