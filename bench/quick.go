package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
)

// noContent is the answer to every notification that is taken.
const noContent = "HTTP/1.1 204 No Content\r\n\r\n"

// connBuffer is what one read takes at most.
const connBuffer = 16 << 10

// quick serves notifications on one connection with two system calls each, a read and a write, and
// nothing unneeded between them. It leaves everything else, unread, to sink.converse.
//
// The whole conversation happens inside one RawConn.Read. Within one, the arrival of bytes is never
// missed between a read that emptied the socket and the wait for more. So no read is needed only to
// learn that there is nothing yet.
type quick struct {
	tally *tally
	buf   []byte
	r, w  int    // the part that is read and not used yet
	body  int    // bytes of the request's body that are still to come
	out   []byte // answers to be written
	err   error
}

// serve returns when the connection is over, with an error, or when something else
// than a notification came, with nil: then rest is what was read of that. before
// is what was read already.
func (q *quick) serve(conn *net.TCPConn, before []byte) (rest []byte, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	q.r, q.w = 0, copy(q.buf, before)
	other := q.use()
	for {
		err := raw.Read(func(fd uintptr) bool {
			var wait bool
			if !q.write(int(fd)) || other {
				return true
			}
			wait, other = q.turn(int(fd))
			return !wait
		})
		if err = errors.Join(err, q.err); err != nil {
			return nil, err
		}
		if len(q.out) > 0 { // the peer does not read: wait for it
			if _, err := conn.Write(q.out); err != nil {
				return nil, err
			}
			q.out = q.out[:0]
		}
		if other {
			return q.buf[q.r:q.w], nil
		}
	}
}

// turn reads what there is and answers it. wait: there is no more for now.
func (q *quick) turn(fd int) (wait, other bool) {
	for {
		n, err := readFD(fd, q.buf[q.w:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true, false
		case err == nil && n == 0:
			err = io.EOF
		}
		if err != nil {
			q.err = err
			return false, false
		}
		q.w += n
		emptied := q.w < len(q.buf)
		other = q.use()
		if !q.write(fd) || other {
			return false, other
		}
		if emptied {
			return true, false
		}
	}
}

// write writes the answers; false: not all of them could be.
func (q *quick) write(fd int) bool {
	for len(q.out) > 0 {
		n, err := writeFD(fd, q.out)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			q.err = err
			return false
		}
		q.out = append(q.out[:0], q.out[n:]...)
	}
	return true
}

// use takes the requests that are whole, and leaves the beginning of the next
// at the front of the buffer. other: it is something else than a notification.
func (q *quick) use() (other bool) {
	for q.r < q.w {
		if q.body > 0 {
			n := min(q.body, q.w-q.r)
			q.r, q.body = q.r+n, q.body-n
			if q.body == 0 {
				q.taken()
			}
			continue
		}
		whole, ours := q.head()
		if !ours {
			return true
		}
		if !whole {
			break
		}
	}
	copy(q.buf, q.buf[q.r:q.w])
	q.r, q.w = 0, q.w-q.r
	return q.w == len(q.buf) // a head that does not fit
}

var (
	callbackStart = []byte("POST " + pathCallback)
	heldStart     = []byte("POST " + pathHeld)
	headEnd       = []byte("\r\n\r\n")
	lengthField   = []byte("\r\nContent-Length: ")
)

// head reads the head of a request and the stamp in its body. whole: both are there.
func (q *quick) head() (whole, ours bool) {
	data := q.buf[q.r:q.w]
	atOnce := startsLike(data, callbackStart) || startsLike(data, heldStart) && !q.tally.holding()
	if q.tally.checks.Load() != nil || !atOnce {
		return false, false
	}
	end := bytes.Index(data, headEnd)
	if end < 0 {
		return false, true
	}
	length, ok := contentLength(data[:end+2])
	if !ok {
		return false, false
	}
	body := data[end+len(headEnd):]
	if len(body) < min(length, stampSize) {
		return false, true
	}
	q.tally.timed(body)
	q.r += end + len(headEnd)
	if q.body = length; length == 0 {
		q.taken()
	}
	return true, true
}

// startsLike reports whether data starts as the other does, as far as it is there.
func startsLike(data, start []byte) bool {
	n := min(len(data), len(start))
	return bytes.Equal(data[:n], start[:n])
}

func contentLength(head []byte) (int, bool) {
	_, value, found := bytes.Cut(head, lengthField)
	if !found {
		return 0, false
	}
	n := 0
	for i, c := range value {
		if c == '\r' {
			return n, i > 0
		}
		if c < '0' || c > '9' || n > 1<<30 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return 0, false
}

func (q *quick) taken() {
	q.tally.count.Add(1)
	q.out = append(q.out, noContent...)
}
