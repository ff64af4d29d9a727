package bodies

import (
	"io"
	"net/http"
	"time"
)

// partLeast and partMost bound the memory that is taken for a body ahead of what
// has arrived of it: as much again as is there, within these.
const (
	partLeast = 16 << 10
	partMost  = Long
)

// Pace is how slow a client may be.
type Pace struct {
	Idle    time.Duration // until its next byte
	Rate    int64         // bytes a second, on the average, beside one Idle
	Timeout time.Duration // for all of a body
}

// Read reads the whole body of a request. Its memory stays counted in held, also after an error:
// *http.MaxBytesError beyond limit, os.ErrDeadlineExceeded if the client stops in the middle or is
// too slow, the Room's if there is no room.
func Read(w http.ResponseWriter, r *http.Request, limit int64, pace Pace, held *Held) ([]byte, error) {
	in := &reader{
		in:      http.MaxBytesReader(w, r.Body, limit),
		control: http.NewResponseController(w),
		pace:    pace,
		end:     time.Now().Add(pace.Timeout),
	}
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// Without room for the announced size the client need not send it.
	if err := held.Grow(max(0, r.ContentLength)); err != nil {
		return nil, err
	}
	held.Release()
	body, err := TakeIn(held, r.ContentLength, limit, in.fill)
	if err != nil {
		return nil, err
	}
	// The server watches the connection from the end of the body on; an old
	// deadline would look as if the client had hung up.
	_ = in.control.SetReadDeadline(time.Time{})
	return body, nil
}

// reader takes in one body. It waits for the client's next bytes only so long.
type reader struct {
	in      io.Reader
	control *http.ResponseController
	pace    Pace
	end     time.Time
}

// TakeIn reads a body of the length that was announced, or of any length if that is
// negative, part by part, each of which fill reads as far as it can.
func TakeIn(h *Held, announced, limit int64, fill func([]byte) (int, error)) ([]byte, error) {
	if announced >= 0 {
		limit = announced
	}
	var few [1][]byte // enough for most, without an allocation
	parts := few[:0]
	for size := int64(0); size != announced; {
		next := min(max(partLeast, min(size, partMost)), limit-size)
		if err := h.Grow(next); err != nil {
			return nil, err
		}
		// One byte beyond the limit shows that the body is too long.
		part := make([]byte, max(next, 1))
		n, err := fill(part)
		parts = append(parts, part[:n])
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return join(parts), nil
}

// fill reads until the part is full. It must be so within the time that it takes at
// the least rate, and no byte may be late by more than idle.
func (b *reader) fill(part []byte) (n int, err error) {
	slowest := time.Duration(float64(len(part)) / float64(b.pace.Rate) * float64(time.Second))
	end := time.Now().Add(b.pace.Idle + slowest)
	if end.After(b.end) {
		end = b.end
	}
	for n < len(part) && err == nil {
		deadline := time.Now().Add(b.pace.Idle)
		if deadline.After(end) {
			deadline = end
		}
		// A writer without deadlines leaves the waiting to the server's own.
		_ = b.control.SetReadDeadline(deadline)
		var m int
		m, err = b.in.Read(part[n:])
		n += m
	}
	return n, err
}

// join puts the parts together. They are let go one by one; until they are
// collected a body is there twice.
func join(parts [][]byte) []byte {
	if len(parts) == 1 && len(parts[0]) == cap(parts[0]) {
		return parts[0]
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	body := make([]byte, 0, size)
	for i, p := range parts {
		body = append(body, p...)
		parts[i] = nil
	}
	return body
}

// A body that is no longer wanted is still read, so that the client comes to
// read the answer: until nothing comes for lingering, and within these bounds.
const (
	lingering      = time.Second
	lingeringMost  = 5 * time.Second
	lingeringBytes = 64 << 20
)

// Tracked is a body that knows whether it was read to its end.
type Tracked struct {
	io.ReadCloser
	Done bool
}

// Read reads from the body.
func (b *Tracked) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.Done = b.Done || err == io.EOF
	return n, err
}

// Abandon prepares an answer to a request whose body was not read to its end: the
// server would wait for the rest before it answers, however long that takes.
func Abandon(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingering))
}

// Linger takes in the rest of an abandoned body after the answer: a connection
// that is closed before would be reset, and the answer lost (RFC 9112 §9.6).
// net/http itself takes in nothing of a body of more than 256 KiB.
func Linger(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	end := time.Now().Add(lingeringMost)
	buf := make([]byte, 16<<10)
	for left := lingeringBytes; left > 0; {
		deadline := time.Now().Add(lingering)
		if deadline.After(end) {
			deadline = end
		}
		if control.SetReadDeadline(deadline) != nil {
			return
		}
		n, err := body.Read(buf)
		if err != nil {
			return
		}
		left -= n
	}
}
