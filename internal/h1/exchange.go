package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Sizes of what an exchange holds while it is under way, from a pool.
const (
	// copyBody is up to which size a body is copied behind its header. A larger one is written from its
	// place, once for all its requests: a request under way holds no more than this, headBytes and its
	// header.
	copyBody = 2 << 10
	// joinBody is up to which size a body is copied for TLS while it is written, so that
	// it goes out with its header.
	joinBody = 16 << 10
	// headBytes is how large a header the fast path reads.
	headBytes = 4 << 10
	// keptOut is how large a buffer goes back to the pool.
	keptOut = 8 << 10
)

// Bounds on what is read behind the head of an answer, so that its connection can be
// used again: the outcome is known by then.
const (
	drainBytes = 16 << 10
	drainTime  = time.Second
)

// graceTime is how long a request has to get out when its answer is there: it may be
// out already, and only not known to be.
const graceTime = 20 * time.Millisecond

// errStale: the connection was closed, or spoken on, before anything was sent.
var errStale = errors.New("the connection was no longer idle")

// errSpoken: something came over TLS before anything was sent.
var errSpoken = errors.New("something came")

// entry is an exchange as the Client lists it. pool.mu guards it.
type entry struct {
	prev, next *exchange
	listed     bool
	deadline   time.Duration // extend moves it; else it stays while under way
	conn       *conn         // the one to break, nil before there is one
	broken     error         // why it was broken off
	untimed    bool          // no deadline: its roundTrip breaks it off. Set before begin.
	watch      *watch
	waiter     *waiter       // in the line of a host, nil if it is in none
	began      time.Duration // when it got its connection
}

// watch waits for the end of one context, for all requests made under it.
type watch struct {
	done   <-chan struct{}
	users  int
	recent bool // used since the timer last went off
	ended  bool
	stop   func() bool
}

// exchange is one request and its answer. It is reused; between begin and end it
// belongs to the goroutine of its Post.
type exchange struct {
	mu        *sync.Mutex // pool.mu
	joined    *sync.Pool  // pool.joined
	maxHeader int64       // Config.MaxHeaderBytes
	entry

	look     bool   // the connection was used: see whether it is quiet first
	limited  bool   // the connection has a deadline for reading
	keep     bool   // the connection can be used again
	out      []byte // the header, and the body if it is small
	body     []byte // the body if it is large; shared
	sent     int    // bytes of both that went out
	asked    bool   // a step has written what the socket took
	in       []byte
	n        int // bytes of the answer in it
	verdict  verdict
	head     head
	err      error
	writeErr error
	answer   Answer
	onReady  func(uintptr) bool // step, made once
	onTLS    func(uintptr) bool // stepTLS, likewise
	secure   *conn              // what stepTLS writes to and reads from
}

// use assigns a connection to the exchange. mu is held.
func (x *exchange) use(cn *conn, now time.Duration) {
	x.conn, x.look, x.began = cn, cn.used, now
}

// prepare writes the request down.
func (x *exchange) prepare(h *host, r *Request) {
	b := append(x.out[:0], "POST "...)
	b = append(b, r.Target...)
	b = append(b, h.line...)
	b = append(b, r.Message.lines...)
	b = append(b, r.Lines...)
	b = append(b, "\r\n"...)
	x.body = nil
	if len(r.Message.body) <= copyBody {
		b = append(b, r.Message.body...)
	} else {
		x.body = r.Message.body
	}
	x.out = b
}

// release forgets what belongs to others.
func (x *exchange) release() {
	x.body, x.head, x.answer = nil, head{}, Answer{}
	x.err, x.writeErr = nil, nil
	if cap(x.out) > keptOut {
		x.out = nil
	}
}

func (x *exchange) sentAll() bool { return x.sent == len(x.out)+len(x.body) }

// received counts bytes of the answer and reports whether there is enough of it.
func (x *exchange) received(n int) bool {
	x.n += n
	x.verdict = x.head.parse(x.in[:x.n])
	if x.verdict == incomplete && x.n == len(x.in) {
		x.verdict = odd
	}
	return x.verdict != incomplete
}

