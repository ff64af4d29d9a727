package h1

import (
	"errors"
	"os"
	"sync"
)

func newExchange(mu *sync.Mutex, joined *sync.Pool, maxHeader int64) *exchange {
	x := &exchange{mu: mu, joined: joined, maxHeader: maxHeader, in: make([]byte, headBytes)}
	x.onReady, x.onTLS = x.step, x.stepTLS
	return x
}

// step is called by RawConn.Read, first at once and then whenever the socket has
// become readable. The first time it writes: the wait for the answer then begins
// without a read that finds nothing. RawConn.Read has forgotten by then that there
// was something to read, and no wake-up comes for that again: so step waits only
// where it has found nothing itself, by its look at a connection that was used or by
// a read.
//
// It returns false to be called again, and true when the answer's head is there, the
// request did not go out wholly, or something is wrong.
func (x *exchange) step(fd uintptr) bool {
	if !x.asked {
		if x.look && !nothingThere(fd) {
			x.err = errStale
			return true
		}
		x.asked = true
		x.writeNow(fd)
		if x.writeErr == nil && (x.look || !x.sentAll()) {
			return !x.sentAll()
		}
		// Else an answer may be there: from a server that did not wait for the request,
		// or before the connection broke.
	}
	for {
		n, err := readFD(fd, x.in[x.n:])
		switch {
		case err == os.ErrDeadlineExceeded:
			x.err = x.writeErr
			return x.err != nil
		case err != nil:
			x.err = err
			return true
		case x.received(n):
			return true
		}
	}
}

// writeNow writes as much of the request as the socket takes without waiting.
func (x *exchange) writeNow(fd uintptr) {
	for !x.sentAll() {
		head, body := x.rest()
		n, err := writeFD(fd, head, body)
		if err != nil {
			if err != os.ErrDeadlineExceeded {
				x.writeErr = err
			}
			return
		}
		x.sent += n
	}
}

// stepTLS is step for a connection with TLS: it writes and reads records in the same way. If bytes
// arrived before the request, it sets errSpoken, and crypto/tls has to judge them.
func (x *exchange) stepTLS(fd uintptr) bool {
	s := x.secure.socket
	s.reading, s.stepping, s.fd = readHere, true, fd
	defer func() { s.reading, s.stepping = readWaits, false }()
	if !x.asked {
		if x.look && !empty(fd) {
			x.err = errSpoken
			return true
		}
		x.asked = true
		x.writeErr = x.writeJoined(x.secure.nc)
		if x.writeErr == nil && x.look {
			return false
		}
	}
	for {
		n, err := x.secure.nc.Read(x.in[x.n:])
		switch {
		case n > 0 && x.received(n):
			return true
		case errors.Is(err, os.ErrDeadlineExceeded):
			x.err = x.writeErr
			return x.err != nil
		case err != nil:
			x.err = err
			return true
		}
	}
}
