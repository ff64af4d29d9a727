package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/internal/redistest"
)

const (
	clusterHubs       = 3
	clusterTopics     = 2
	clusterPublishers = 2 // of each topic
	clusterCallbacks  = 24
	clusterPause      = 15 * time.Millisecond
	// takeover is short, so that the tests are.
	takeover = 2 * time.Second
	// clusterURL is the hub URI that all processes serve, as behind a load
	// balancer. Nothing listens there: the tests choose a process themselves.
	clusterURL = "http://127.0.0.1:9/websub/"
)

// cluster is several hub processes on one Redis, with publishers and subscribers.
type cluster struct {
	t     *testing.T
	sink  *sink
	redis *redistest.Server
	args  []string
	hubs  []*process
	acked [][][]string // by topic and publisher
	begun int

	mu       sync.Mutex
	targets  []string // the processes that publishers turn to
	troubles []outage
}

// outage is a stretch of time in which something was wrong.
type outage struct{ from, to time.Time }

// excuses reports whether what had arrived at first may arrive again: it was not
// recorded yet when the trouble began, or a process that had it in flight goes on
// as the trouble ends.
func (t outage) excuses(first, again time.Time) bool {
	near := func(at, moment time.Time) bool {
		since := moment.Sub(at)
		return -diskSlack < since && since < flushInterval+diskSlack
	}
	return near(first, t.from) || near(again, t.to)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	redis := redistest.Start(t)
	c := newClusterOn(t, redis.URL())
	c.redis = redis
	return c
}

// newClusterOn starts the processes, and waits until each has its share.
func newClusterOn(t *testing.T, store string, more ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, sink: newSink(t)}
	c.sink.setHub(clusterURL, 0.02)
	c.args = []string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", clusterURL,
		"--store", store, "--takeover", takeover.String(), "--retry-first", "20ms", "--retry-max", "200ms",
	}
	c.args = append(c.args, more...)
	for range clusterHubs {
		c.hubs = append(c.hubs, startHub(t, c.args...))
	}
	c.aim(0, 1, 2)
	for i := range c.hubs {
		c.shared(i)
	}
	return c
}

// shared waits until a process has its fair share of the shards.
func (c *cluster) shared(i int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("hub %d has its share", i), func() bool {
		_, metrics := look(c.hubs[i].ready["admin"], "/metrics")
		return shardsOwned.MatchString(metrics)
	})
}

// shardsOwned is the metric of a process that has a third of the shards.
var shardsOwned = regexp.MustCompile(`(?m)^carillon_delivery_shards 2[12]$`)

// address is where a process serves the hub.
func (c *cluster) address(i int) string { return "http://" + c.hubs[i].ready["listen"] + "/websub/" }

