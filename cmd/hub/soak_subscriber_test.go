package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// soakSubscriber is one callback for one topic. Fields that change are guarded by the soak's mu, until
// the audit.
type soakSubscriber struct {
	soak        *soak
	name, topic string
	topicURL    string
	callback    string
	random      *rand.Rand // of its own goroutine
	// witness: it is there from before the first publication to the end, on a healthy
	// host. restless: it leaves and comes back. All others renew.
	witness, restless bool

	want    string          // the mode that it stands by
	sure    int             // answers that confirmed and were not lost
	periods []*soakPeriod   // from each coming to the next leaving
	got     []soakArrival   // in the order of arrival
	seen    map[string]bool // ids
}

// soakPeriod is a time of being subscribed. Several requests in it, each with a
// secret of its own, are one subscription.
type soakPeriod struct {
	secrets   []string
	used      int // secrets that a delivery was signed with
	confirmed []time.Time
	// settled is when the subscriber had all that was accepted, and so chose to
	// leave; zero: it left in a hurry, or stayed.
	settled time.Time
	left    bool
}

// live is what a subscriber does, once it is subscribed, until stop is closed.
func (u *soakSubscriber) live(stop <-chan struct{}) {
	for u.rest(stop, 600*time.Millisecond, 2500*time.Millisecond) {
		if !u.restless || u.random.IntN(2) == 0 {
			u.subscribe()
			continue
		}
		u.leave(u.random.IntN(3) > 0)
		u.rest(stop, 0, 500*time.Millisecond)
		u.come()
	}
}

// rest waits for some time between the two, and reports whether life goes on.
func (u *soakSubscriber) rest(stop <-chan struct{}, least, most time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(least + time.Duration(u.random.Int64N(int64(most-least)))):
		return true
	}
}

// come begins a period.
func (u *soakSubscriber) come() {
	u.soak.locked(func() { u.periods = append(u.periods, &soakPeriod{}) })
	u.subscribe()
}

// subscribe asks for the subscription with a new secret, until a delivery is signed with it. A
// confirmation proves less: a hub may be killed before it has stored it, asks again, and that answer
// may be lost. Only a witness relies on the confirmation, as it comes before all publications and all
// faults.
func (u *soakSubscriber) subscribe() {
	s, n, secret, sure := u.soak, 0, "", 0
	p := u.periods[len(u.periods)-1]
	s.locked(func() {
		n, sure = len(p.secrets), u.sure
		secret = fmt.Sprintf("%s period %d secret %d", u.name, len(u.periods), n)
		p.secrets = append(p.secrets, secret)
	})
	u.ask("subscribe", url.Values{"hub.secret": {secret}}, func() bool {
		return p.used > n || u.witness && u.sure > sure
	})
}

// leave ends a period: in a hurry, or when all has come that was accepted.
func (u *soakSubscriber) leave(patient bool) {
	s, p := u.soak, u.periods[len(u.periods)-1]
	if patient {
		now := time.Now()
		var missing []*soakPublication
		s.locked(func() { missing = u.missing(p, now) })
		if s.wait(5*time.Second, func() bool { return u.haveCome(&missing) }) {
			s.locked(func() { p.settled = now })
		}
	}
	sure := 0
	s.locked(func() { sure = u.sure })
	u.ask("unsubscribe", nil, func() bool { return u.sure > sure })
	s.locked(func() { p.left = true })
}

// ask makes a request again and again until it is done.
func (u *soakSubscriber) ask(mode string, more url.Values, done func() bool) {
	s := u.soak
	form := url.Values{"hub.mode": {mode}, "hub.topic": {u.topicURL}, "hub.callback": {u.callback}}
	for name, values := range more {
		form[name] = values
	}
	s.locked(func() { u.want = mode })
	for end := time.Now().Add(soakPatience); time.Now().Before(end); {
		status, _, err := s.post(u.random.Int(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode(), soakPatience)
		if err == nil && status == http.StatusAccepted && s.wait(2*time.Second*slowness, done) {
			return
		}
		<-time.After(soakPause)
	}
	s.locked(func() { s.faultf("%s: its request to %s came to nothing within %s", u.name, mode, soakPatience) })
}

// began is from when on everything must come in a period: the last confirmation
// before the first delivery, since an earlier one may have been in vain. The zero time:
// it never did for sure. mu is held.
func (u *soakSubscriber) began(p *soakPeriod) (began time.Time) {
	first := time.Now()
	for _, a := range u.got {
		if u.periods[a.period] == p {
			first = a.at
			break
		}
	}
	for _, c := range p.confirmed {
		if c.Before(first) {
			began = c
		}
	}
	return began
}

// missing are those accepted until then that must have come in the period and have
// not. mu is held.
func (u *soakSubscriber) missing(p *soakPeriod, until time.Time) (missing []*soakPublication) {
	began := u.began(p)
	if began.IsZero() {
		return nil
	}
	for _, n := range u.soak.accepted[u.topic] {
		if n.begun.After(began) && n.answered.Before(until) && !u.seen[n.id] {
			missing = append(missing, n)
		}
	}
	return missing
}

// haveCome takes those that have come from the list, and reports whether all have. mu
// is held.
func (u *soakSubscriber) haveCome(missing *[]*soakPublication) bool {
	for len(*missing) > 0 && u.seen[(*missing)[0].id] {
		*missing = (*missing)[1:]
	}
	return len(*missing) == 0
}
