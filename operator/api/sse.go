package api

import (
	"context"
	"net/http"
	"time"
)

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
	if _, err := a.service(r); err != nil {
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
		o, err := a.latest.Ask(r.Context(), a.Service, overviewEvery/2, answerWithin)
		if err := s.sendEvent(event{"overview", o, err}); err != nil {
			return nil // the reader is gone, or no longer allowed
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
	desk, err := a.service(r)
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
	desk, err := a.service(r)
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
func (a *api) stream(
	w http.ResponseWriter, r *request, produce func(ctx context.Context, send func(event) bool),
) error {
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
