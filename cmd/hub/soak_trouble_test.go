package main

import (
	"syscall"
	"time"

	"carillon/internal/redistest"
)

// signatures are the methods that processes sign with, in turn.
var signatures = []string{"sha256", "sha384", "sha512", "sha1"}

// start starts a hub in a place, whose engine fails by the seed. The hub signs by a method
// of its own, so that its signatures show which process sent a request.
func (s *soak) start(i int, seed uint64) {
	sender := &soakSender{place: i}
	s.locked(func() {
		sender.method = s.freeMethod()
		s.senders = append(s.senders, sender)
	})
	sender.process = s.startHub(seed, "--signature", sender.method)
	s.hubs[i] = sender.process
	s.updateHubs()
}

// updateHubs says which hubs are up.
func (s *soak) updateHubs() {
	s.locked(func() {
		s.up = nil
		for _, p := range s.hubs {
			if p != nil {
				s.up = append(s.up, "http://"+p.ready["listen"]+s.hubURL[len("http://127.0.0.1:9"):])
			}
		}
	})
}

// killHub kills one and starts another in its place.
func (s *soak) killHub(i int) {
	s.t.Helper()
	s.replaceHub(i, s.seeds.Uint64())
}

// replaceHub kills one and starts another in its place, whose engine fails by the seed.
func (s *soak) replaceHub(i int, seed uint64) {
	s.t.Helper()
	s.hubs[i].kill()
	s.silence(i, 1)
	s.hubs[i] = nil
	s.updateHubs()
	s.start(i, seed)
}

// stopHub ends one as an operator does, while everything fails, and starts another in
// its place.
func (s *soak) stopHub(i int) {
	s.t.Helper()
	p := s.hubs[i]
	s.hubs[i] = nil
	s.updateHubs()
	s.locked(func() { s.trouble(s.senderAt(i), 0) })
	if err := p.stop(s.t); err != nil {
		s.t.Errorf("hub %d ended with %v after SIGTERM; want status 0\n%s", i, err, p.log)
	}
	s.silence(i, 0)
	s.start(i, s.seeds.Uint64())
}

// killRedis kills the server and starts it again on its files.
func (s *soak) killRedis(redis *redistest.Server) {
	s.t.Helper()
	redis.Kill(s.t)
	s.locked(func() { s.trouble(nil, 1) })
	<-time.After(time.Duration(s.random.IntN(500)) * time.Millisecond)
	redis.Restart(s.t)
	s.locked(func() { s.trouble(nil, 0) })
}

// pauseHub stops one for longer than its leases last, and lets it go on.
func (s *soak) pauseHub(i int) {
	s.t.Helper()
	signal(s.t, s.hubs[i], syscall.SIGSTOP)
	s.silence(i, 0)
	<-time.After(time.Second + time.Duration(s.random.IntN(1500))*time.Millisecond)
	s.locked(func() {
		sender := s.senderAt(i)
		sender.silent[len(sender.silent)-1].to = s.trouble(sender, 0)
	})
	signal(s.t, s.hubs[i], syscall.SIGCONT)
}

// silence records that the process of a place sends nothing from now on, and counts kills.
func (s *soak) silence(place, kills int) {
	s.locked(func() {
		sender := s.senderAt(place)
		sender.silent = append(sender.silent, soakSilence{from: s.trouble(sender, kills)})
	})
}

// trouble records a trouble of a process, or of all where it is nil, counts kills, and
// returns the time. mu is held.
func (s *soak) trouble(of *soakSender, kills int) time.Time {
	now := time.Now()
	s.troubles = append(s.troubles, soakOutage{now, of})
	s.kills += kills
	return now
}

// calmHubs ends the faults of the hubs that run.
func (s *soak) calmHubs() {
	s.t.Helper()
	for _, p := range s.hubs {
		signal(s.t, p, calmDown)
	}
}
