package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"carillon/subscription"
)

// audited is a soak of one topic with a witness, where n publications a second apart were
// accepted and came in this order.
func audited(topic string, n int, came ...int) (*soak, *soakSubscriber, time.Time) {
	began := time.Now().Add(-time.Hour)
	s := &soak{
		subscribers: map[string]*soakSubscriber{}, published: map[string]map[string]int{topic: {}},
		accepted: map[string][]*soakPublication{},
	}
	u := &soakSubscriber{soak: s, name: topic + "-0-steady", topic: topic, seen: map[string]bool{}, periods: []*soakPeriod{{secrets: []string{""}}}}
	s.subscribers[u.name] = u
	for i := range n {
		at, body := began.Add(time.Duration(i)*time.Second), fmt.Sprint("body ", i)
		s.published[topic][body] = i + 1
		s.accepted[topic] = append(s.accepted[topic], &soakPublication{fmt.Sprint("id ", i), body, at, at.Add(10 * time.Millisecond)})
	}
	for _, i := range came {
		u.got = append(
			u.got,
			soakArrival{id: fmt.Sprint("id ", i), body: fmt.Sprint("body ", i), at: began.Add(time.Duration(i)*time.Second + 50*time.Millisecond)},
		)
	}
	return s, u, began
}

// The audit holds the order of the log, which is the same for all, against that of
// acceptance.
func TestSoakAuditOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		topic string
		came  []int
		want  int
	}{
		{topicPlain, []int{0, 1, 2, 3}, 0},
		{topicPlain, []int{0, 2, 1, 3}, 1},
		{topicPlain, []int{3, 0, 1, 2}, 1},
		{topicPlain, []int{0, 1, 2, 1, 2, 3}, 0}, // twice, but first in order
		{topicChain, []int{0, 1, 2, 3}, 0},
		{topicChain, []int{0, 2, 1, 3}, 2}, // against the order of acceptance, and of beginnings
	} {
		s, _, _ := audited(c.topic, 4, c.came...)
		s.auditTopic(&soakAudit{}, c.topic)
		if len(s.failures) != c.want {
			t.Errorf("%s %v: got %q, want %d failures", c.topic, c.came, s.failures, c.want)
		}
	}
	s, _, began := audited(topicPlain, 2, 1, 0)
	s.accepted[topicPlain][0].answered = began.Add(2 * time.Second)
	if s.auditTopic(&soakAudit{}, topicPlain); len(s.failures) != 0 {
		t.Errorf("of two at the same time, either may be the first: %q", s.failures)
	}
}

