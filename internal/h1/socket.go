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
		return readFD(s.fd, b)
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

// writeHere writes as much as the socket takes without waiting. Errors come again.
func (s *socket) writeHere(b []byte) (written int) {
	for written < len(b) {
		n, err := writeFD(s.fd, nil, b[written:])
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

// readNow is readHere outside of a step.
func (s *socket) readNow(b []byte) (n int, err error) {
	broken := s.raw.Read(func(fd uintptr) bool {
		n, err = readFD(fd, b)
		return true
	})
	if broken != nil {
		return 0, broken
	}
	return n, err
}

// recordHeader is how long the header of a TLS record is (RFC 8446 §5.1). Its last two bytes
// hold the length of what follows.
const recordHeader = 5

// framing follows where the TLS records end in what is read from a socket. crypto/tls keeps
// an incomplete record to itself, but an idle connection that holds one is not quiet.
type framing struct {
	header [recordHeader]byte
	n      int // bytes of the header, while it is incomplete
	left   int // bytes that are missing of the record
}

// pass records that bytes were read.
func (f *framing) pass(b []byte) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left -= n
			b = b[n:]
			continue
		}
		n := copy(f.header[f.n:], b)
		b = b[n:]
		if f.n += n; f.n == recordHeader {
			f.n, f.left = 0, int(f.header[3])<<8|int(f.header[4])
		}
	}
}

// between reports whether no record is incomplete.
func (f *framing) between() bool { return f.n == 0 && f.left == 0 }
