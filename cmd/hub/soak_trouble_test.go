package main

import (
	"syscall"
	"time"

	"carillon/internal/redistest"
)

// signatures are the methods that processes sign with, in turn.
var signatures = []string{"sha256", "sha384", "sha512", "sha1"}

// start starts a hub in a place, whose engine fails by the seed.
func (s *soak) start(i int, seed uint64) {
	s.hubs[i] = s.startHub(seed, "--signature", signatures[s.random.IntN(len(signatures))])
	s.tell()
}

// tell says which hubs are up.
func (s *soak) tell() {
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
	s.trouble(1)
	s.hubs[i] = nil
	s.tell()
	s.start(i, seed)
}

// stopHub ends one as an operator does, while everything fails, and starts another in
// its place.
func (s *soak) stopHub(i int) {
	s.t.Helper()
	p := s.hubs[i]
	s.hubs[i] = nil
	s.tell()
	s.trouble(0)
	if err := p.stop(s.t); err != nil {
		s.t.Errorf("hub %d ended with %v after SIGTERM; want status 0\n%s", i, err, p.log)
	}
	s.trouble(0)
	s.start(i, s.seeds.Uint64())
}

// killRedis kills the server and starts it again on its files.
func (s *soak) killRedis(redis *redistest.Server) {
	s.t.Helper()
	redis.Kill(s.t)
	s.trouble(1)
	<-time.After(time.Duration(s.random.IntN(500)) * time.Millisecond)
	redis.Restart(s.t)
	s.trouble(0)
}

// pauseHub stops one for longer than its leases last, and lets it go on.
func (s *soak) pauseHub(i int) {
	s.t.Helper()
	signal(s.t, s.hubs[i], syscall.SIGSTOP)
	s.trouble(0)
	<-time.After(time.Second + time.Duration(s.random.IntN(1500))*time.Millisecond)
	s.trouble(0)
	signal(s.t, s.hubs[i], syscall.SIGCONT)
}

// trouble notes that something of it is now, and with so many kills.
func (s *soak) trouble(kills int) {
	s.locked(func() {
		s.troubles = append(s.troubles, time.Now())
		s.kills += kills
	})
}

// calmHubs ends the faults of the hubs that run.
func (s *soak) calmHubs() {
	s.t.Helper()
	for _, p := range s.hubs {
		signal(s.t, p, calmDown)
	}
}