// The audit accepts what came again where something explains it: a trouble of one of the
// two senders soon after the first was sent, or the first sender's report that it lost the
// subscriber's shard.
func TestSoakAuditDuplicates(t *testing.T) {
	t.Parallel()
	const soon = soakUnsaved / 2
	one, two, three := &soakSender{place: 0}, &soakSender{place: 1}, &soakSender{place: 2}
	for _, c := range []struct {
		name       string
		restless   bool
		again      time.Duration // after the first, as all times here
		by, of     *soakSender   // the second's sender, and that which suffers the trouble; nil: all
		trouble    time.Duration
		lost       time.Duration // when one lost the shard; 0: never
		other      bool          // it was another shard
		silent, to time.Duration // when one was; 0, 0: never
		excused    bool
	}{
		{name: "a trouble of the first's sender between", again: 2 * soon, by: two, of: one, trouble: soon, excused: true},
		{name: "a trouble of all between", again: 2 * soon, by: one, trouble: soon, excused: true},
		{name: "a trouble of the second's sender between", again: 2 * soon, by: two, of: two, trouble: soon, excused: true},
		{name: "a trouble of another", again: 2 * soon, by: two, of: three, trouble: soon},
		{name: "a trouble of another, of a restless one", restless: true, again: 2 * soon, by: two, of: three, trouble: soon, excused: true},
		{name: "a trouble before", again: soon, by: two, of: one, trouble: -time.Millisecond},
		{name: "a trouble after", again: soon, by: two, of: one, trouble: soon + time.Millisecond},
		{name: "a trouble when it was saved long ago", again: 3 * soakUnsaved, by: two, of: one, trouble: 2 * soakUnsaved},
		{name: "read late, when its sender was dead", again: 2 * soon, by: two, of: one, trouble: -soon, silent: -soon, excused: true},
		{name: "read late, when its sender was stopped", again: 2 * soon, by: two, of: one, trouble: -soon, silent: -soon, to: time.Millisecond, excused: true},
		{name: "sent when its sender had gone on", again: 2 * soon, by: two, of: one, trouble: -soon, silent: -soon, to: -time.Millisecond},
		{name: "its shard was lost between", again: 2 * soon, by: one, of: three, lost: soon, excused: true},
		{name: "its shard was lost, as its sender learned later", again: soon / 2, by: two, of: three, lost: soon, excused: true},
		{name: "its shard was lost after the same had sent both", again: soon / 2, by: one, of: three, lost: soon},
		{name: "its shard was lost long after it was saved", again: 3 * soakUnsaved, by: two, of: three, lost: 2 * soakUnsaved},
		{name: "its shard was lost before", again: soon, by: two, of: three, lost: -time.Millisecond},
		{name: "another shard was lost", again: 2 * soon, by: two, of: three, lost: soon, other: true},
	} {
		s, u, _ := audited(topicPlain, 1, 0, 0)
		u.restless = c.restless
		first := u.got[0].at
		u.got[0].by, u.got[1].by, u.got[1].at = one, c.by, first.Add(c.again)
		s.troubles = []soakOutage{{first.Add(c.trouble), c.of}}
		if one.silent = nil; c.silent != 0 {
			one.silent = []soakSilence{{from: first.Add(c.silent)}}
		}
		if c.to != 0 {
			one.silent[0].to = first.Add(c.to)
		}
		if c.lost != 0 {
			shard := subscription.ShardOf(subscription.NewID(u.topicURL, u.callback))
			if c.other {
				shard = (shard + 1) % subscription.Shards
			}
			s.losses = map[*soakSender]map[subscription.Shard][]time.Time{one: {shard: {first.Add(c.lost)}}}
		}
		a := &soakAudit{}
		s.auditDuplicates(a, u)
		if a.duplicates != 1 || (a.troubled+a.lostShards == 1) != c.excused || (len(s.failures) == 0) != c.excused {
			t.Errorf("%s: %+v, %q", c.name, *a, strings.Join(s.failures, "; "))
		}
	}
}

// The processes of a soak sign by methods that tell them apart, also from the process before
// each, and their logs say which shards they lost.
func TestSoakSenders(t *testing.T) {
	t.Parallel()
	s := &soak{hubs: make([]*process, 3), random: rand.New(rand.NewPCG(1, 2))}
	for n := range 50 {
		sender := &soakSender{place: n % 3, method: s.freeMethod()}
		for i := range s.hubs {
			if other := s.senderAt(i); other != nil && other.method == sender.method {
				t.Fatalf("process %d signs by %s, as that of place %d does", n, sender.method, i)
			}
		}
		if s.senders = append(s.senders, sender); s.sender(sender.method+"=00") != sender {
			t.Fatalf("process %d is not known by its signature", n)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	p := &process{log: &logText{}}
	logger := slog.New(slog.NewJSONHandler(p.log, nil))
	for i, msg := range soakLosses {
		r := slog.NewRecord(at, slog.LevelWarn, msg, 0)
		r.Add("shard", subscription.Shard(i))
		_ = logger.Handler().Handle(t.Context(), r)
	}
	fmt.Fprintln(p.log, "a line of net/http")
	logger.Info("another", "shard", 9)
	losses := p.losses()
	if len(losses) != len(soakLosses) || !losses[2][0].Equal(at) {
		t.Errorf("got the losses %v", losses)
	}
}
