package h1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// socket is the connection under TLS. The goroutine that reads owns its fields.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil: each read may block
	// reading is how the next read behaves where nothing has come.
	reading reading
	// stepping: a step runs, and no other goroutine writes. Write reads it and not reading, which
	// may change while a large body is written beside the answer.
	stepping bool
	fd       uintptr // the file descriptor, valid while raw runs a function
	// wait runs a read or a write that may block. Set during a handshake, else nil.
	wait func(io func()) error
	// handshake counts the bytes that were read during the handshake.
	handshake int64
	// excess is what the connection keeps of a handshake beyond usualHandshake, in bytes.
	excess int64
	framing
}

// Bounds on what a server sends in a handshake. crypto/tls keeps its messages whole, for as long
// as a certificate or an OCSP response in them is used. Most take 2 to 8 KiB.
const (
	usualHandshake = 16 << 10
	maxHandshake   = 96 << 10
)

// errLongHandshake begins as the errors of crypto/tls do, which are of one class.
var errLongHandshake = fmt.Errorf("tls: the handshake of the server is too long (allowed: %d bytes)", maxHandshake)

// reading is how a read of a socket behaves where nothing has come.
type reading uint8

const (
	readWaits   reading = iota
	readNow             // it fails as at a deadline
	readHere            // likewise, within a step
	readNothing         // it fails likewise, without a look at the socket
)

// Read reads bytes of TLS records, and counts those of a handshake.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.read(b)
	s.pass(b[:n])
	if s.wait != nil {
		if s.handshake += int64(n); s.handshake > maxHandshake {
			return 0, errLongHandshake
		}
		s.excess = max(s.excess, s.handshake-usualHandshake)
	}
	return n, err
}

func (s *socket) read(b []byte) (n int, err error) {
	switch {
	case s.reading == readNothing:
		return 0, os.ErrDeadlineExceeded
	case s.reading == readHere:
		return s.readHere(b)
	case s.reading == readNow:
		return s.readNow(b)
	case s.wait == nil:
		return s.Conn.Read(b)
	case s.raw != nil:
		if n, err = s.readNow(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	if ended := s.wait(func() { n, err = s.Conn.Read(b) }); ended != nil {
		return 0, ended
	}
	return n, err
}

// Write writes TLS records, at once as far as the socket takes them. During a handshake it waits
// by s.wait for the rest: a server that does not read must not hold a slot.
func (s *socket) Write(b []byte) (n int, err error) {
	switch {
	case s.stepping:
		n = s.writeHere(b)
	case s.wait != nil && s.raw != nil:
		n = s.writeNow(b)
	}
	if n == len(b) {
		return n, nil
	}
	rest := 0
	write := func() { rest, err = s.Conn.Write(b[n:]) }
	if s.wait == nil {
		write()
	} else if ended := s.wait(write); ended != nil {
		err = ended
	}
	return n + rest, err
}
