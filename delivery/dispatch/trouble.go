package dispatch

import (
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
)

// Failed attempts are told one by one at level debug only. What an operator wants to know is
// which hosts have begun to fail, and that they work again: a line for each, with bounds, as
// strangers choose the hosts.
const (
	// hostFailsAfter is how many attempts to a host in a row fail, none succeeding, until it
	// is told of.
	hostFailsAfter = 5
	// hostRests is for how long a host that works again is not told of anew.
	hostRests = 10 * time.Minute
	// maxHostLines bounds the lines of a minute. Who finds no room is told of later, if it
	// still fails then.
	maxHostLines = 20
)

// hostTrouble is what is known of how a host does. Guarded by table.mu.
type hostTrouble struct {
	failed int32 // attempts in a row
	told   bool
	rests  int64 // until then nothing is told
}

// hostLines counts the lines of the minute. Guarded by table.mu.
type hostLines struct {
	since int64
	n     int
}

// hostNews is a line about a host, to be written without the mutex; the host is empty where there
// is none.
type hostNews struct {
	host   string
	failed int32 // 0: it works again
	class  delivery.Class
	status int
}

// watch learns from an outcome how a host does, and returns what is to be told. mu is held.
func (l *hostLines) watch(h *host, o *send.Outcome, now int64) (news hostNews) {
	t := &h.trouble
	switch o.Class {
	case delivery.ClassNone, delivery.ClassGone: // says nothing of the host
	case delivery.ClassDelivered:
		if t.told {
			news = hostNews{host: h.Name()}
			*t = hostTrouble{rests: now + int64(hostRests)}
		}
		t.failed = 0
	default:
		if t.failed++; t.failed >= hostFailsAfter && !t.told && now >= t.rests && l.mayTell(now) {
			t.told = true
			news = hostNews{host: h.Name(), failed: t.failed, class: o.Class, status: o.Status}
		}
	}
	return news
}

// mayTell reports whether there is room for one more line in this minute. mu is held.
func (l *hostLines) mayTell(now int64) bool {
	if now-l.since >= int64(time.Minute) || now < l.since {
		*l = hostLines{since: now}
	}
	l.n++
	return l.n <= maxHostLines
}
