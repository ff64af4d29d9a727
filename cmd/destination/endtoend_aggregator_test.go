//go:build !race

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/internal/urlpath"
)

// gate is the way to a notifier's intake. It adds up what that has accepted.
type gate struct {
	*httptest.Server
	changed chan struct{} // holds a token after each acceptance

	mu  sync.Mutex
	has map[string]event // guarded by mu: by loc
	odd []string         // guarded by mu: what should not have come
}

// event is one that an intake takes, as far as it matters here.
type event struct {
	Loc, Change, Hash string
	Ln                []struct{ Rel, Href string }
}

func newGate(t *testing.T, intake string) *gate {
	g := &gate{changed: make(chan struct{}, 1), has: map[string]event{}}
	way := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: intake})
	way.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		way.ServeHTTP(answer, r)
		if answer.Code == http.StatusAccepted {
			g.add(body)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gate) add(body []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for line := range bytes.Lines(body) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil || len(e.Ln) != 1 || e.Ln[0].Rel != "via" {
			g.odd = append(g.odd, string(line))
		}
		if e.Change == "deleted" {
			delete(g.has, e.Loc)
		} else {
			g.has[e.Loc] = e
		}
	}
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// part is a program that is killed and comes back.
type part struct {
	name    string
	program string
	args    []string
	child   *child
	after   func(*child)
}

func (p *part) start(t *testing.T) {
	t.Helper()
	p.child = launch(t, p.program, p.args...)
	if p.after != nil {
		p.after(p.child)
	}
}

// chain is a Source, an aggregator of it, and an aggregator of that.
type chain struct {
	*library
	first, second *part // the aggregators
	copies        [2]string
	gates         [2]*gate
	bases         [2]string // of their files
	parts         []*part   // all that may be killed, but for the Source's notifier
}

func newChain(t *testing.T) *chain {
	c := &chain{library: newLibrary(t)}
	dir := t.TempDir()
	hubB := &part{name: "hub B", program: "hub", args: hubArgs(t, filepath.Join(dir, "b"))}
	hubB.start(t)
	c.parts = append(c.parts, hubB)
	topic := c.way.URL + "/town/change/"
	for i := range c.copies {
		name := fmt.Sprint("aggregator", i+1)
		listen, intake := freeAddress(t), freeAddress(t)
		notifier := &part{name: "notifier of " + name, program: "notifier", args: []string{
			"--listen", listen, "--intake", intake, "--hub", hubB.child.ready["url"], "--data", filepath.Join(dir, name, "notifier"),
			"--set", "agg", "--resource-list", "agg", "--max-wait", "1ms", "--changelist-entries", "20",
		}}
		notifier.start(t)
		c.copies[i] = filepath.Join(dir, name, "copies")
		files := httptest.NewServer(http.FileServer(http.Dir(c.copies[i])))
		t.Cleanup(files.Close)
		c.bases[i], c.gates[i] = files.URL+"/", newGate(t, intake)
		callback := newRelay(t, nil)
		follower := &part{name: name, program: "destination", after: callback.leadTo, args: []string{
			"follow", "--topic", topic, "--listen", "127.0.0.1:0", "--url", callback.URL, "--data", filepath.Join(dir, name, "data"),
			"--settle", "100ms", "--poll", "5s", "--mirror", c.copies[i], "--delete",
		}}
		if i > 0 {
			follower.args = append(follower.args, "--base", c.bases[i-1])
		}
		c.parts = append(c.parts, notifier, follower)
		topic = notifier.child.ready["url"] + "agg/change/"
	}
	c.first, c.second = c.parts[2], c.parts[4]
	return c
}

// publish has an aggregator publish from its next start on.
func (c *chain) publish(i int) {
	p := []*part{c.first, c.second}[i]
	p.args = append(p.args, "--publish", c.gates[i].URL+"/sets/agg/events", "--as", c.bases[i])
}