// aim has the publishers turn to these processes.
func (c *cluster) aim(hubs ...int) {
	var targets []string
	for _, i := range hubs {
		targets = append(targets, c.address(i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = targets
}

func (c *cluster) target(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.targets[n%len(c.targets)]
}

// trouble notes one that began then and is over now.
func (c *cluster) trouble(from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubles = append(c.troubles, outage{from, time.Now()})
}

// subscribe makes every subscription through one process, and waits until each
// has got a first notification that was published through another.
func (c *cluster) subscribe() {
	c.t.Helper()
	for topic := range clusterTopics {
		for i := range clusterCallbacks {
			status, body, err := subscribe(c.address(0), c.sink.topicURL(fmt.Sprint(topic)), c.sink.callbackURL(callbackName(topic, i)), nil)
			if err != nil || status != http.StatusAccepted {
				c.t.Fatalf("subscribing: %d %s %v", status, body, err)
			}
		}
	}
	c.sink.await(c.t, "the verifications", func() bool { return len(c.sink.verified) == clusterTopics*clusterCallbacks })
	// Publications from the verification on are delivered.
	c.begun++
	c.marker(fmt.Sprintf("begin %d", c.begun), c.address(1))
}

// marker publishes to each topic until every callback has got it.
func (c *cluster) marker(marker, address string) {
	c.t.Helper()
	for topic := range clusterTopics {
		status, body, err := c.publish(address, topic, marker)
		if err != nil || status != http.StatusOK {
			c.t.Fatalf("publishing %s: %d %s %v", marker, status, body, err)
		}
	}
	c.sink.await(c.t, marker, func() bool {
		for topic := range clusterTopics {
			for i := range clusterCallbacks {
				if !c.sink.has(callbackName(topic, i), marker) {
					return false
				}
			}
		}
		return true
	})
}

func (c *cluster) publish(address string, topic int, body string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, c.sink.topicURL(fmt.Sprint(topic)), clusterURL))
	return answer(http.DefaultClient.Do(req))
}

// during publishes while f makes its trouble.
func (c *cluster) during(f func()) {
	c.t.Helper()
	stop := make(chan struct{})
	var publishers sync.WaitGroup
	c.acked = make([][][]string, clusterTopics)
	for topic := range c.acked {
		c.acked[topic] = make([][]string, clusterPublishers)
		for i := range c.acked[topic] {
			publishers.Go(func() { c.acked[topic][i] = c.publishUntil(stop, topic, i) })
		}
	}
	f()
	close(stop)
	publishers.Wait()
}

// publishUntil publishes one notification after the other, through one process after the other, and
// returns those that were answered 200. One without that answer is not repeated: it may arrive or not.
func (c *cluster) publishUntil(stop <-chan struct{}, topic, publisher int) (acked []string) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return acked
		case <-time.After(clusterPause):
		}
		body := fmt.Sprintf("%d/%d", publisher, n)
		if status, _, err := c.publish(c.target(n), topic, body); err == nil && status == http.StatusOK {
			acked = append(acked, body)
		}
	}
}

// check waits for the end of the deliveries and holds them against what was
// answered 200.
func (c *cluster) check(what string) {
	c.t.Helper()
	c.marker("end", c.target(0))
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	total, twice, accepted := 0, 0, 0
	for topic := range c.acked {
		for _, bodies := range c.acked[topic] {
			accepted += len(bodies)
		}
		var order []string
		for i := range clusterCallbacks {
			name := callbackName(topic, i)
			first, again := c.firsts(name, c.sink.got[name])
			total, twice = total+len(first), twice+again
			checkAcked(c.t, name, first, c.acked[topic])
			if order == nil {
				order = first
			} else if !slices.Equal(order, first) {
				c.t.Errorf("%s saw another order than the first callback of its topic", name)
			}
		}
	}
	c.t.Logf("%s: %d notifications answered 200, %d deliveries, lost 0 unless said above, %d came twice", what, accepted, total, twice)
	if accepted < 100 {
		c.t.Errorf("only %d notifications were accepted: the test did not test anything", accepted)
	}
}

// firsts returns the bodies in the order in which they came first, and checks
// that each which came again has a trouble for its excuse.
func (c *cluster) firsts(name string, got []arrival) (first []string, again int) {
	c.t.Helper()
	seen := map[string]arrival{}
	for _, d := range got {
		before, known := seen[d.body]
		seen[d.body] = d
		if !known {
			first = append(first, d.body)
			continue
		}
		again++
		if before.id != d.id {
			c.t.Errorf("%s: %q came again under another X-Hub-Notification-Id", name, d.body)
		}
		if !slices.ContainsFunc(c.troubles, func(t outage) bool { return t.excuses(before.at, d.at) }) {
			c.t.Errorf("%s: %q came again although it was settled long before, and no trouble ended then", name, d.body)
		}
	}
	return first, again
}

// flow waits until n more deliveries have arrived.
func (c *cluster) flow(n int) {
	c.t.Helper()
	arrived := func() (sum int) {
		for _, got := range c.sink.got {
			sum += len(got)
		}
		return sum
	}
	c.sink.mu.Lock()
	until := arrived() + n
	c.sink.mu.Unlock()
	c.sink.await(c.t, "deliveries", func() bool { return arrived() >= until })
}

// flowing is what flows before and after a trouble: some for every callback.
const flowing = 60 * clusterTopics * clusterCallbacks

// reach waits until every callback has got the publications of its beginning, from any owner.
func (c *cluster) reach(marker string, through int) {
	c.t.Helper()
	c.marker(marker, c.address(through))
}

