package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/internal/faults"
	"carillon/internal/redistest"
	"carillon/subscription"
)

// The parts of a soak. It goes on until there was enough of everything.
const (
	soakKills  = max(20/slowness, 6) // of processes, at least
	soakFaults = 5000 / slowness     // that failed a call of an engine or a request, at least
	soakLeast  = 30 * time.Second / slowness
	soakLimit  = 4 * time.Minute
	// soakAlone is how long the last processes live with all faults at the end, without a
	// kill and without renewals that are begun: nothing brings back what one has lost
	// from memory.
	soakAlone = 5 * time.Second

	// soakBetween is the time between two publications of one publisher, and
	// soakPause that before something is tried again.
	soakBetween = 15 * time.Millisecond * slowness
	soakPause   = 15 * time.Millisecond
	// soakPatience is how long those try who do not give up.
	soakPatience = time.Minute
)

// TestSoak mixes everything that goes wrong: engines whose calls fail, persisted or
// not; networks that disturb what callbacks answer; processes that are killed or
// stopped; a Redis that is killed. Meanwhile Sources publish and ping, and subscribers
// come, renew, change their secrets, leave and come back. Then the faults end, in the
// processes that run, and everybody gets everything; and again after a start of all. At
// last the list of what each subscriber got is held against what was accepted.
//
// docs/decisions/0024 says what this proves, and what it does not.
func TestSoak(t *testing.T) {
	seed := soakSeed(t)
	t.Run("pebble", func(t *testing.T) {
		t.Parallel()
		s := newSoak(t, "pebble", seed, "--store", "pebble:"+t.TempDir())
		s.hubs = make([]*process, 1)
		s.run(func(n int) {
			if n%6 == 5 {
				s.stopHub(0)
			} else {
				s.killHub(0)
			}
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t)
		s := newSoak(t, "redis", seed+1, "--store", redis.URL(), "--takeover", "1s")
		s.hubs = make([]*process, 3)
		s.run(func(n int) {
			switch n % 8 {
			case 2:
				s.killRedis(redis)
			case 4:
				s.stopHub(s.random.IntN(len(s.hubs)))
			case 7:
				s.pauseHub(s.random.IntN(len(s.hubs)))
			default:
				s.killHub(n % len(s.hubs))
			}
		})
	})
}

// soak is one engine's run.
type soak struct {
	t       *testing.T
	engine  string
	hubURL  string // that all processes serve; it has no listener
	args    []string
	seeds   *rand.Rand
	random  *rand.Rand // of what is killed, and when
	client  *http.Client
	hubs    []*process
	topics  *httptest.Server
	hosts   []*soakHost
	telling sync.WaitGroup // of what listens to processes and networks

	subscribers map[string]*soakSubscriber // complete before anything runs

	mu           sync.Mutex // guards what follows
	cond         *sync.Cond
	up           []string                  // the addresses of the hubs that are up
	published    map[string]map[string]int // by topic and body: as which
	accepted     map[string][]*soakPublication
	pinged       int       // the number of the last ping
	pings        int       // that were accepted
	chained      time.Time // the end of the last change notification
	kills        int
	troubles     []soakOutage
	senders      []*soakSender                                      // in the order of their starts
	losses       map[*soakSender]map[subscription.Shard][]time.Time // what they say in their logs
	engineFaults map[string]int                                     // by call and kind
	failures     []string                                           // the first of them
}

func newSoak(t *testing.T, engine string, seed uint64, args ...string) *soak {
	s := &soak{
		t: t, engine: engine, hubURL: "http://127.0.0.1:9/" + engine + "/",
		seeds: rand.New(rand.NewPCG(seed, 1)), random: rand.New(rand.NewPCG(seed, 2)),
		client:       &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
		subscribers:  map[string]*soakSubscriber{},
		published:    map[string]map[string]int{},
		accepted:     map[string][]*soakPublication{},
		engineFaults: map[string]int{},
	}
	s.cond = sync.NewCond(&s.mu)
	s.chained = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	s.args = append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", s.hubURL, "--delivery-timeout", "5s",
		"--retry-first", "20ms", "--retry-max", "300ms",
	}, args...)
	t.Cleanup(s.client.CloseIdleConnections)
	s.topics = httptest.NewServer(http.HandlerFunc(s.serveTopic))
	t.Cleanup(s.topics.Close)
	for _, rate := range soakHostRates {
		s.hosts = append(s.hosts, s.serveHost(s.seeds.Uint64(), rate))
	}
	for _, topic := range soakTopics {
		s.published[topic] = map[string]int{}
		for i, host := range s.hosts {
			for _, nature := range []string{"steady", "restless"} {
				s.add(topic, host, fmt.Sprintf("%s-%d-%s", topic, i, nature), nature == "restless", i == 0 && nature == "steady")
			}
		}
	}
	return s
}

