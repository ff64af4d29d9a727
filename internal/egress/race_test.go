package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/egress"
)

// listen listens on a port of 127.0.0.1 only, and takes connections.
func listen(t *testing.T) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

func TestDialName(t *testing.T) {
	port := listen(t)
	tests := map[string]struct {
		network   string
		a, aaaa   records
		allowed   bool // there is a connection
		forbidden bool
	}{
		"one address":                       {"tcp", addresses(60, "127.0.0.1"), records{}, true, false},
		"the next address":                  {"tcp", addresses(60, "127.0.0.9", "127.0.0.1"), records{}, true, false},
		"the other family":                  {"tcp", addresses(60, "127.0.0.1"), addresses(60, "::1"), true, false},
		"the other is forbidden":            {"tcp", addresses(60, "127.0.0.1"), addresses(60, "fd00::1"), true, false},
		"another is forbidden":              {"tcp", addresses(60, "10.0.0.1", "127.0.0.1"), records{}, true, false},
		"all are forbidden":                 {"tcp", addresses(60, "10.0.0.1", "192.168.0.1"), addresses(60, "fd00::1"), false, true},
		"IPv4 only":                         {"tcp4", addresses(60, "127.0.0.1"), addresses(60, "fd00::1"), true, false},
		"IPv6 only, and there is none":      {"tcp6", addresses(60, "127.0.0.1"), records{}, false, false},
		"IPv6 only, and it is forbidden":    {"tcp6", addresses(60, "127.0.0.1"), addresses(60, "fd00::1"), false, true},
		"no address":                        {"tcp", records{}, records{}, false, false},
		"nothing listens at the only place": {"tcp", addresses(60, "127.0.0.9"), records{}, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := newNameServer(t, zone{"a.example.": {typeA: tt.a, typeAAAA: tt.aaaa}}.answer)
			d := newDialer(t, egress.Config{AllowLoopback: true, Names: server.names(t)})
			for range 3 {
				conn, err := d.DialContext(t.Context(), tt.network, "a.example:"+port)
				if err == nil {
					conn.Close()
				}
				var opErr *net.OpError
				if (err == nil) != tt.allowed || errors.Is(err, egress.ErrForbidden) != tt.forbidden || err != nil && !errors.As(err, &opErr) {
					t.Errorf("%v, want allowed %v, forbidden %v", err, tt.allowed, tt.forbidden)
				}
			}
			if n := server.all(); n != 2 {
				t.Errorf("%d questions for three dials, want 2", n)
			}
		})
	}
}

// One Dialer may dial an address that another may not, although they share their knowledge.
func TestRememberedIsStillJudged(t *testing.T) {
	port := listen(t)
	server := newNameServer(t, zone{"a.example.": {typeA: addresses(60, "127.0.0.1")}}.answer)
	names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
	conn, err := newDialer(t, egress.Config{AllowLoopback: true, Names: names}).DialContext(t.Context(), "tcp", "a.example:"+port)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	asked := server.all()
	if _, err := newDialer(t, egress.Config{Names: names}).DialContext(t.Context(), "tcp", "a.example:"+port); !errors.Is(err, egress.ErrForbidden) {
		t.Errorf("%v, want ErrForbidden", err)
	}
	if n := server.all(); n != asked {
		t.Errorf("%d questions more: they share nothing", n-asked)
	}
}

// The time for a dial bounds the lookup as well, and it is the dial that is late.
func TestDialTimeoutBoundsLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(nil))
		d := newDialer(t, egress.Config{DialTimeout: time.Second, Names: server.names(t)})
		began := time.Now()
		_, err := d.DialContext(t.Context(), "tcp", "dead.example:80")
		if took := time.Since(began); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %s, want the deadline of the dial", err, took)
		}
		_, err = newDialer(t, egress.Config{Names: server.names(t)}).DialContext(t.Context(), "tcp", "dead.example:80")
		var e *net.DNSError
		if !errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a failure of the name servers", err)
		}
	})
}

// wire dials addresses that take their time, and reports what was dialed.
type wire struct {
	takes map[string]time.Duration // how long until an address connects; the others fail at once
	deaf  bool                     // to the context: it connects although no caller is left

	mu     sync.Mutex
	dialed []string
	open   int // connections
	busy   int // dials under way
}

