package page

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"carillon/admin"
)

// stream is an answer of server-sent events.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	ctx context.Context // ends with it
	may func() bool     // tells whether the client may see the pages still
	// cancel ends what is done for the client, and close gives the stream back after that.
	cancel context.CancelFunc
	close  func()
}

// Limits of a stream.
const (
	sendWithin = 10 * time.Second // one event, to a client that does not read
	beatEvery  = 15 * time.Second // something is sent, so that who is gone or signed out is noticed
	maxStream  = time.Hour        // all of it; the page asks anew
)

// errGone: there is nobody to answer.
var errGone = errors.New("the client is gone, or has signed out")

// open begins a stream. Where a page of somebody else asks, there is none: what it costs,
// and what a test callback subscribes to, is for operators to say.
func (p *Pages) open(w http.ResponseWriter, r *http.Request) (*stream, error) {
	if admin.Foreign(r) {
		return nil, &trouble{Status: http.StatusForbidden, Title: "A page of another origin may not listen here"}
	}
	select {
	case p.streams <- struct{}{}:
	default:
		return nil, &trouble{
			Status: http.StatusServiceUnavailable, Title: "Too many live pages are open",
			Advice: "Close some of them, or load the page by hand.",
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxStream)
	s := &stream{w: w, rc: http.NewResponseController(w), ctx: ctx, may: func() bool { return p.cfg.Auth.May(r) }, cancel: cancel}
	s.close = func() { cancel(); <-p.streams }
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that collects would hold it back
	// A request without a body has been read: nothing more is due from the client.
	_ = s.rc.SetReadDeadline(time.Time{}) // where there are no deadlines there is none to lift
	if err := s.write([]byte("retry: 2000\n\n")); err != nil {
		s.close()
		return nil, errGone
	}
	return s, nil
}

// send sends an event, to who may still see the pages; kind "" is a message.
func (s *stream) send(kind string, data []byte) error {
	if !s.may() {
		return errGone
	}
	var event bytes.Buffer
	if kind != "" {
		event.WriteString("event: " + kind + "\n")
	}
	for l := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		event.WriteString("data: ")
		event.Write(bytes.TrimSuffix(l, []byte("\n")))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return s.write(event.Bytes())
}

// beat sends nothing, to who may still see the pages.
func (s *stream) beat() error {
	if !s.may() {
		return errGone
	}
	return s.write([]byte(":\n\n"))
}

func (s *stream) write(p []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(sendWithin)) // likewise
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.rc.Flush()
}
