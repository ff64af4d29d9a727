package h1

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// hostKey is a server as URLs spell it. Two spellings are two hosts: each request gets the Host
// header that its caller wrote.
type hostKey struct {
	secure    bool
	authority string
}

// host is a server. A host with https is remembered after its last connection has closed, while
// its session is kept. pool.mu guards all fields below line.
type host struct {
	key     hostKey
	address string // the address to dial
	name    string // what its certificate must be for
	line    []byte // the end of the request line, and the Host header

	conns   int   // connections that are open or being opened
	opening int   // connections that are being opened
	idle    *conn // the idle connection used last; conn.below leads to the others
	idleN   int
	waiting []*waiter // requests that wait for a connection, oldest first

	habits
	pacing
	session
}

// habits are what was measured with the requests to a host. Guarded by pool.mu.
type habits struct {
	// used is when a connection of the host was last given back.
	used time.Duration
	// away is the longest time of late between two uses of the host. 0: not known.
	away      time.Duration
	awayUntil time.Duration // until then a shorter time does not replace away
	// connect is the time of a TCP connect, opens that of a connect and handshake, answer that of
	// an answer: moving averages, 0 where not known.
	connect, opens, answer time.Duration
	// quick is the time of an answer that nothing delays: about the shortest of late.
	quick time.Duration
}

// unknownAway replaces habits.away where that is not known.
const unknownAway = 45 * time.Second

// begins records that a request finds no other request to the host under way.
func (h *habits) begins(now time.Duration) {
	if gap := now - h.used; h.used > 0 && (gap >= h.away || now > h.awayUntil) {
		h.away, h.awayUntil = gap, now+2*gap
	}
}

// nextUse forecasts when a host is used again whose connection has been idle since a time. The
// forecast is never for a host that was away for more than twice as long as before.
func (h *habits) nextUse(since, now time.Duration) time.Duration {
	away := h.away
	if away == 0 {
		away = unknownAway
	}
	if now-since > 2*away {
		return never
	}
	return since + away
}

// never is later than any forecast.
const never = time.Duration(1<<63 - 1)

// average moves a moving average a quarter of the way to a sample.
func average(of *time.Duration, sample time.Duration) {
	if *of == 0 {
		*of = max(sample, 1)
		return
	}
	*of += (sample - *of) / 4
}

// newHost reads an authority as net/http does.
func newHost(key hostKey) (*host, error) {
	u := url.URL{Host: key.authority}
	name, port := u.Hostname(), u.Port()
	if port == "" {
		if port = "80"; key.secure {
			port = "443"
		}
	}
	header, err := httpguts.PunycodeHostPort(key.authority)
	if err != nil || name == "" || !httpguts.ValidHostHeader(header) {
		return nil, fmt.Errorf("%w: %q", ErrBadHost, key.authority)
	}
	// PunycodeHostPort changes only what is not ASCII.
	if ascii, err := idna.Lookup.ToASCII(name); err == nil && header != key.authority {
		name = ascii
	}
	return &host{
		key: key, address: net.JoinHostPort(name, port), name: name,
		line: []byte(" HTTP/1.1\r\nHost: " + withoutZone(header) + "\r\n"),
	}, nil
}

// withoutZone removes the zone of an IPv6 address, which means nothing to others (RFC 6874 §4).
func withoutZone(host string) string {
	end := strings.LastIndexByte(host, ']')
	if !strings.HasPrefix(host, "[") || end < 0 {
		return host
	}
	zone := strings.LastIndexByte(host[:end], '%')
	if zone < 0 {
		return host
	}
	return host[:zone] + host[end:]
}

// unused reports whether a host has no connections and no waiting requests.
func (h *host) unused() bool { return h.conns == 0 && len(h.waiting) == 0 }

// known reports whether both times of a host were measured: to open a connection, and to answer.
func (h *habits) known() bool { return h.opens > 0 && h.answer > 0 }

// answered records how long an answer took. mu is held.
func (h *host) answered(took time.Duration) {
	if h.answer == 0 {
		// Nothing was known when the waiting requests became urgent.
		h.urgent = 0
		for _, w := range h.waiting {
			if w.fresh {
				h.urgent++
			}
		}
	}
	average(&h.answer, took)
	if took = max(took, 1); h.quick == 0 || took < h.quick {
		h.quick = took
	} else {
		h.quick += (took - h.quick) / 16
	}
}

// lined returns how long the host has been in pace.hosts, in all. mu is held.
func (h *host) lined(now time.Duration) time.Duration {
	if !h.queued {
		return h.inLine
	}
	return h.inLine + now - h.queuedAt
}

// hand ends the wait of a request with a grant. mu is held.
func (h *host) hand(i int, g grant) {
	w := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	h.urgent = min(h.urgent, len(h.waiting))
	if len(h.waiting) == 0 && h.nagging != nil {
		h.nagging.Stop()
	}
	w.x.waiter = nil
	w.got <- g
}

