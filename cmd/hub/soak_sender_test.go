package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"carillon/subscription"
)

// soakSender is one process that delivers.
type soakSender struct {
	place   int // in soak.hubs
	method  string
	process *process
	silent  []soakSilence
}

// soakSilence is a time in which a process sends nothing, as it is stopped or dead. It
// has no end where to is zero.
type soakSilence struct{ from, to time.Time }

// soakOutage is one moment after which something may come again.
type soakOutage struct {
	at time.Time
	of *soakSender // the process that suffers it; nil: all do
}

// freeMethod returns a signature method that no process of a place uses, and neither does the process
// that was last in a place: its last requests may be read yet. mu is held.
func (s *soak) freeMethod() string {
	free := slices.Clone(signatures)
	for i := range s.hubs {
		if sender := s.senderAt(i); sender != nil {
			free = slices.DeleteFunc(free, func(method string) bool { return method == sender.method })
		}
	}
	return free[s.random.IntN(len(free))]
}

// senderAt returns the latest process of a place. mu is held.
func (s *soak) senderAt(place int) *soakSender {
	return s.latest(func(sender *soakSender) bool { return sender.place == place })
}

// sender returns the process that made a signature. mu is held.
func (s *soak) sender(signature string) *soakSender {
	method, _, _ := strings.Cut(signature, "=")
	return s.latest(func(sender *soakSender) bool { return sender.method == method })
}

func (s *soak) latest(is func(*soakSender) bool) *soakSender {
	for _, sender := range slices.Backward(s.senders) {
		if is(sender) {
			return sender
		}
	}
	return nil
}

// sent returns when an arrival was sent at the latest. A test process that is short of
// CPU time reads it later: its sender may be dead or stopped by then.
func (a *soakArrival) sent() time.Time {
	if a.by != nil {
		for _, silence := range a.by.silent {
			if a.at.After(silence.from) && (silence.to.IsZero() || a.at.Before(silence.to)) {
				return silence.from
			}
		}
	}
	return a.at
}

// soakLosses are the log messages by which a hub reports that it lost a shard, and that what it
// delivered of it last may come again.
var soakLosses = []string{
	"a shard was lost with positions not saved: some deliveries will come twice",
	"a shard was lost with attempts under way: what they deliver may come twice",
	"a shard has another owner by now",
}

// losses returns when a process lost a shard in one of these ways, by the process's own log.
func (p *process) losses() map[subscription.Shard][]time.Time {
	all := map[subscription.Shard][]time.Time{}
	for line := range strings.Lines(p.log.String()) {
		var entry struct {
			Time  time.Time
			Msg   string
			Shard subscription.Shard
		}
		if json.Unmarshal([]byte(line), &entry) == nil && slices.Contains(soakLosses, entry.Msg) {
			all[entry.Shard] = append(all[entry.Shard], entry.Time)
		}
	}
	return all
}
