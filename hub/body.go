package hub

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// readBody reads the whole body of a request: *http.MaxBytesError beyond limit,
// os.ErrDeadlineExceeded if the client stops in the middle or takes too long.
func (h *Hub) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	in := &patientReader{
		in:      http.MaxBytesReader(w, r.Body, limit),
		control: http.NewResponseController(w),
		idle:    h.cfg.BodyIdle,
		end:     time.Now().Add(h.cfg.BodyTimeout),
	}
	body, err := readAll(in, r.ContentLength)
	if err != nil {
		return nil, readError(err)
	}
	// The server watches the connection from the end of the body on; an old
	// deadline would look as if the client had hung up.
	_ = in.control.SetReadDeadline(time.Time{})
	return body, nil
}

// readAll reads a body of the length that was announced, or of any length if
// it is negative.
func readAll(in io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(in)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(in, body)
	return body, err
}

// readError keeps the errors of reading that the table of answers knows; every
// other says that the body broke off or was not HTTP.
func readError(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) || answerFor(err).status == http.StatusRequestTimeout ||
		answerFor(err).status == http.StatusBadRequest {
		return err
	}
	return &requestError{http.StatusBadRequest, "The body could not be read to its end.", err}
}

// patientReader waits for the client's next bytes only so long.
type patientReader struct {
	in      io.Reader
	control *http.ResponseController
	idle    time.Duration
	end     time.Time
}

// Read reads from the client, before the deadline.
func (p *patientReader) Read(b []byte) (int, error) {
	deadline := time.Now().Add(p.idle)
	if deadline.After(p.end) {
		deadline = p.end
	}
	// A writer without deadlines leaves the waiting to the server's own.
	_ = p.control.SetReadDeadline(deadline)
	return p.in.Read(b)
}

// lingering is how long a body that nobody wants any more is still taken in, so that
// the client comes to read the answer.
const lingering = time.Second

// trackedBody knows whether the body was read to its end.
type trackedBody struct {
	io.ReadCloser
	done bool
}

// Read reads from the body.
func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.done = b.done || err == io.EOF
	return n, err
}

// abandon prepares an answer to a request whose body was not read to its end: the
// server would wait for the rest before it answers, however long that takes.
func abandon(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingering))
}
