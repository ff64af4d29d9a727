package faults

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Answer is what a callback answers.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// NetworkConfig is what a Network is made of.
type NetworkConfig struct {
	// Seed selects the plan.
	Seed uint64
	// Rate is the share of requests that are disturbed, from 0 to 1; a
	// fifth of it is that of connections which are reset before any.
	Rate float64
	// SlowMax bounds how long an answer is held back, or trickles. Default 400 ms.
	SlowMax time.Duration
	// Injected is called with each fault, before it is done.
	Injected func(kind string)
}

// Network is what lies between a hub and callbacks: it disturbs what they answer,
// as its plan says. All methods may be called from any goroutine.
type Network struct {
	cfg    NetworkConfig
	calm   atomic.Bool
	faults []disturbance

	mu     sync.Mutex
	number uint64         // of requests and connections so far; guarded by mu
	counts map[string]int // guarded by mu
	failed int            // guarded by mu
}

// NewNetwork returns a Network.
func NewNetwork(cfg NetworkConfig) *Network {
	cfg.SlowMax = cmp.Or(cfg.SlowMax, 400*time.Millisecond)
	return &Network{cfg: cfg, faults: disturbances(), counts: map[string]int{}}
}

// Calm ends all faults: later requests are not disturbed.
func (n *Network) Calm() { n.calm.Store(true) }

// Counts reports how many faults of each kind there were.
func (n *Network) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// Failed reports how many of the faults refused a request, or may have lost its answer.
// The others let it through: late, or in pieces.
func (n *Network) Failed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// Handler serves the answers of answer, disturbed or not. answer reads what it needs of the request.
// Its argument lost reports whether its answer may be lost on the way: after a 2xx the same content
// may then come again. It is not called where the sender surely learns of no success: the connection
// is reset before, or the sender gets another status.
func (n *Network) Handler(answer func(r *http.Request, lost bool) Answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, by := n.next()
		if d == nil {
			plain(w, answer(r, false))
			return
		}
		e := &exchange{w: w, r: r, by: by, slow: n.cfg.SlowMax}
		if !d.refuses {
			e.answer = answer(r, d.loses)
		}
		n.happened(d.kind, d.refuses || d.loses)
		d.do(e)
	})
}

// next gives the outcome of the next request: nil where it is not disturbed.
func (n *Network) next() (*disturbance, *rand.Rand) {
	by := n.random()
	if n.calm.Load() || by.Float64() >= n.cfg.Rate {
		return nil, nil
	}
	return &n.faults[by.IntN(len(n.faults))], by
}

func (n *Network) random() *rand.Rand {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	return rand.New(rand.NewPCG(n.cfg.Seed, n.number))
}

func (n *Network) happened(kind string, failed bool) {
	n.mu.Lock()
	n.counts[kind]++
	if failed {
		n.failed++
	}
	n.mu.Unlock()
	if n.cfg.Injected != nil {
		n.cfg.Injected(kind)
	}
}

// Listener resets some connections before anything is read from them.
func (n *Network) Listener(of net.Listener) net.Listener { return &listener{of, n} }

type listener struct {
	net.Listener
	network *Network
}

// resetAtOnce is the kind of what the listener does; its share is that of the
// requests divided by connectionShare.
const (
	resetAtOnce     = "reset at once"
	connectionShare = 5
)

// Accept returns the next connection that is not reset.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.network.calm.Load() || l.network.random().Float64() >= l.network.cfg.Rate/connectionShare {
			return conn, nil
		}
		l.network.happened(resetAtOnce, true)
		reset(conn)
	}
}

// reset closes a connection so that its peer gets an RST.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a closed connection needs no reset
	}
	_ = conn.Close()
}