func (s *soak) topicURL(topic string) string { return s.topics.URL + "/topic/" + topic }

func (s *soak) add(topic string, host *soakHost, name string, restless, witness bool) {
	s.subscribers[name] = &soakSubscriber{
		soak: s, name: name, topic: topic, topicURL: s.topicURL(topic), callback: host.url + "/callback/" + name,
		random: rand.New(rand.NewPCG(s.seeds.Uint64(), 3)), restless: restless, witness: witness,
		seen: map[string]bool{},
	}
}

// locked runs f with mu held.
func (s *soak) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// faultf records what must not be. mu is held.
func (s *soak) faultf(format string, args ...any) {
	if len(s.failures) < 20 {
		s.failures = append(s.failures, fmt.Sprintf(format, args...))
	}
}

// wait waits until done, which it asks with mu held after each event, and returns whether that came in
// time.
func (s *soak) wait(limit time.Duration, done func() bool) bool {
	over := false
	timer := time.AfterFunc(limit, func() { s.locked(func() { over = true; s.cond.Broadcast() }) })
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !done() {
		if over {
			return false
		}
		s.cond.Wait()
	}
	return true
}

// run lives through it all; disrupt is what the n-th disruption is.
func (s *soak) run(disrupt func(n int)) {
	t := s.t
	for i := range s.hubs {
		s.start(i, s.seeds.Uint64())
	}
	var sources, moving sync.WaitGroup
	stop, stopSources := make(chan struct{}), make(chan struct{})
	for _, u := range s.subscribers {
		if u.witness {
			moving.Go(u.come)
		}
	}
	moving.Wait()
	s.publishAll(&sources, stopSources)
	for _, u := range s.subscribers {
		if !u.witness {
			moving.Go(func() {
				u.come()
				u.live(stop)
			})
		}
	}
	began := time.Now()
	for n := 0; !s.enough(time.Since(began)) && !t.Failed(); n++ {
		<-time.After(time.Duration(500+s.random.IntN(900)) * time.Millisecond * min(slowness, 3))
		disrupt(n)
	}
	close(stop)
	<-time.After(soakAlone)
	for _, h := range s.hosts {
		h.network.Calm()
	}
	moving.Wait() // something must be published until the last of them is there
	s.calmHubs()
	close(stopSources)
	sources.Wait()
	s.settle()
	s.audit()
	t.Logf("it took %s", time.Since(began).Round(time.Second))
}

// publishAll has all Sources publish until stop is closed.
func (s *soak) publishAll(all *sync.WaitGroup, stop <-chan struct{}) {
	for publisher := range 2 {
		all.Go(func() { s.publishContent(stop, topicPlain, publisher, soakPatience) })
		all.Go(func() { s.publishContent(stop, topicDeaf, publisher, 0) })
	}
	all.Go(func() { s.publishChain(stop) })
	all.Go(func() { s.pingOn(stop) })
}

// enough reports whether there was enough of everything, or no more time for it.
func (s *soak) enough(took time.Duration) bool {
	_, failed := s.faults()
	s.mu.Lock()
	defer s.mu.Unlock()
	return took > soakLimit || took > soakLeast && s.kills >= soakKills && failed >= soakFaults
}

