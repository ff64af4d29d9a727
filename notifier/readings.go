package notifier

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the documents that are sent at a time. Each holds a piece of the
// document and, where it is packed, most of a megabyte for that.
const (
	// maxReadings is how many documents are being sent: 503 beyond that.
	maxReadings = 64
	// clientReadings is how many of them one client has: 503 beyond that. Clients of this
	// machine, such as a proxy, have no such bound.
	clientReadings = 16
	// slowReading is how long a document is sent undisturbed: one that takes longer is
	// cut off where another client would be refused.
	slowReading = 30 * time.Second
	// defaultFiles is how many files are being sent at a time, and filesShare the part of
	// them that one client has, as above.
	defaultFiles = 256
	filesShare   = 4
)

// readings are the documents, or the files, that are being sent.
type readings struct {
	most, perClient int
	gauge           prometheus.Gauge

	mu      sync.Mutex
	under   map[*reading]struct{} // guarded by mu
	clients map[netip.Prefix]int  // guarded by mu
}

// reading is a document that is being sent.
type reading struct {
	client netip.Prefix
	began  time.Time
	cut    func()
}

func newReadings(most, perClient int, gauge prometheus.Gauge) *readings {
	return &readings{most: most, perClient: perClient, gauge: gauge, under: map[*reading]struct{}{}, clients: map[netip.Prefix]int{}}
}

var errManyReadings = &httpError{
	status: http.StatusServiceUnavailable, header: http.Header{"Retry-After": {"5"}},
	text: "Too many documents are being read at the moment. Try again.",
}

// begin takes a place for a document, which end gives back. The context ends with
// the request, or when the place goes to somebody else.
func (rs *readings) begin(w http.ResponseWriter, r *http.Request) (ctx context.Context, end func(), err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	one := &reading{client: clientOf(r.RemoteAddr), began: time.Now()}
	one.cut = func() {
		cancel(errCut)
		// A write that waits for the client ends, too. Who cannot do that (a test's
		// recorder) does not wait.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
	}
	if !rs.admit(one) {
		cancel(nil)
		return nil, nil, errManyReadings
	}
	return ctx, func() {
		rs.leave(one)
		cancel(nil)
	}, nil
}

// admit gives a place to one, where need be that of the slowest.
func (rs *readings) admit(one *reading) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !one.client.Addr().IsLoopback() && rs.clients[one.client] >= rs.perClient {
		return false
	}
	if len(rs.under) >= rs.most {
		slowest := rs.slowest()
		if one.began.Sub(slowest.began) < slowReading {
			return false
		}
		rs.drop(slowest)
		slowest.cut()
	}
	rs.under[one] = struct{}{}
	rs.clients[one.client]++
	rs.gauge.Inc()
	return true
}

// slowest is the reading that began first; mu is held, and there is one.
func (rs *readings) slowest() (slowest *reading) {
	for one := range rs.under {
		if slowest == nil || one.began.Before(slowest.began) {
			slowest = one
		}
	}
	return slowest
}

func (rs *readings) leave(one *reading) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.drop(one)
}

// drop takes its place from one, if it still has it; mu is held.
func (rs *readings) drop(one *reading) {
	if _, there := rs.under[one]; !there {
		return
	}
	delete(rs.under, one)
	if rs.clients[one.client]--; rs.clients[one.client] == 0 {
		delete(rs.clients, one.client)
	}
	rs.gauge.Dec()
}

// clientOf is whom a connection counts for: its address, or the /64 network that it is
// of. Where it cannot be told all count as one.
func clientOf(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() && !addr.IsLoopback() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // which has so many
	return prefix
}

// errCut: a reading had to make room for another.
var errCut = errors.New("the reading was cut off")