// exchange sends the request over the connection and receives its answer, into
// x.answer. x.n reports how much of an answer came; x.keep whether the connection
// is as good as new.
func (x *exchange) exchange(cn *conn) error {
	x.sent, x.n, x.asked, x.verdict = 0, 0, false, incomplete
	x.err, x.writeErr, x.keep, x.limited = nil, nil, false, false
	x.answer, x.head = Answer{}, newHead()
	switch {
	case cn.raw != nil:
		x.run(cn.raw, x.onReady)
	case cn.socket != nil && cn.socket.raw != nil && len(x.body) <= joinBody:
		x.throughTLS(cn)
	case x.look && !x.quiet(cn):
		return errStale
	}
	if x.err == nil && x.verdict != incomplete && x.sentAll() {
		return x.finish(cn)
	}
	return x.goOn(cn)
}

// run runs a step until it is done.
func (x *exchange) run(raw syscall.RawConn, step func(uintptr) bool) {
	if err := raw.Read(step); err != nil && x.err == nil {
		x.err = err
	}
}

// throughTLS sends the request and reads the answer by steps, over TLS.
func (x *exchange) throughTLS(cn *conn) {
	if x.look && !cn.emptyTLS() {
		x.err = errStale
		return
	}
	x.secure = cn
	x.run(cn.socket.raw, x.onTLS)
	if x.err == errSpoken { // a ticket, perhaps
		if x.err = errStale; cn.quietTLS() {
			x.err = nil
			x.run(cn.socket.raw, x.onTLS)
		}
	}
	if x.err == errSpoken {
		x.err = errStale
	}
	x.secure = nil
}

// goOn does the rest of the work through net. A large body is written beside the reading: an answer
// may come before the request is out, and counts.
func (x *exchange) goOn(cn *conn) error {
	if x.err == errStale {
		return x.err
	}
	var writing chan error
	switch {
	case x.sentAll() || x.err != nil || x.writeErr != nil:
	case x.sent == 0 && len(x.body) <= joinBody:
		x.writeErr = x.writeJoined(cn.nc)
	default:
		writing = make(chan error, 1)
		head, body := x.rest()
		both := net.Buffers{head, body}
		go func() {
			_, err := both.WriteTo(cn.nc)
			writing <- err
		}()
	}
	if x.err == nil {
		x.readHead(cn)
	}
	err := x.finish(cn)
	if writing == nil {
		return err
	}
	if !x.keep || !x.limit(cn.nc.SetWriteDeadline, graceTime) {
		cn.abort() // the answer does not come, or its reader has stopped
	}
	x.keep = <-writing == nil && x.keep
	return err
}

// rest is what is still to be written, of the header and of the body.
func (x *exchange) rest() (head, body []byte) {
	if x.sent < len(x.out) {
		return x.out[x.sent:], x.body
	}
	return nil, x.body[x.sent-len(x.out):]
}

// writeJoined writes the request in one piece.
func (x *exchange) writeJoined(w io.Writer) error {
	x.sent = len(x.out) + len(x.body)
	if x.body == nil {
		_, err := w.Write(x.out)
		return err
	}
	joined := x.joined.Get().(*[]byte)
	*joined = append(append((*joined)[:0], x.out...), x.body...)
	_, err := w.Write(*joined)
	x.joined.Put(joined)
	return err
}

// readHead reads until there is enough of the answer.
func (x *exchange) readHead(cn *conn) {
	for x.verdict == incomplete {
		n, err := cn.nc.Read(x.in[x.n:])
		if n > 0 && x.received(n) {
			return
		}
		if err != nil {
			x.err = err
			return
		}
	}
}

