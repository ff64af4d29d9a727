package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// rawPublisher publishes the same again and again on a connection of its own, with
// two system calls each and no allocation: it shares the processors with
// the hub, and what it costs is not what is measured. It is for one goroutine.
type rawPublisher struct {
	conn    *net.TCPConn
	raw     syscall.RawConn
	request []byte
	buf     []byte // of the answer
	got     int    // its bytes so far
	sent    bool
	err     error
	wanted  func(fd uintptr) bool // step, as a value once and for all
}

// dial opens a connection that publishes this.
func (p *publication) dial(ctx context.Context) (*rawPublisher, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.hub.intake)
	if err != nil {
		return nil, err
	}
	raw := &rawPublisher{conn: conn.(*net.TCPConn), buf: make([]byte, 4<<10)}
	raw.request = fmt.Appendf(nil, "POST /websub/ HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nLink: %s\r\nContent-Length: %d\r\n\r\n%s",
		p.hub.intake, p.link, len(p.body), p.body)
	raw.wanted = raw.step
	if raw.raw, err = raw.conn.SyscallConn(); err != nil {
		conn.Close()
		return nil, err
	}
	return raw, nil
}

// publish returns when it is answered: an error unless with 200.
func (p *rawPublisher) publish() error {
	p.got, p.sent, p.err = 0, false, nil
	if err := errors.Join(p.raw.Read(p.wanted), p.err); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	return nil
}

// step is called by RawConn.Read at once and then whenever something has come. The
// request is written within it as well, so that no read is needed only to learn that
// there is no answer yet.
func (p *rawPublisher) step(fd uintptr) (done bool) {
	if !p.sent {
		p.sent = true
		n, err := retried(syscall.Write, int(fd), p.request)
		if err == nil && n < len(p.request) {
			err = io.ErrShortWrite // the answer before was read: the socket has room for more than one
		}
		p.err = err
		return err != nil
	}
	n, err := retried(syscall.Read, int(fd), p.buf[p.got:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		p.err = err
		return true
	}
	p.got += n
	return p.answered()
}

// answered reports whether the answer is whole, and notes what is wrong with it.
func (p *rawPublisher) answered() bool {
	head, body, found := bytes.Cut(p.buf[:p.got], headEnd)
	if !found {
		if p.got == len(p.buf) {
			p.err = errors.New("the head of the answer is too long")
		}
		return p.err != nil
	}
	length, ok := contentLength(append(head, "\r\n"...)) // over those that are there
	switch {
	case !ok || !bytes.HasPrefix(head, okStart):
		p.err = fmt.Errorf("answered %q", p.buf[:p.got])
	case len(body) < length && p.got < len(p.buf):
		return false
	case len(body) != length:
		p.err = fmt.Errorf("%d bytes after the head, not %d", len(body), length)
	}
	return true
}

var okStart = fmt.Appendf(nil, "HTTP/1.1 %d ", http.StatusOK)

// retried makes a system call on a socket that does not block.
func retried(call func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		n, err := call(fd, p)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func (p *rawPublisher) close() { _ = p.conn.Close() }
