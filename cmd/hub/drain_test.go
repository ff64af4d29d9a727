package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/cmd/internal/program"
	"carillon/internal/house"
	"carillon/internal/redistest"
)

// After SIGTERM a hub says that it is stopping, and serves on: each answer closes its
// connection. A second signal ends the drain, with status 0.
func TestDrainServesOn(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	topic := s.topicURL("t")
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(), "--drain", maxDrain.String())
	hub := p.ready["url"]
	s.setHub(hub, 0)
	eventually(t, "readiness", p.isReady)
	if status, closes := publishOnce(t, http.DefaultClient, hub, hub, topic, "before"); status != http.StatusOK || closes {
		t.Errorf("before the signal: status %d, Connection: close: %t", status, closes)
	}
	p.signal(t, syscall.SIGTERM)
	eventually(t, "the end of readiness", func() bool { return !p.isReady() })
	if status, body := look(p.ready["admin"], "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("/readyz during the drain: %d %q", status, body)
	}
	for _, body := range []string{"one", "two"} {
		if status, closes := publishOnce(t, http.DefaultClient, hub, hub, topic, body); status != http.StatusOK || !closes {
			t.Errorf("during the drain: status %d, Connection: close: %t", status, closes)
		}
	}
	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
	if conn, err := net.Dial("tcp", p.ready["listen"]); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}

// Without a drain a second signal ends the process at once, as it does if no one listens for
// signals.
func TestASecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	startUpload(t, p)
	p.signal(t, syscall.SIGINT)
	eventually(t, "the end to begin", func() bool { return !p.isReady() })
	p.signal(t, syscall.SIGTERM)
	ended, ok := errors.AsType[*exec.ExitError](p.cmd.Wait())
	if !ok || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the hub ended with %v; want the signal\n%s", ended, p.log)
	}
}

// Whatever the drain is, the end is within its bound.
func TestTheEndIsWithinItsBound(t *testing.T) {
	t.Parallel()
	for _, drain := range []time.Duration{0, 5 * time.Second, 10 * time.Second, maxDrain} {
		f := &serveCommand{listenFlags: listenFlags{Drain: drain}}
		stage := f.stopping().FinishWithin()
		const forPositions = 3 * time.Second
		if whole := drain + 2*stage + forPositions; whole > program.StopWithin || stage < 5*time.Second {
			t.Errorf("with a drain of %s the end takes %s, with %s for each stage; want at most %s", drain, whole, stage, program.StopWithin)
		}
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// publishOnce publishes at the address of a process and returns the status, 0 where no answer
// came, and whether the answer closes its connection.
func publishOnce(t *testing.T, client *http.Client, address, hub, topic, body string) (status int, closes bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, false
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub))
	resp, err := client.Do(req)
	if err != nil {
		t.Errorf("publishing %q: %v", body, err)
		return 0, false
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("publishing %q: %s %q %v", body, resp.Status, answer, err)
	}
	return resp.StatusCode, resp.Close
}

// balancer gives requests to hubs in turn, as long as their /readyz answers 200.
type balancer struct {
	mu    sync.Mutex
	in    []string // the public addresses that get requests; guarded by mu
	turn  int      // guarded by mu
	under map[string]int
	idle  *sync.Cond // a request has ended
}

func newBalancer() *balancer {
	b := &balancer{under: map[string]int{}}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// add has a process get requests.
func (b *balancer) add(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in = append(b.in, address)
}

// remove has a process get no more requests, and returns when those under way have ended.
func (b *balancer) remove(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, in := range b.in {
		if in == address {
			b.in = append(b.in[:i:i], b.in[i+1:]...)
			break
		}
	}
	for b.under[address] > 0 {
		b.idle.Wait()
	}
}

// next returns the address for a request, and what ends the request.
func (b *balancer) next() (address string, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	address = b.in[b.turn%len(b.in)]
	b.under[address]++
	return address, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.under[address]--
		b.idle.Broadcast()
	}
}

// Two hubs are restarted one after the other, several times, behind a balancer that only asks
// /readyz, while Sources publish over kept connections and over new ones: no publication
// fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	const hub = "http://127.0.0.1:9/websub/"
	s := newSink(t)
	s.setHub(hub, 0)
	topic := s.topicURL("t")
	b := newBalancer()
	start := func(port int) *process {
		p := startHub(t, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--url", hub,
			"--store", redis.URL(), "--takeover", "1s", "--drain", maxDrain.String())
		eventually(t, "readiness", p.isReady)
		b.add(p.ready["listen"])
		return p
	}
	ports := []int{freePort(t), freePort(t)}
	hubs := []*process{start(ports[0]), start(ports[1])}
	stop := make(chan struct{})
	var sources sync.WaitGroup
	for n := range 4 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: n%2 == 1}}
		sources.Go(func() {
			defer client.CloseIdleConnections()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				address, done := b.next()
				publishOnce(t, client, "http://"+address+"/websub/", hub, topic, fmt.Sprintf("%d of %d", i, n))
				done()
			}
		})
	}
	for range 3 {
		for i, p := range hubs {
			p.signal(t, syscall.SIGTERM)
			eventually(t, "the balancer to notice", func() bool { return !p.isReady() })
			b.remove(p.ready["listen"])
			p.signal(t, syscall.SIGTERM) // the rest of the drain is of no use
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("the hub ended with %v\n%s", err, p.log)
			}
			hubs[i] = start(ports[i])
		}
	}
	close(stop)
	sources.Wait()
}

// startDoor runs a hub in this process, on a port of its own and with --url, as behind a
// balancer. The public port waits for the store for ever.
func startDoor(t *testing.T, store string) (listen string, log *lines, ready <-chan struct{}) {
	t.Helper()
	c := commands{Serve: serveCommand{open: openWith(house.Hooks{OpenWithin: time.Hour})}}
	listen = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	args := []string{"--listen", listen, "--admin", "127.0.0.1:0", "--url", "http://127.0.0.1:9/websub/", "--store", store}
	if _, err := program.Read("hub", summary, &c, args, t.Output()); err != nil {
		t.Fatal(err)
	}
	log = newLines()
	h, err := c.Serve.start(t.Context(), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	attached, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.run(ctx, func() { close(attached) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
		}
		h.close()
	})
	return listen, log, attached
}

// The public port is closed until the store is attached, so that a balancer gives the
// requests to others meanwhile.
func TestThePublicPortWaitsForTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Stop(t)
	listen, log, ready := startDoor(t, redis.URL())
	log.await(t, "waiting for the store")
	if conn, err := net.Dial("tcp", listen); err == nil {
		conn.Close()
		t.Error("the public port is open without the store")
	}
	redis.Restart(t)
	<-ready
	conn, err := net.Dial("tcp", listen)
	if err != nil {
		t.Fatalf("the public port is closed with the store attached: %v", err)
	}
	conn.Close()
}