func (w *wire) dial(ctx context.Context, addr netip.Addr) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, addr.String())
	w.busy++
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.busy--; w.mu.Unlock() }()
	d, ok := w.takes[addr.String()]
	if !ok {
		return nil, errors.New(addr.String() + " refuses")
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		if !w.deaf {
			return nil, ctx.Err()
		}
	}
	w.opened(1)
	return &wireConn{wire: w, addr: addr}, nil
}

func (w *wire) opened(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += n
}

type wireConn struct {
	net.Conn
	wire *wire
	addr netip.Addr
}

func (c *wireConn) Close() error { c.wire.opened(-1); return nil }

func TestConnect(t *testing.T) {
	const never = time.Hour
	tests := map[string]struct {
		addrs []string
		takes map[string]time.Duration
		want  string // the address, or the error
		after time.Duration
		dials int
	}{
		"the first family is quick": {[]string{"::1", "::2", "192.0.2.1"}, map[string]time.Duration{
			"::1": 299 * time.Millisecond, "192.0.2.1": 0,
		}, "::1", 299 * time.Millisecond, 1},
		"the first family is slow": {[]string{"::1", "192.0.2.1"}, map[string]time.Duration{"::1": time.Second, "192.0.2.1": 0}, "192.0.2.1", 300 * time.Millisecond, 2},
		"the first is quicker still": {[]string{"::1", "192.0.2.1"}, map[string]time.Duration{
			"::1": 400 * time.Millisecond, "192.0.2.1": time.Second,
		}, "::1", 400 * time.Millisecond, 2},
		"the first family refuses":  {[]string{"::1", "::2", "192.0.2.1"}, map[string]time.Duration{"192.0.2.1": 0}, "192.0.2.1", 0, 3},
		"the second family refuses": {[]string{"::1", "192.0.2.1"}, map[string]time.Duration{"::1": time.Second}, "::1", time.Second, 2},
		"all refuse":                {[]string{"::1", "::2", "192.0.2.1"}, nil, "::1 refuses", 0, 3},
		"all refuse, of one family": {[]string{"192.0.2.1", "192.0.2.2"}, nil, "192.0.2.1 refuses", 0, 2},
		"one hangs":                 {[]string{"192.0.2.1", "192.0.2.2"}, map[string]time.Duration{"192.0.2.1": never, "192.0.2.2": 0}, "192.0.2.2", 5 * time.Second, 2},
		"many hang, each for 2 s": {
			[]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8"},
			map[string]time.Duration{"192.0.2.1": never, "192.0.2.2": never, "192.0.2.3": 0},
			"192.0.2.3", 4 * time.Second, 3,
		},
		"all hang, of both families":   {[]string{"::1", "192.0.2.1"}, map[string]time.Duration{"::1": never, "192.0.2.1": never}, "context deadline exceeded", 10 * time.Second, 2},
		"IPv4 first, where it must be": {[]string{"192.0.2.1", "::1"}, map[string]time.Duration{"192.0.2.1": time.Second, "::1": 0}, "::1", 300 * time.Millisecond, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{takes: tt.takes}
				var addrs []netip.Addr
				for _, a := range tt.addrs {
					addrs = append(addrs, netip.MustParseAddr(a))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began, got := time.Now(), ""
				conn, err := egress.Connect(ctx, w.dial, addrs)
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %s, want %s", took, tt.after)
				}
				if err != nil {
					got = err.Error()
				} else {
					got = conn.(*wireConn).addr.String()
					conn.Close()
				}
				cancel()
				synctest.Wait()
				if got != tt.want || len(w.dialed) != tt.dials || w.open != 0 {
					t.Errorf("got %s, want %s; dialed %v, want %d; %d connections stay open", got, tt.want, w.dialed, tt.dials, w.open)
				}
			})
		})
	}
}

// A late dial stops, and a connection that comes all the same is closed.
func TestLateConnection(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{deaf: deaf, takes: map[string]time.Duration{"::1": time.Second, "192.0.2.1": 0}}
			conn, err := egress.Connect(t.Context(), w.dial, []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("192.0.2.1")})
			if err != nil || conn.(*wireConn).addr.String() != "192.0.2.1" {
				t.Fatalf("%v, %v", conn, err)
			}
			synctest.Wait()
			if w.open != 1 || w.busy != 0 {
				t.Errorf("%d connections are open, want 1; %d are under way", w.open, w.busy)
			}
		})
	}
}
