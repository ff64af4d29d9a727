package main

import "time"

// plan is how much is measured.
type plan struct {
	// throughput
	callbacks    int // subscriptions to the topic that is published to
	publications int // in each round of a hub
	publishers   int // that publish these
	checked      int // publications of the round that is not measured
	loopShare    int // the net/http loop makes one request for so many deliveries
	connections  int // of the bare loops
	bodyBytes    int // of every notification that is not stamped
	rounds       int // each runs every contestant once; also of the publishers
	rest         time.Duration

	// million
	subscriptions int
	settle        time.Duration // until the memory of a hub at rest is read
	quiet         int           // publications to each of the three topics while nothing is delivered
	loaded        int           // and while deliveries run
	loadedEvery   time.Duration

	writers   int           // publishers: how many publish at once
	roundFor  time.Duration // and how long in each round: long enough to pay for what the stores put off
	roundRest time.Duration // before each

	// sick, slow
	healthyHosts int
	crowdRounds  int
	bursts       int // in each round
	burstEvery   time.Duration

	firsts  int // publications to an idle hub
	entries int // of a notification; lists: of the middle one

	listRounds int // lists: how often each contestant reads each

	// mirror
	mirrored int // files
	changed  int // of them, by push

	dumpedLarge int // dump: large files

	// retention
	keepBytes   int64
	retainFor   time.Duration
	retainRate  int64 // bytes a second
	retainBytes int   // of a body

	// tls
	hostShare  int           // one of so many of the hosts that the figures are named for
	tlsRounds  int           // that count as later ones
	tlsSettle  time.Duration // after a round, within what is measured
	closeAfter time.Duration // a host that closes connections does so after this time without a request
	closePause time.Duration // after that, before the next round
	roundTrip  time.Duration // to hosts that are far away
	tlsRest    time.Duration // until memory is read
}

var fullPlan = plan{
	callbacks: 10_000, publications: 25, publishers: 4, checked: 10, loopShare: 3, connections: 128, bodyBytes: 1024, rounds: 5,
	rest:          5 * time.Second,
	subscriptions: 1_000_000, settle: 5 * time.Second, quiet: 1000, loaded: 600, loadedEvery: 10 * time.Millisecond,
	writers: 64, roundFor: 5 * time.Second, roundRest: 2 * time.Second,
	healthyHosts: 100, crowdRounds: 2, bursts: 14, burstEvery: 500 * time.Millisecond,
	firsts: 200, entries: 50_000, listRounds: 7, mirrored: 100_000, changed: 1000, dumpedLarge: 300,
	keepBytes: 200_000_000, retainFor: 45 * time.Second, retainRate: 40_000_000, retainBytes: 100_000,
	hostShare: 1, tlsRounds: 3, tlsSettle: time.Second, closeAfter: time.Second, closePause: 500 * time.Millisecond, roundTrip: 100 * time.Millisecond,
	tlsRest: 10 * time.Second,
}

var quickPlan = plan{
	callbacks: 100, publications: 3, publishers: 2, checked: 3, loopShare: 1, connections: 8, bodyBytes: 1024, rounds: 1,
	rest:          100 * time.Millisecond,
	subscriptions: 1000, settle: 0, quiet: 5, loaded: 5, loadedEvery: 5 * time.Millisecond,
	writers: 4, roundFor: 100 * time.Millisecond, roundRest: 10 * time.Millisecond,
	healthyHosts: 20, crowdRounds: 1, bursts: 2, burstEvery: 100 * time.Millisecond,
	firsts: 3, entries: 100, listRounds: 1, mirrored: 100, changed: 20, dumpedLarge: 4,
	keepBytes: 5_000_000, retainFor: 2 * time.Second, retainRate: 5_000_000, retainBytes: 50_000,
	hostShare: 100, tlsRounds: 1, tlsSettle: 10 * time.Millisecond, closeAfter: 50 * time.Millisecond, closePause: 100 * time.Millisecond, roundTrip: 10 * time.Millisecond,
	tlsRest: 10 * time.Millisecond,
}

// Shares of the callbacks that are in trouble.
const (
	hanging, refusing, failing = 10, 5, 5 // of 100, in sick
	slowing                    = 30       // of 100, in slow
)

// hosts is how many hosts the sink must have: the healthy ones, and one for each
// sick callback.
func (p plan) hosts() int {
	return p.healthyHosts + p.callbacks*(hanging+refusing+failing)/100
}