// inStep says in what an aggregator's mirror and publications differ from the Source; empty: in nothing.
func (c *chain) inStep(i int) (differs string) {
	want, below := c.tree(c.files), c.copiesOf(i)
	dir := filepath.Join(c.copies[i], filepath.FromSlash(below))
	if _, err := os.Stat(dir); err != nil {
		return "there are no copies yet"
	}
	got := c.tree(dir)
	if !maps.Equal(got, want) {
		return fmt.Sprintf("%d files are not the %d of the Source", len(got), len(want))
	}
	g := c.gates[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.odd) > 0 {
		c.t.Fatalf("without via: %q", g.odd)
	}
	for name, text := range want {
		e := g.has[c.bases[i]+urlpath.Escape(below+"/"+name)]
		if via := c.way.URL + "/town/files/" + urlpath.Escape(name); e.Hash != hashed(text) || e.Ln[0].Href != via {
			return fmt.Sprintf("%s is published as %+v; via is to be %s", name, e, via)
		}
	}
	if len(g.has) != len(want) {
		return fmt.Sprintf("%d are published, and there are %d", len(g.has), len(want))
	}
	return ""
}

// copiesOf is where an aggregator has the copies of the Source's files.
func (c *chain) copiesOf(i int) string {
	var hosts []string
	for _, base := range append(c.bases[:i:i], c.way.URL) {
		u, err := url.Parse(base)
		if err != nil {
			c.t.Fatal(err)
		}
		hosts = append(hosts, strings.ReplaceAll(u.Host, ":", "+"))
	}
	return strings.Join(hosts, "/") + "/town/files"
}

// await waits until an aggregator is in step.
func (c *chain) await(i int) {
	c.t.Helper()
	late := time.After(comesWithin)
	for {
		differs := c.inStep(i)
		if differs == "" {
			return
		}
		select {
		case <-c.gates[i].changed:
		case <-late:
			for _, p := range c.parts[1:] {
				c.t.Logf("%s\n%s", p.name, p.child.logs())
			}
			c.t.Fatalf("aggregator %d: %s", i+1, differs)
		}
	}
}

// removeSome removes files of the Source.
func (c *chain) removeSome(rng *rand.Rand, n int) {
	c.t.Helper()
	for range n {
		if err := os.Remove(c.name(rng.IntN(60))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha-256:" + hex.EncodeToString(sum[:])
}

// TestAggregator: a Source, hub A, an aggregator, hub B, an aggregator of the aggregator. Each of
// them is killed, again and again, while files change. In the end both mirrors are what the Source has, and what both have
// published adds up to that, each entry with a link to the Source's own resource.
func TestAggregator(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := newChain(t)
	c.write("first ", 0, 40)
	c.startNotifier()
	c.awaitPublished()
	c.killNotifier()
	c.startNotifier() // a notifier that starts makes the first Resource List at once
	c.notifier.await("a Resource List", func() bool { return c.notifier.countLogged("a Resource List was made") > 0 })

	// The copies of a baseline that was taken before are published too.
	c.first.start(t)
	c.first.child.await("its baseline", func() bool { return c.first.child.countLogged("the baseline is taken") > 0 })
	c.first.child.stop()
	c.publish(0)
	c.first.start(t)
	c.await(0)
	agg := c.parts[1]
	agg.child.kill()
	agg.start(t)
	agg.child.await("a Resource List", func() bool { return agg.child.countLogged("a Resource List was made") > 0 })
	c.publish(1)
	c.second.start(t)
	c.await(1)

	killed := map[string]int{}
	for round := range 12 {
		from := rng.IntN(60)
		c.write(fmt.Sprint("round ", round, " "), from, from+5)
		if p := rng.IntN(len(c.parts) + 2); p < len(c.parts) {
			killed[c.parts[p].name]++
			c.parts[p].child.kill()
			c.write("meanwhile ", from+3, from+6)
			c.parts[p].start(t)
		} else if p == len(c.parts) {
			killed["notifier of the Source"]++
			c.killNotifier()
			c.write("meanwhile ", from+3, from+6)
			c.startNotifier()
		} else {
			killed["hub A"]++
			c.hub.kill()
			c.write("meanwhile ", from+3, from+6)
			c.hub = launch(t, "hub", c.hubArgs...)
		}
		c.removeSome(rng, 2)
	}
	c.write("the last ", 100, 101)
	c.await(0)
	c.await(1)
	t.Logf("%d files; killed: %v", len(c.tree(c.files)), killed)
}
