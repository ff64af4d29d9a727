package h1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// place is a town of TLS servers in this process, for a bubble: connecting and answering
// take their time there, computing takes none.
type place struct {
	connect, answer time.Duration
	hang            chan bool // a request that takes one is never answered

	server *tls.Config
	client *tls.Config

	mu     sync.Mutex
	dialed int
}

func newPlace(t testing.TB, connect, answer time.Duration) *place {
	server, client := tlsPair(t)
	return &place{connect: connect, answer: answer, server: server, client: client, hang: make(chan bool, 1)}
}

// config is that of a client whose certificates are for the name of the server's.
func (p *place) config() h1.Config {
	cfg := config()
	cfg.MaxConnsPerHost, cfg.IdlePerHost, cfg.MaxConns = 64, 64, 1000
	cfg.TLS = p.client.Clone()
	cfg.TLS.ServerName = "127.0.0.1"
	cfg.Dial = p.dial
	return cfg
}

func (p *place) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	p.dialed++
	p.mu.Unlock()
	select {
	case <-time.After(p.connect):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go p.serve(tls.Server(server, p.server))
	return client, nil
}

func (p *place) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		if _, ok := take(r); !ok {
			return
		}
		select {
		case <-p.hang:
			_, _ = io.Copy(io.Discard, c)
			return
		case <-time.After(p.answer):
		}
		if _, err := io.WriteString(c, ok204); err != nil {
			return
		}
	}
}

// dials is how many connections were opened since it was asked last.
func (p *place) dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.dialed
	p.dialed = 0
	return n
}

const ms = time.Millisecond

// burst makes so many requests to each of so many hosts at once, and returns how long each
// took.
func burst(t *testing.T, client *h1.Client, hosts, each int) (took []time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	took = make([]time.Duration, hosts*each)
	for i := range took {
		wg.Go(func() {
			begin := time.Now()
			if _, err := client.Post(t.Context(), to(t, i%hosts)); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
			took[i] = time.Since(begin)
		})
	}
	wg.Wait()
	return took
}

// to is a request to one of many hosts.
func to(t testing.TB, host int) *h1.Request {
	return &h1.Request{Secure: true, Authority: fmt.Sprintf("h%d.example", host), Target: "/", Message: message(t, "x")}
}

// A burst to a host that is known waits for the connection that there is, unless another one
// could be opened sooner.
func TestBurstWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		connect, answer time.Duration
		burst           int
		least, most     int // connections opened by the burst
		within          time.Duration
	}{
		"opening costs more":    {200 * ms, 9 * ms, 12, 0, 0, 130 * ms},
		"waiting costs more":    {200 * ms, 9 * ms, 60, 8, 30, 240 * ms},
		"a slow host":           {10 * ms, 999 * ms, 20, 15, 19, 1120 * ms},
		"a host that is far":    {200 * ms, 99 * ms, 20, 10, 17, 350 * ms},
		"far, and hardly asked": {200 * ms, 99 * ms, 3, 0, 0, 310 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t, tt.connect, tt.answer)
				client := newClient(t, p.config())
				for range 8 { // it becomes known
					burst(t, client, 1, 1)
				}
				equal(t, "connections before", p.dials(), 1)
				for i, took := range burst(t, client, 1, tt.burst) {
					if took > tt.within {
						t.Errorf("request %d took %s", i, took)
					}
				}
				if n := p.dials(); n < tt.least || n > tt.most {
					t.Errorf("%d connections were opened", n)
				}
				client.CloseIdleConnections()
			})
		})
	}
}

// A burst to a host that nothing is known of is as quick as if each request opened a
// connection of its own at once.
func TestFirstBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 200*time.Millisecond, 100*time.Millisecond)
		client := newClient(t, p.config())
		for i, took := range burst(t, client, 3, 20) {
			if took > 330*time.Millisecond {
				t.Errorf("request %d took %s", i, took)
			}
		}
		client.CloseIdleConnections()
	})
}

// A request does not wait for a connection on which another one hangs.
func TestHangingConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 20*time.Millisecond, time.Millisecond)
		client := newClient(t, p.config())
		for range 8 {
			burst(t, client, 1, 1)
		}
		p.hang <- true
		hangs := make(chan error)
		go func() {
			_, err := client.Post(t.Context(), to(t, 0))
			hangs <- err
		}()
		synctest.Wait()
		p.dials()
		for i, took := range burst(t, client, 1, 3) {
			if took > 50*time.Millisecond {
				t.Errorf("request %d took %s", i, took)
			}
		}
		if n := p.dials(); n < 1 {
			t.Error("no connection was opened")
		}
		if err := <-hangs; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the one that hangs: %v", err)
		}
		client.CloseIdleConnections()
	})
}

