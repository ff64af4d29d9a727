package h1

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// socket is a connection under TLS. It belongs to the goroutine that reads.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil: it cannot be read without waiting
	// looking: a read ends as at a deadline where it would wait.
	looking bool
	// wait is called, while a handshake is under way, with a read that waits.
	wait func(read func()) error
	framing
}

// Read reads some bytes of TLS records.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.read(b)
	s.pass(b[:n])
	return n, err
}

func (s *socket) read(b []byte) (n int, err error) {
	switch {
	case s.looking:
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
