package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

// Bounds of streams (text/event-stream).
const (
	// maxStreams are open at a time: 503 beyond. It stops pages that are left open, in many
	// windows, from taking every connection.
	maxStreams = 32
	// BeatEvery is how often a stream says that it lives, and looks whether who reads it still may.
	BeatEvery = 15 * time.Second
	// sendWithin is how long one event may take to be taken in: the listener has a limit
	// for a whole answer, which streams set anew with each event.
	sendWithin = 30 * time.Second
	// overviewEvery is how often the overview is sent.
	overviewEvery = 2 * time.Second
	// maxListen is how long a test callback lasts.
	maxListen = time.Hour
)

// Stream is an answer of server-sent events, to who may read it: it is looked at again before
// each. One goroutine writes it.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	may     func() bool // tells whether who reads it still may
}

// errMayNot ends a stream.
var errMayNot = errors.New("who reads the stream may not any more")

// streamHeader says that the answer is a stream.
func streamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that collects would hold it back
}

// NewStream begins to answer a request with a stream. An error says that nobody reads it.
func NewStream(w http.ResponseWriter, r *http.Request, auth *Auth) (*Stream, error) {
	s := &Stream{w, http.NewResponseController(w), func() bool { return auth.May(r) }}
	streamHeader(w)
	// The client has said all. While a limit for that stood, the request would end with it.
	_ = s.control.SetReadDeadline(time.Time{}) // a recorder has none
	w.WriteHeader(http.StatusOK)
	return s, s.write([]byte("retry: 2000\n\n"))
}

// Send sends an event, to who still may read it; event "" is a message. An error ends the
// stream.
func (s *Stream) Send(event string, data []byte) error {
	if !s.may() {
		return errMayNot
	}
	var b bytes.Buffer
	if event != "" {
		b.WriteString("event: " + event + "\n")
	}
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// Beat keeps the connection of who still may read, as Send does: to be called every BeatEvery.
func (s *Stream) Beat() error {
	if !s.may() {
		return errMayNot
	}
	return s.write([]byte(": beat\n\n"))
}

// Feed sends the events that produce makes, until it returns, ctx ends or stopping is closed, or
// nobody reads any more. It returns after produce did: what that began has ended by then. whole says
// that nothing was left out but by the end of ctx.
func (s *Stream) Feed(ctx context.Context, stopping <-chan struct{},
	produce func(ctx context.Context, send func(event string, data []byte) bool),
) (whole bool) {
	type event struct {
		name string
		data []byte
	}
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan event)
	go func() {
		defer close(all)
		produce(ctx, func(name string, data []byte) bool {
			select {
			case all <- event{name, data}:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	defer func() {
		cancel()
		for range all { // produce has returned when this ends
		}
	}()
	beat := time.NewTicker(BeatEvery)
	defer beat.Stop()
	for {
		var err error
		select {
		case e, more := <-all:
			if !more {
				return true
			}
			err = s.Send(e.name, e.data)
		case <-beat.C:
			err = s.Beat()
		case <-stopping:
			return false
		case <-ctx.Done():
			return true
		}
		if err != nil {
			return false // nobody reads, or may
		}
	}
}

func (s *Stream) write(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(sendWithin)) // a recorder has none
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// openStream begins a stream; nil: only its header was asked for. Call closed when it ends.
func (a *api) openStream(w http.ResponseWriter, r *request) (s *Stream, closed func(), err error) {
	select {
	case <-a.Stopping:
		return nil, nil, Refusal(http.StatusServiceUnavailable, "The hub is stopping.")
	default:
	}
	select {
	case a.streams <- struct{}{}:
	default:
		return nil, nil, Refusal(http.StatusServiceUnavailable,
			"There are as many streams as there may be: close a page, or wait.")
	}
	closed = func() { <-a.streams }
	if r.Method == http.MethodHead {
		streamHeader(w)
		w.WriteHeader(http.StatusOK)
		return nil, closed, nil
	}
	s, err = NewStream(w, r.Request, a.Auth)
	return s, closed, err
}

// events streams the overview. A stream that was opened has no error any more.
func (a *api) events(w http.ResponseWriter, r *request) error {
	if _, err := a.desk(); err != nil {
		return err
	}
	s, closed, err := a.openStream(w, r)
	if closed != nil {
		defer closed()
	}
	if s == nil || err != nil {
		return unlessOpen(s, err)
	}
	every := time.NewTicker(overviewEvery)
	defer every.Stop()
	for {
		o, err := a.latest.Ask(r.Context(), a.Desk, overviewEvery/2, answerWithin)
		if err := s.sendEvent(event{"overview", o, err}); err != nil {
			return nil // nobody reads, or may
		}
		select {
		case <-every.C:
		case <-a.Stopping:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// unlessOpen is the error of a stream that could not begin.
func unlessOpen(s *Stream, err error) error {
	if s != nil {
		return nil // its header is sent
	}
	return err
}

// event is one event of a stream: an error, or a name and what it carries as JSON.
type event struct {
	name string
	data any
	err  error
}

// encode returns the name and the data that are sent.
func (e event) encode() (name string, text []byte, err error) {
	if e.err != nil {
		e = event{name: "problem", data: problemOf(e.err)}
	}
	text, err = jsonText(e.data)
	return e.name, text, err
}

func (s *Stream) sendEvent(e event) error {
	name, text, err := e.encode()
	if err != nil {
		return err
	}
	return s.Send(name, text)
}

// listen streams what a test callback hears, until the client goes or maxListen.
func (a *api) listen(w http.ResponseWriter, r *request) error {
	topic := r.topic(true)
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	return a.stream(w, r, func(ctx context.Context, send func(event) bool) {
		for heard, err := range desk.Listen(ctx, topic) {
			if !send(event{"heard", heard, err}) {
				return
			}
		}
	})
}

// check streams the findings of a check, and then its summary.
func (a *api) check(w http.ResponseWriter, r *request) error {
	place := r.url("url", "it is the URL of a Source, of a topic, or of one of its documents")
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	return a.stream(w, r, func(ctx context.Context, send func(event) bool) {
		for checked, err := range desk.Check(ctx, []string{place}) {
			e := event{"finding", checked.Finding, err}
			if checked.Summary != nil {
				e.name, e.data = "summary", checked.Summary
			}
			if !send(e) {
				return
			}
		}
	})
}

// stream sends the events that produce makes, until it returns, the client goes, or maxListen
// is over.
func (a *api) stream(w http.ResponseWriter, r *request, produce func(ctx context.Context, send func(event) bool)) error {
	s, closed, err := a.openStream(w, r)
	if closed != nil {
		defer closed()
	}
	if s == nil || err != nil {
		return unlessOpen(s, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxListen)
	defer cancel()
	s.Feed(ctx, a.Stopping, func(ctx context.Context, send func(string, []byte) bool) {
		produce(ctx, func(e event) bool {
			name, text, err := e.encode()
			return err == nil && send(name, text)
		})
	})
	return nil
}
