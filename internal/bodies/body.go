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

// Limits are how long a body may be, and how slowly it may come.
type Limits struct {
	Most    int64         // bytes, as it comes and unpacked
	Idle    time.Duration // until its next byte
	Rate    int64         // bytes a second, on the average, beside one Idle
	Timeout time.Duration // for all of a body; 0 for none
	// Unpack returns the content of a body that is encoded. nil: the body is the content.
	Unpack func(io.Reader) (io.Reader, error)
}

// Read reads the whole body of a request. Its memory stays counted in held, also after an error:
// *http.MaxBytesError beyond Most, os.ErrDeadlineExceeded if the client stops in the middle or is
// too slow, the Room's if there is no room.
func (l Limits) Read(w http.ResponseWriter, r *http.Request, held *Held) ([]byte, error) {
	announced := r.ContentLength
	if announced > l.Most {
		return nil, &http.MaxBytesError{Limit: l.Most}
	}
	// Without room for the announced size the client need not send it.
	if err := held.Grow(max(0, announced)); err != nil {
		return nil, err
	}
	held.Release()
	paced := l.pace(w, r.Body)
	var content io.Reader = paced
	if l.Unpack != nil {
		var err error
		announced = -1
		content, err = l.Unpack(http.MaxBytesReader(nil, io.NopCloser(paced), l.Most))
		if err != nil {
			return nil, err
		}
	}
	body, err := TakeIn(held, announced, l.Most, content)
	if err != nil {
		return nil, err
	}
	// The server watches the connection from the end of the body on; an old
	// deadline would look as if the client had hung up.
	_ = paced.control.SetReadDeadline(time.Time{})
	return body, nil
}

// Stream returns the content of a body of any length, which may come as slowly as Read allows.
func (l Limits) Stream(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	if l.Unpack == nil {
		return l.pace(w, r.Body), nil
	}
	return l.Unpack(l.pace(w, r.Body))
}

func (l Limits) pace(w http.ResponseWriter, body io.Reader) *paced {
	return &paced{in: body, control: http.NewResponseController(w), limits: l, begun: time.Now()}
}

// paced is a body that must keep coming. Each part of it must be there within the time that it
// takes at the least rate and one Idle, and no byte may be late by more than Idle.
type paced struct {
	in      io.Reader
	control *http.ResponseController
	limits  Limits
	begun   time.Time
	got     int64
	left    int64     // bytes that the part may still have
	end     time.Time // of the part
}

// Read reads what comes next.
func (b *paced) Read(p []byte) (int, error) {
	now := time.Now()
	if b.left <= 0 {
		b.left = partAfter(b.got)
		slowest := time.Duration(float64(b.left) / float64(b.limits.Rate) * float64(time.Second))
		b.end = now.Add(b.limits.Idle + slowest)
		if all := b.begun.Add(b.limits.Timeout); b.limits.Timeout > 0 && b.end.After(all) {
			b.end = all
		}
	}
	deadline := now.Add(b.limits.Idle)
	if deadline.After(b.end) {
		deadline = b.end
	}
	// A writer without deadlines leaves the waiting to the server's own.
	_ = b.control.SetReadDeadline(deadline)
	n, err := b.in.Read(p)
	b.got += int64(n)
	b.left -= int64(n)
	return n, err
}

// partAfter returns the size of the part that follows so many bytes.
func partAfter(size int64) int64 { return min(max(partLeast, size), partMost) }

// TakeIn reads a body of the length that was announced, or of any length up to limit if that is
// negative, part by part. Its errors are those of Limits.Read.
func TakeIn(h *Held, announced, limit int64, in io.Reader) ([]byte, error) {
	if announced >= 0 {
		limit = announced
	}
	var few [1][]byte // enough for most, without an allocation
	parts := few[:0]
	var err error
	for size := int64(0); size != announced && err == nil; {
		next := min(partAfter(size), limit-size)
		if err := h.Grow(next); err != nil {
			return nil, err
		}
		// One byte beyond the limit shows that the body is too long.
		part := make([]byte, max(next, 1))
		n := 0
		for n < len(part) && err == nil {
			var m int
			m, err = in.Read(part[n:])
			n += m
		}
		parts = append(parts, part[:n])
		if size += int64(n); size > limit {
			return nil, &http.MaxBytesError{Limit: limit}
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return join(parts), nil
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
