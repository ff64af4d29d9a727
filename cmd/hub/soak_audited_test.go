package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
		u.got = append(u.got, soakArrival{id: fmt.Sprint("id ", i), body: fmt.Sprint("body ", i), at: began.Add(time.Duration(i)*time.Second + 50*time.Millisecond)})
	}
	return s, u, began
}

// The audit holds the order of the log, which is the same for all, against that of
// acceptance.
func TestSoakAuditOrder(t *testing.T) {
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

// What came again is excused by a trouble that began between the two, just after the
// first, and by no other.
func TestSoakAuditDuplicates(t *testing.T) {
	for _, c := range []struct {
		name           string
		again, trouble time.Duration // after the first
		excused        bool
	}{
		{"a trouble between", 2 * time.Second, time.Second, true},
		{"the last that a dead process sent", time.Second, -soakLate / 2, true},
		{"a trouble before", time.Second, -2 * soakLate, false},
		{"a trouble after", 10 * time.Millisecond, 20 * time.Millisecond, false},
		{"a trouble when it was saved long ago", 2 * soakUnsaved, soakUnsaved + time.Second, false},
	} {
		s, u, _ := audited(topicPlain, 1, 0, 0)
		first := u.got[0].at
		u.got[1].at = first.Add(c.again)
		s.troubles = []time.Time{first.Add(c.trouble)}
		a := &soakAudit{}
		s.auditDuplicates(a, u)
		if a.duplicates != 1 || (a.troubled == 1) != c.excused || (len(s.failures) == 0) != c.excused {
			t.Errorf("%s: %+v, %q", c.name, *a, strings.Join(s.failures, "; "))
		}
	}
}
