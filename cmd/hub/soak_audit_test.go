package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon/subscription"
)

// soakAudit is what a soak comes to.
type soakAudit struct {
	accepted, delivered, duplicates int
	// Of the duplicates: those whose answer was lost on the way, those that came again
	// after a trouble, and those of a shard that its owner lost. The rest must not be.
	lostAnswers, troubled, lostShards int
	gaps, lost                        int
}

// audit holds what each subscriber got against what was accepted.
func (s *soak) audit() {
	t := s.t
	t.Helper()
	faults, failed := s.faults()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = map[*soakSender]map[subscription.Shard][]time.Time{}
	for _, sender := range s.senders {
		s.losses[sender] = sender.process.losses()
	}
	a := &soakAudit{}
	for _, topic := range soakTopics {
		s.auditTopic(a, topic)
	}
	for _, name := range s.names() {
		u := s.subscribers[name]
		s.auditBodies(u)
		s.auditDuplicates(a, u)
	}
	a.accepted += s.pings
	a.gaps += s.storedGaps()
	t.Logf("soak %s: accepted %d, delivered %d, duplicates %d (answer lost %d, a trouble just after the first %d, a shard lost %d), gaps %d, lost %d; kills %d, faults injected %d, of which %d failed a call or a request (engine by kind: %s)",
		s.engine, a.accepted, a.delivered, a.duplicates, a.lostAnswers, a.troubled, a.lostShards, a.gaps, a.lost,
		s.kills, faults, failed, byKind(s.engineFaults))
	t.Logf("by call: %s", inWords(s.engineFaults))
	for _, failure := range s.failures {
		t.Error(failure)
	}
	if a.lost != 0 || a.gaps != 0 {
		t.Errorf("%d notifications were lost, there are %d gaps; want none", a.lost, a.gaps)
	}
	if unexplained := a.duplicates - a.lostAnswers - a.troubled - a.lostShards; unexplained != 0 {
		t.Errorf("%d notifications came again although nothing had happened", unexplained)
	}
	if s.kills < soakKills || failed < soakFaults {
		t.Errorf("%d kills and %d faults that failed something, want %d and %d", s.kills, failed, soakKills, soakFaults)
	}
	if a.accepted < 1000/slowness || a.delivered < 10*a.accepted/4 {
		t.Errorf("%d accepted, %d delivered: the test did not test anything", a.accepted, a.delivered)
	}
}

// auditTopic takes the list of a subscriber that was there all the time for the
// topic's log: all that was accepted is in it, and what everybody else got in a period
// is a stretch of it, from its beginning on.
func (s *soak) auditTopic(a *soakAudit, topic string) {
	witness := s.subscribers[topic+"-0-steady"]
	place := map[string]int{}
	bodies := map[string]int{}
	for _, d := range witness.got {
		if _, again := place[d.id]; !again {
			place[d.id] = len(place)
			bodies[d.body]++
		}
	}
	for _, n := range s.accepted[topic] {
		a.accepted++
		if _, came := place[n.id]; !came {
			a.lost++
			s.faultf("%s: %q was accepted and is not in the log", topic, n.body)
		}
	}
	s.auditAcceptance(topic, place)
	if topic == topicChain {
		s.auditChain(witness)
		for body, n := range bodies {
			if n > 1 {
				s.faultf("a change notification that was repeated came as %d: %s", n, body)
			}
		}
	}
	if last := witness.last().body; topic == topicPings && last != fmt.Sprintf("ping %d", s.pinged) {
		a.lost++
		s.faultf("the last that came of the topic of pings is %q, of %d", last, s.pinged)
	}
	for _, name := range s.names() {
		u := s.subscribers[name]
		if u.topic != topic {
			continue
		}
		a.delivered += len(u.seen)
		s.auditOrder(a, u, place)
		for _, p := range u.periods {
			s.auditPeriod(a, u, p)
		}
	}
}

