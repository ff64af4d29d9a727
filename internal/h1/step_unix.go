//go:build unix

package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// canStep: requests go out and answers come in by system calls of our own.
const canStep = true

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
	if x.phase == phaseWrite {
		if x.look && !nothingThere(fd) {
			x.err = errStale
			return true
		}
		x.phase = phaseRead
		x.writeNow(fd)
		if x.writeErr == nil && (x.look || !x.sentAll()) {
			return !x.sentAll()
		}
		// Else an answer may be there: from a server that did not wait for the request,
		// or before the connection broke.
	}
	for {
		n, err := syscall.Read(int(fd), x.in[x.n:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			x.err = x.writeErr
			return x.err != nil
		case err != nil:
			x.err = netError("read", err)
			return true
		case n == 0:
			x.err = io.EOF
			return true
		}
		if x.received(n) {
			return true
		}
	}
}

// writeNow writes as much of the request as the socket takes without waiting.
func (x *exchange) writeNow(fd uintptr) {
	for !x.sentAll() {
		head, body := x.rest()
		n, err := writeFD(fd, head, body)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return
		case err != nil:
			x.writeErr = netError("write", err)
			return
		}
		x.sent += n
	}
}

// peekFD reads a byte, and leaves it there.
func peekFD(fd uintptr) (int, error) {
	var one [1]byte
	n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}

// netError makes of an error what net would have made of it.
func netError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
}

// nothingThere tells whether a read would wait.
func nothingThere(fd uintptr) bool {
	var one [1]byte
	for {
		_, err := syscall.Read(int(fd), one[:])
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

// stepTLS is step for a connection with TLS: it writes and reads records in the same way. If bytes
// arrived before the request, it sets errSpoken, and crypto/tls has to judge them.
func (x *exchange) stepTLS(fd uintptr) bool {
	s := x.secure.socket
	s.reading, s.stepping, s.fd = readHere, true, fd
	defer func() { s.reading, s.stepping = readWaits, false }()
	if x.phase == phaseWrite {
		if x.look && !empty(fd) {
			x.err = errSpoken
			return true
		}
		x.phase = phaseRead
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

// empty reports whether a read would wait. It consumes nothing.
func empty(fd uintptr) bool {
	for {
		_, err := peekFD(fd)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

// writeHere writes as much as the socket takes without waiting. Errors come again.
func (s *socket) writeHere(b []byte) (written int) {
	for written < len(b) {
		n, err := writeFD(s.fd, nil, b[written:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break
		}
		written += n
	}
	return written
}

// writeNow is writeHere outside of a step.
func (s *socket) writeNow(b []byte) (n int) {
	_ = s.raw.Write(func(fd uintptr) bool {
		s.fd = fd
		n = s.writeHere(b)
		return true
	})
	return n
}

// readHere reads what has come.
func (s *socket) readHere(b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(s.fd), b)
		if err != syscall.EINTR {
			return readOf(n, err)
		}
	}
}

// readNow is readHere outside of a step.
func (s *socket) readNow(b []byte) (n int, err error) {
	broken := s.raw.Read(func(fd uintptr) bool {
		s.fd = fd
		n, err = s.readHere(b)
		return true
	})
	if broken != nil {
		return 0, broken
	}
	return n, err
}

// readOf makes of what a read has given what net would have made of it.
func readOf(n int, err error) (int, error) {
	switch {
	case err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, netError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
