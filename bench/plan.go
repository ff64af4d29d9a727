package main

import "time"

// plan is how much is measured.
type plan struct {
	// throughput
	callbacks    int // subscriptions to the topic of the publications
	publications int // in each round of a hub
	publishers   int // that publish these
	checked      int // publications of the round that is checked and not measured
	loopShare    int // the net/http loop makes one request for so many deliveries
	connections  int // of the bare loops
	bodyBytes    int // of every notification
	rounds       int // each runs every contestant once; also of the publishers
	rest         time.Duration

	// million
	subscriptions int
	settle        time.Duration // until the memory of a hub at rest is read
	quiet         int           // publications to each of the three topics while all callbacks hang
	loaded        int           // and while deliveries run
	loadedEvery   time.Duration

	writers   int           // publishers: how many publish at once
	roundFor  time.Duration // long enough that the stores do what they put off
	roundRest time.Duration // before each round

	// neighbors
	healthyHosts int
	crowdRounds  int
	bursts       int // in each round
	burstEvery   time.Duration

	firsts   int // first: publications to an idle hub
	mirrored int // mirror: files

	// tls
	hostShare  int           // one of so many of the hosts that the figures are named for
	tlsRounds  int           // later rounds
	tlsSettle  time.Duration // after a round, within what is measured
	closeAfter time.Duration // a host that closes connections does so after this time
	closePause time.Duration // after that, before the next round
}

var fullPlan = plan{
	callbacks: 10_000, publications: 25, publishers: 4, checked: 10, loopShare: 3,
	connections: 128, bodyBytes: 1024, rounds: 5, rest: 5 * time.Second,
	subscriptions: 1_000_000, settle: 5 * time.Second,
	quiet: 1000, loaded: 600, loadedEvery: 10 * time.Millisecond,
	writers: 64, roundFor: 5 * time.Second, roundRest: 2 * time.Second,
	healthyHosts: 100, crowdRounds: 2, bursts: 14, burstEvery: 500 * time.Millisecond,
	firsts: 200, mirrored: 100_000,
	hostShare: 1, tlsRounds: 3, tlsSettle: time.Second,
	closeAfter: time.Second, closePause: 500 * time.Millisecond,
}

var quickPlan = plan{
	callbacks: 100, publications: 3, publishers: 2, checked: 3, loopShare: 1,
	connections: 8, bodyBytes: 1024, rounds: 1, rest: 100 * time.Millisecond,
	subscriptions: 1000, settle: 0,
	quiet: 5, loaded: 5, loadedEvery: 5 * time.Millisecond,
	writers: 4, roundFor: 100 * time.Millisecond, roundRest: 10 * time.Millisecond,
	healthyHosts: 20, crowdRounds: 1, bursts: 2, burstEvery: 100 * time.Millisecond,
	firsts: 3, mirrored: 100,
	hostShare: 100, tlsRounds: 1, tlsSettle: 10 * time.Millisecond,
	closeAfter: 50 * time.Millisecond, closePause: 100 * time.Millisecond,
}

// Shares of the callbacks that are in trouble, of 100.
const (
	hanging, refusing, failing = 10, 5, 5
	slowing                    = 30
)

// hosts is the number of the sink's hosts: the healthy ones, and one for each sick callback.
func (p plan) hosts() int {
	return p.healthyHosts + p.callbacks*(hanging+refusing+failing)/100
}