// auditAcceptance checks that the log is in the order of acceptance: a publication that was answered
// before another began stands before it.
func (s *soak) auditAcceptance(topic string, place map[string]int) {
	answered := slices.SortedFunc(slices.Values(s.accepted[topic]), func(a, b *soakPublication) int { return a.answered.Compare(b.answered) })
	begun := slices.SortedFunc(slices.Values(s.accepted[topic]), func(a, b *soakPublication) int { return a.begun.Compare(b.begun) })
	var last *soakPublication // in the log, of those that were answered before
	for _, n := range begun {
		for len(answered) > 0 && answered[0].answered.Before(n.begun) {
			if last == nil || place[answered[0].id] > place[last.id] {
				last = answered[0]
			}
			answered = answered[1:]
		}
		if at, came := place[n.id]; came && last != nil && at < place[last.id] {
			s.faultf("%s: %q was answered %s before %q was begun, and stands behind it", topic, last.body, n.begun.Sub(last.answered), n.body)
		}
	}
}

// auditChain checks that each change notification begins later than what came before
// it: they were published in the order of their beginnings.
func (s *soak) auditChain(witness *soakSubscriber) {
	before, seen := 0, map[string]bool{}
	for _, d := range witness.got {
		if seen[d.id] {
			continue
		}
		seen[d.id] = true
		at := s.published[topicChain][d.body]
		if at <= before {
			s.faultf("%s: the %d. change notification came behind the %d.", topicChain, at, before)
		}
		before = at
	}
}

// auditOrder checks that the first deliveries of a period are a stretch of the log, in order. Those
// that came in another period are no part of it: a hub may be killed before it has stored that a
// subscriber left, and the next period then goes on with the old subscription.
func (s *soak) auditOrder(a *soakAudit, u *soakSubscriber, place map[string]int) {
	seen, last := map[string]bool{}, make([]int, len(u.periods)) // by period, counted from 1
	for _, d := range u.got {
		if seen[d.id] {
			continue
		}
		seen[d.id] = true
		at, known := place[d.id]
		at++
		before := last[d.period]
		last[d.period] = max(before, at)
		switch {
		case !known:
			s.faultf("%s got %q, which the first subscriber to its topic did not", u.name, d.body)
		case before > 0 && at < before:
			s.faultf("%s, period %d: %q came out of order", u.name, d.period, d.body)
		case before > 0 && at > before+1:
			a.gaps += at - before - 1
			s.faultf("%s, period %d: %d are missing before %q", u.name, d.period, at-before-1, d.body)
		}
	}
}

// auditPeriod checks that what was accepted in a period came.
func (s *soak) auditPeriod(a *soakAudit, u *soakSubscriber, p *soakPeriod) {
	until := p.settled
	if !p.left {
		until = time.Now()
	}
	if until.IsZero() {
		return // deliveries on their way when it left may have stayed behind
	}
	if last := u.last(); !p.left && (u.periods[last.period] != p || last.secret != len(p.secrets)-1) {
		s.faultf("%s changed its secret, and the last that it got is signed with an old one", u.name)
	}
	missing := u.missing(p, until)
	a.lost += len(missing)
	for _, n := range missing {
		s.faultf("%s never got %q, which was accepted while it was subscribed", u.name, n.body)
	}
}

// auditBodies checks that what came was published, and under one id.
func (s *soak) auditBodies(u *soakSubscriber) {
	accepted, bodies := map[string]string{}, map[string]string{}
	for _, n := range s.accepted[u.topic] {
		accepted[n.id] = n.body
	}
	for _, d := range u.got {
		var number int
		_, isPing := fmt.Sscanf(d.body, "ping %d", &number)
		switch {
		case u.topic == topicPings && (isPing != nil || number > s.pinged),
			u.topic != topicPings && s.published[u.topic][d.body] == 0:
			s.faultf("%s got %q, which nobody published", u.name, d.body)
		case accepted[d.id] != "" && accepted[d.id] != d.body, bodies[d.id] != "" && bodies[d.id] != d.body:
			s.faultf("%s got %q as %s, which is another", u.name, d.body, d.id)
		}
		bodies[d.id] = d.body
	}
}