// TestClusterHandsOver ends one of three hub processes as an operator does, and
// starts it again: nothing comes twice, as shards change hands with their cursors.
func TestClusterHandsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.subscribe()
	c.during(func() {
		c.flow(flowing)
		c.aim(0, 1)
		if err := c.hubs[2].stop(t); err != nil {
			t.Errorf("the hub ended with %v after SIGTERM; want status 0\n%s", err, c.hubs[2].log)
		}
		c.reach("after the end", 1)
		c.hubs[2] = startHub(t, c.args...)
		c.aim(0, 1, 2)
		c.shared(2)
		c.flow(flowing)
		c.reach("after the return", 2)
	})
	c.check("one of three ended and started again")
}

// TestClusterSurvivesAKilledProcess kills one of three hub processes in the middle
// of the deliveries; its part is taken over by the others.
func TestClusterSurvivesAKilledProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.subscribe()
	c.during(func() {
		c.flow(flowing)
		c.aim(0, 1) // only subscribers see the process that dies
		killed := time.Now()
		c.hubs[2].kill()
		c.trouble(killed)
		c.reach("after the kill", 1)
		c.hubs[2] = startHub(t, c.args...)
		c.aim(0, 1, 2)
		c.shared(2)
		c.flow(flowing)
		c.reach("after the return", 2)
	})
	c.check("one of three killed")
}

// TestClusterSurvivesAStoppedProcess stops one of three hub processes for three
// lease times and lets it go on: it finds itself fenced and joins again.
func TestClusterSurvivesAStoppedProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.subscribe()
	c.during(func() {
		c.flow(flowing)
		c.aim(0, 1)
		stopped := time.Now()
		signal(t, c.hubs[2], syscall.SIGSTOP)
		c.reach("while it is stopped", 1)
		<-time.After(time.Until(stopped.Add(3 * takeover)))
		signal(t, c.hubs[2], syscall.SIGCONT)
		c.trouble(stopped)
		c.shared(2)
		c.flow(flowing)
		c.reach("after it goes on", 2)
	})
	c.check("one of three stopped for three lease times")
}

// TestClusterSurvivesAKilledRedis kills Redis without warning and starts it again
// on its files.
func TestClusterSurvivesAKilledRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.subscribe()
	c.during(func() {
		c.flow(flowing)
		killed := time.Now()
		c.redis.Kill(t)
		// Publishers get an answer that asks them to come again.
		for status := 0; status != http.StatusServiceUnavailable; {
			var err error
			if status, _, err = c.publish(c.address(0), 0, "in vain"); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(takeover / 2)
		c.redis.Restart(t)
		c.trouble(killed)
		c.flow(flowing)
	})
	c.check("Redis killed and restarted on its files")
}

// TestClusterSurvivesAFailover kills the primary that the hubs write to. The
// Sentinels promote the replica that has most, and with it everything that was
// answered 200, as --redis-replicas asks for.
func TestClusterSurvivesAFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.Sentinel(t, 2)
	c := newClusterOn(t, servers.URL(), "--redis-replicas", "1")
	c.subscribe()
	c.during(func() {
		c.flow(flowing)
		killed := time.Now()
		servers.Primary(t).Kill(t)
		c.flow(flowing)
		c.trouble(killed)
		c.flow(flowing)
	})
	c.check("primary killed")
}

// TestClusterOnAnEmptiedRedis starts Redis again without its files: its data is gone, which the hubs
// log, and they work on with later requests.
func TestClusterOnAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.subscribe()
	c.redis.Kill(t)
	c.redis.Empty(t)
	c.redis.Restart(t)
	for i, p := range c.hubs {
		eventually(t, fmt.Sprintf("hub %d says that the store was emptied", i), func() bool {
			status, body := look(p.ready["admin"], "/readyz")
			return status == http.StatusOK && strings.Contains(body, "empt")
		})
		c.shared(i)
	}
	c.sink.mu.Lock()
	c.sink.verified = map[string]int{}
	c.sink.mu.Unlock()
	c.subscribe() // anew: the same callbacks get what is published now
	for topic := range clusterTopics {
		for i := range clusterCallbacks {
			if got := c.sink.count(callbackName(topic, i)); got != 2 {
				t.Errorf("%s got %d notifications, want the one of before and the one of after", callbackName(topic, i), got)
			}
		}
	}
}

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