// faults counts those that were injected so far, and of them those that failed a
// call or a request: others only held it up.
func (s *soak) faults() (all, failed int) {
	for _, h := range s.hosts {
		for _, n := range h.network.Counts() {
			all += n
		}
		failed += h.network.Failed()
	}
	s.locked(func() {
		for name, n := range s.engineFaults {
			if all += n; !strings.HasSuffix(name, " "+faults.Delay.String()) {
				failed += n
			}
		}
	})
	return all, failed
}

// settle waits until every subscriber has got everything. First it waits for the processes in which
// everything failed until now, and which run on. A subscription or wakeup that one of them has lost
// from memory does not come back, and the first wait is without another publication. Then all are
// killed, and it must be so again.
func (s *soak) settle() {
	t := s.t
	t.Helper()
	if s.settleRunning() {
		for i := range s.hubs {
			s.replaceHub(i, 0)
		}
		eventually(t, "every shard and every request to be worked on after a start", s.allSettled)
		s.publishEnd(1)
		s.awaitAll("which was started")
	}
	for i, p := range s.hubs {
		if err := p.stop(t); err != nil {
			t.Errorf("hub %d ended with %v after SIGTERM; want status 0\n%s", i, err, p.log)
		}
	}
}

// settleRunning is settle of the processes that run on. It reports whether all was well.
func (s *soak) settleRunning() bool {
	const hub = "which runs on"
	s.t.Helper()
	if !s.awaitAll(hub) {
		return false
	}
	eventually(s.t, "every shard and every request to be worked on", s.allSettled)
	s.publishEnd(0)
	return s.awaitAll(hub)
}

// publishEnd publishes what comes last to every topic, and is signed with the last
// secrets.
func (s *soak) publishEnd(n int) {
	s.t.Helper()
	for _, topic := range soakTopics {
		switch topic {
		case topicPings:
			s.ping(n)
		case topicChain:
			s.publishChange(n)
		default:
			if !s.publish(n, topic, "text/plain", fmt.Sprintf("end %d", n), soakPatience, soakPatience) {
				s.t.Fatalf("%s: end %d was not accepted", topic, n)
			}
		}
	}
}

// allSettled reports whether the hubs have every shard, and no request waits.
func (s *soak) allSettled() bool {
	shards, pending := 0, 0
	for _, p := range s.hubs {
		_, metrics := look(p.ready["admin"], "/metrics")
		for name, sum := range map[string]*int{"carillon_delivery_shards ": &shards, "carillon_subscription_pending ": &pending} {
			_, value, found := strings.Cut(metrics, "\n"+name)
			n := 0
			if _, err := fmt.Sscan(value, &n); !found || err != nil {
				return false
			}
			*sum += n
		}
	}
	return shards == subscription.Shards && pending == 0
}

// awaitAll waits until everybody who is subscribed has got what was accepted, from a
// hub of a kind, and reports whether that came in time.
func (s *soak) awaitAll(hub string) bool {
	now := time.Now()
	missing := map[*soakSubscriber][]*soakPublication{}
	s.locked(func() {
		for _, u := range s.subscribers {
			if p := u.periods[len(u.periods)-1]; !p.left {
				missing[u] = u.missing(p, now)
			}
		}
	})
	come := func() bool {
		for u, list := range missing {
			come := u.haveCome(&list) && (u.topic != topicPings || u.last().body == fmt.Sprintf("ping %d", s.pinged))
			if missing[u] = list; come {
				delete(missing, u)
			}
		}
		return len(missing) == 0
	}
	if s.wait(soakPatience, come) {
		return true
	}
	s.locked(func() {
		for u, list := range missing {
			if len(list) == 0 {
				s.faultf("%s did not get the last ping within %s, from a hub %s", u.name, soakPatience, hub)
			} else {
				s.faultf("%s did not get %q within %s, from a hub %s", u.name, list[0].body, soakPatience, hub)
			}
		}
	})
	return false
}

// names are those of all subscribers, in order.
func (s *soak) names() []string { return slices.Sorted(maps.Keys(s.subscribers)) }