// finish makes the answer of what was read.
func (x *exchange) finish(cn *conn) error {
	switch {
	case x.verdict == simple:
		x.answer = Answer{Status: x.head.status, RetryAfter: string(x.head.retryAfter)}
		x.keep = x.drain(cn) && !x.head.close && x.writeErr == nil
		if x.keep && (x.limited || x.n == len(x.in)) {
			x.keep = x.stillQuiet(cn)
		}
		return nil
	case x.verdict == odd, errors.Is(x.err, io.EOF) && x.n > 0:
		return x.readOdd(cn)
	case x.writeErr != nil:
		return x.writeErr
	}
	return x.err
}

// drain reads what is missing of the body of a simple answer, within bounds, and
// reports whether the connection stands right behind it.
func (x *exchange) drain(cn *conn) bool {
	missing := x.head.end + x.head.length - x.n
	if missing <= 0 {
		return missing == 0
	}
	rest := min(missing, drainBytes)
	if !x.limit(cn.nc.SetReadDeadline, drainTime) {
		return false
	}
	got := 0
	for got < rest {
		// With a byte more than is missing, what comes behind shows.
		n, err := cn.nc.Read(x.in[:min(len(x.in), rest-got+1)])
		got += n
		if err != nil {
			return false
		}
	}
	return got == missing
}

// limit gives what is left of an exchange a short time. It must not undo a breaking
// off.
func (x *exchange) limit(set func(time.Time) error, within time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil || set(time.Now().Add(within)) != nil {
		return false
	}
	x.limited = true
	return true
}

// readOdd reads an answer by way of net/http: the part that was read already, and the rest from the
// connection.
func (x *exchange) readOdd(cn *conn) error {
	src := &oddReader{have: x.in[:x.n], nc: cn.nc, left: x.maxHeader}
	buf := bufio.NewReader(src)
	resp, err := src.readFinal(buf, posted)
	if err != nil {
		return err
	}
	x.answer = Answer{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
	x.keep = x.drainOdd(cn, resp) && x.writeErr == nil && x.reusable(cn, resp, src, buf)
	return nil
}

// reusable reports whether the connection of a complete answer may carry another request.
func (x *exchange) reusable(cn *conn, resp *http.Response, src *oddReader, buf *bufio.Reader) bool {
	// Whatever is buffered came unasked.
	return !resp.Close && resp.ProtoAtLeast(1, 1) && resp.StatusCode >= 200 &&
		buf.Buffered() == 0 && len(src.have) == 0 && x.stillQuiet(cn)
}

// drainOdd reads the body within bounds and reports whether it ended.
func (x *exchange) drainOdd(cn *conn, resp *http.Response) bool {
	if resp.ContentLength == 0 {
		return true
	}
	if !x.limit(cn.nc.SetReadDeadline, drainTime) {
		return false
	}
	_, err := io.CopyN(io.Discard, resp.Body, drainBytes+1)
	// The body is not closed: that would read it to its end.
	return err == io.EOF
}

// lookTime is how long a look takes at a connection that is no socket of ours, or on
// a system where sockets cannot be read without waiting.
const lookTime = time.Millisecond

// quiet reports whether nothing has come on a connection, neither bytes nor its end:
// both are no answer to what is sent next. step does the same by itself.
func (x *exchange) quiet(cn *conn) bool {
	switch {
	case cn.raw != nil:
		quiet := false
		err := cn.raw.Read(func(fd uintptr) bool { quiet = nothingThere(fd); return true })
		return err == nil && quiet
	case cn.socket != nil && cn.socket.raw != nil:
		return cn.quietTLS()
	}
	return x.limit(cn.nc.SetReadDeadline, lookTime) && readsNothing(cn.nc) && x.lift(cn) &&
		(cn.socket == nil || cn.socket.between())
}

// stillQuiet is quiet for a connection that may have a deadline for reading.
func (x *exchange) stillQuiet(cn *conn) bool {
	return (!x.limited || x.lift(cn)) && x.quiet(cn)
}

// lift takes a deadline for reading away again. It must not undo a breaking off.
func (x *exchange) lift(cn *conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil || cn.nc.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	x.limited = false
	return true
}