// soakUnsaved bounds how long before a trouble something had come that comes again:
// positions are saved that often, and a Save that fails is repeated.
const soakUnsaved = flushInterval + diskSlack*slowness

// auditDuplicates looks for what explains that something came again: an answer that was
// lost, a trouble of the first sender's or the second's that began between the two, or the
// first sender's report that it lost the shard. The last two follow soon on the first.
func (s *soak) auditDuplicates(a *soakAudit, u *soakSubscriber) {
	before := map[string]soakArrival{}
	for _, d := range u.got {
		first, again := before[d.id]
		before[d.id] = d
		if !again {
			continue
		}
		a.duplicates++
		switch {
		case first.lost:
			a.lostAnswers++
		case s.troubled(u, &first, &d):
			a.troubled++
		case s.lostShard(u, &first, &d):
			a.lostShards++
		default:
			s.faultf("%s got %q from hub %d and again from hub %d (another process: %t) after %s; %s",
				u.name, d.body, first.by.place, d.by.place, first.by != d.by, d.at.Sub(first.at), s.nearest(first.at))
		}
	}
}

// soon reports whether something was so soon after an arrival was sent that the arrival
// may not have been saved.
func (a *soakArrival) soon(at time.Time) bool {
	since := at.Sub(a.sent())
	return 0 <= since && since < soakUnsaved
}

// troubled reports whether a trouble explains that something came again. A restless
// subscriber comes back by requests that any hub serves, so the trouble of any hub counts.
func (s *soak) troubled(u *soakSubscriber, first, again *soakArrival) bool {
	return slices.ContainsFunc(s.troubles, func(trouble soakOutage) bool {
		its := u.restless || trouble.of == nil || trouble.of == first.by || trouble.of == again.by
		return its && trouble.at.Before(again.at) && first.soon(trouble.at)
	})
}

// lostShard reports whether the first sender lost the subscriber's shard and said so.
// Where another process sent the second, the shard had gone before it, and the first
// sender may learn that later.
func (s *soak) lostShard(u *soakSubscriber, first, again *soakArrival) bool {
	losses := s.losses[first.by][subscription.ShardOf(subscription.NewID(u.topicURL, u.callback))]
	return slices.ContainsFunc(losses, func(at time.Time) bool {
		return first.soon(at) && (at.Before(again.at) || first.by != again.by)
	})
}

// nearest reports when the trouble next to an arrival was, as it excuses nothing.
func (s *soak) nearest(at time.Time) string {
	if len(s.troubles) == 0 {
		return "there was no trouble"
	}
	next := slices.MinFunc(s.troubles, func(a, b soakOutage) int { return cmp.Compare(a.at.Sub(at).Abs(), b.at.Sub(at).Abs()) })
	whose := "of all hubs"
	if next.of != nil {
		whose = fmt.Sprintf("of hub %d", next.of.place)
	}
	return fmt.Sprintf("the nearest trouble, %s, was %s after the first arrival", whose, next.at.Sub(at))
}

// last is what came last. mu is held.
func (u *soakSubscriber) last() (last soakArrival) {
	if len(u.got) > 0 {
		last = u.got[len(u.got)-1]
	}
	return last
}

// storedGaps counts the gaps that the engine has recorded.
func (s *soak) storedGaps() (gaps int) {
	t := s.t
	t.Helper()
	var f storeFlags
	f.Store = s.args[slices.Index(s.args, "--store")+1]
	e, err := openStore(t.Context(), f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, u := range s.subscribers {
		stored, err := e.Cursors.Gaps(t.Context(), subscription.NewID(u.topicURL, u.callback), 100)
		if err != nil {
			t.Fatal(err)
		}
		gaps += len(stored)
		for _, g := range stored {
			s.faultf("%s has a gap from %d to %d: %s", u.name, g.First, g.Last, g.Reason)
		}
	}
	return gaps
}

// byKind sums the counts of "call kind" up by kind.
func byKind(counts map[string]int) string {
	kinds := map[string]int{}
	for name, n := range counts {
		_, kind, _ := strings.Cut(name, " ")
		kinds[kind] += n
	}
	return inWords(kinds)
}

func inWords(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
