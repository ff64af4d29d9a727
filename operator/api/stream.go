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
	may     func() bool // reports whether who reads it still may
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

// NewStream begins to answer a request with a stream. An error means that the reader is gone.
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

// Feed sends the events that produce makes, until it returns, ctx ends, stopping is closed, or the
// reader is gone. It returns after produce did: everything that produce began has ended by then. whole
// reports that nothing was left out except by the end of ctx.
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
			return false // the reader is gone, or no longer allowed
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
