package dispatch

import (
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
)

// Single failed attempts are logged at level debug only. An operator needs to know which hosts have
// begun to fail, and that they work again: one line for each, within bounds, as strangers choose the
// hosts.
const (
	// hostFailsAfter is how many attempts to a host must fail in a row before a line reports it.
	hostFailsAfter = 5
	// hostRests is how long after its recovery a host is not reported again.
	hostRests = 10 * time.Minute
	// maxHostLines bounds the lines of a minute. A host beyond it is reported later, if it still fails
	// then.
	maxHostLines = 20
)

// hostTrouble is what is known of how a host does. Guarded by table.mu.
type hostTrouble struct {
	failed int32 // attempts in a row
	told   bool
	rests  int64 // no line before then
}

// hostLines counts the lines of the minute. Guarded by table.mu.
type hostLines struct {
	since int64
	n     int
}

// hostNews is a line about a host, to be written without the mutex; an empty host stands for no line.
type hostNews struct {
	host   string
	failed int32 // 0: it works again
	class  delivery.Class
	status int
}

// watch learns from an outcome how a host does, and returns the line to be written. mu is held.
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