// Handshakes compute as many at a time as there are processors, and who waits for that has
// its time when its turn comes: thousands of hosts after a start do not fail by our slowness.
func TestHandshakesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 50*time.Millisecond, 10*time.Millisecond)
		cfg := p.config()
		cfg.Timeout, cfg.HandshakeTimeout = 4*time.Second, 3200*time.Millisecond
		var mu sync.Mutex
		computing, most := 0, 0
		cfg.TLS.VerifyConnection = func(tls.ConnectionState) error {
			mu.Lock()
			computing++
			most = max(most, computing)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond) // of a processor
			mu.Lock()
			computing--
			mu.Unlock()
			return nil
		}
		client := newClient(t, cfg)
		hosts := 500 * runtime.GOMAXPROCS(0) // ten seconds of computing
		begin := time.Now()
		burst(t, client, hosts, 1)
		if took := time.Since(begin); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("it took %s", took)
		}
		equal(t, "computing at a time", most, runtime.GOMAXPROCS(0))
		equal(t, "connections", p.dials(), hosts)
		client.CloseIdleConnections()
	})
}

// A server that does not read its handshake holds no slot: handshakes with others go on.
func TestServersThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, time.Millisecond)
		cfg := p.config()
		dead, slots := errors.New("enough"), runtime.GOMAXPROCS(0)
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != fmt.Sprintf("h%d.example:443", slots) {
				deaf, _ := net.Pipe()
				return deaf, nil
			}
			return p.dial(ctx, network, address)
		}
		client := newClient(t, cfg)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		for i := range slots {
			go func() {
				_, err := client.Post(ctx, to(t, i))
				ended <- err
			}()
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := client.Post(t.Context(), to(t, slots)); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("a handshake took %s beside those that hang", took)
		}
		cancel(dead)
		for range slots {
			if err := <-ended; err != dead {
				t.Errorf("a request to a server that does not read: %v", err)
			}
		}
		client.CloseIdleConnections()
	})
}

// Servers that send a byte now and then hold up the handshakes with others for no longer than
// those that send none.
func TestServersThatDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, time.Millisecond)
		cfg := p.config()
		cfg.HandshakeTimeout = 800 * time.Millisecond
		drips := 100 * runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == fmt.Sprintf("h%d.example:443", drips) {
				return p.dial(ctx, network, address)
			}
			client, server := net.Pipe()
			wg.Go(func() { _, _ = io.Copy(io.Discard, server) })
			wg.Go(func() {
				defer server.Close()
				for _, b := range append([]byte{22, 3, 3, 0x40, 0}, make([]byte, 1000)...) {
					if _, err := server.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
			return client, nil
		}
		client := newClient(t, cfg)
		for i := range drips {
			wg.Go(func() {
				if _, err := client.Post(t.Context(), to(t, i)); err == nil {
					t.Error("an answer of a server that drips")
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := client.Post(t.Context(), to(t, drips)); err != nil {
			t.Error(err)
		}
		// Five groups of them, one after the other: each counts for an eighth of the limit.
		if took := time.Since(begin); took > 600*time.Millisecond {
			t.Errorf("a handshake took %s beside those that drip", took)
		}
		wg.Wait()
		client.CloseIdleConnections()
	})
}

// A request that waits for processors ends with its context all the same.
func TestCancelInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, time.Millisecond)
		cfg := p.config()
		release := make(chan bool)
		cfg.TLS.VerifyConnection = func(tls.ConnectionState) error {
			<-release
			return nil
		}
		client := newClient(t, cfg)
		slots := runtime.GOMAXPROCS(0)
		errs := make(chan error, slots)
		for i := range slots {
			go func() {
				_, err := client.Post(t.Context(), to(t, i))
				errs <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the hub ends")
		waits := make(chan error)
		go func() {
			_, err := client.Post(ctx, to(t, slots))
			waits <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-waits; err != cause {
			t.Errorf("in line: %v", err)
		}
		close(release)
		for range slots {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		// The slots are free again.
		if _, err := client.Post(t.Context(), to(t, slots)); err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
	})
}