// pacing is the part of a host that pace owns.
type pacing struct {
	queued   bool // in pace.hosts
	queuedAt time.Duration
	inLine   time.Duration // how long it was in pace.hosts before
	urgent   int           // requests that have waited for longer than expected
	nagging  *time.Timer   // calls nag at nagAt while requests wait; nil before the first
	nagAt    time.Duration
	begun    time.Duration // when it began to open the oldest connection that is not open yet
	opened   time.Duration // when the latest connection was open
}

// session is the latest TLS session of a host, which its next connection resumes. Guarded by
// pool.mu.
type session struct {
	resume *tls.ClientSessionState
	bytes  int64 // of memory, by estimate
	excess int64 // of that, socket.excess of the handshake that it is from
	// remembered: the host is in hosts.remembered, at place.
	remembered bool
	place      int
}

// waiter is a request that waits for a connection, or for the right to open one.
type waiter struct {
	x        *exchange
	host     *host
	due      time.Duration // when it asks for another connection
	patience time.Duration // how long it waits until then
	known    bool          // patience was computed from measured times (habits.known)
	inLine   time.Duration // host.lined when it began to wait, or its deadline was last extended
	fresh    bool          // it needs a connection that was not used before
	got      chan grant
}

// grant is what a waiter receives: a connection, or the right to open one, over TLS with a slot.
// It is empty if the request was broken off.
type grant struct {
	conn *conn
	open bool
	slot *slot
}

// giveUp ends the wait of a request that is broken off. mu is held.
func (w *waiter) giveUp() {
	w.host.hand(slices.Index(w.host.waiting, w), grant{})
}

// slot is the right of one handshake to compute. pool.mu guards it.
type slot struct {
	held   bool
	counts bool          // among slots.begun
	since  time.Duration // when it was taken
	left   time.Duration // since when its handshake waits for the network; never: it does not
	spent  time.Duration // how long it was held before
	waited time.Duration // how long its handshake waited for the network before
	got    chan struct{} // receives when acquire gets the slot
}

// samples is how many elements latest compares, picked at random. The result is, about, in the
// latest eighth of all.
const samples = 12

// latest returns the element with the latest time among samples of them, or among all where there
// are few.
func latest[T any](of []T, at func(T) time.Duration) (found T) {
	when := time.Duration(-1)
	for i := range min(len(of), samples) {
		if len(of) > samples {
			i = rand.IntN(len(of))
		}
		if t := at(of[i]); t > when {
			found, when = of[i], t
		}
	}
	return found
}

// conn is a connection. One exchange at a time owns it, or the pool.
type conn struct {
	host *host
	nc   net.Conn
	// raw is the socket of nc if requests may bypass nc, else nil.
	raw syscall.RawConn
	// socket is the connection under TLS, nil without TLS.
	socket *socket
	bytes  int64 // of memory while it is idle, by estimate

	// Guarded by pool.mu:
	used         bool          // it was given back before
	since        time.Duration // when it was last given back
	place        int           // in idleSet.all
	prev, next   *conn         // in idleSet
	above, below *conn         // among the idle ones of its host
}

// Memory of an idle connection, without that of the kernel: measured, and a third more for the
// garbage collector. With TLS each certificate of the host adds CertificateBytes and twice its
// size, and a handshake of more than usualHandshake adds the rest.
const (
	PlainBytes       = 2 << 10
	TLSBytes         = 14 << 10
	CertificateBytes = 2 << 10
)

// close closes an idle connection, with the farewell of TLS.
func (cn *conn) close() { _ = cn.nc.Close() }

// abort closes a connection without the farewell of TLS, which would wait for a server that does
// not read. It does nothing for nil.
func (cn *conn) abort() {
	if cn == nil {
		return
	}
	if secured, ok := cn.nc.(*tls.Conn); ok {
		_ = secured.NetConn().Close()
		return
	}
	_ = cn.nc.Close()
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.close()
	}
}

func abortAll(conns []*conn) {
	for _, cn := range conns {
		cn.abort()
	}
}

// quietTLS is quiet for a connection with TLS. It looks at what crypto/tls has read already, and
// then at the socket.
func (cn *conn) quietTLS() bool {
	return cn.readsNothing(readNow) && cn.socket.between()
}

// emptyTLS reports whether crypto/tls has read nothing that it has not returned.
func (cn *conn) emptyTLS() bool { return cn.readsNothing(readNothing) && cn.socket.between() }

func (cn *conn) readsNothing(how reading) bool {
	cn.socket.reading = how
	nothing := readsNothing(cn.nc)
	cn.socket.reading = readWaits
	return nothing
}

// hasSomething reports whether bytes or the end have arrived on an idle connection. It is false for
// a connection that cannot be read without waiting.
func (cn *conn) hasSomething() bool {
	raw := cn.raw
	if cn.socket != nil {
		raw = cn.socket.raw
	}
	something := false
	if raw != nil {
		_ = raw.Control(func(fd uintptr) { something = !empty(fd) })
	}
	return something
}

// readsNothing reports whether a read ends by its deadline.
func readsNothing(nc net.Conn) bool {
	var one [1]byte
	n, err := nc.Read(one[:])
	timeout, ok := err.(net.Error)
	return n == 0 && ok && timeout.Timeout()
}
