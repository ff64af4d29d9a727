package page

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"carillon/internal/legible"
	"carillon/operator/api"
)

// stream is an answer of server-sent events.
type stream struct {
	*api.Stream
	ctx   context.Context // ends with it
	close func()
}

// maxStream is how long a stream lasts. The page asks anew.
const maxStream = time.Hour

// open begins a stream. A foreign page gets none: operators decide about its cost, and about the
// subscriptions of a test callback.
func (p *renderer) open(w http.ResponseWriter, r *http.Request) (*stream, error) {
	if api.Foreign(r) {
		return nil, &errorPage{Status: http.StatusForbidden, Title: "A page of another origin may not listen here"}
	}
	select {
	case p.streams <- struct{}{}:
	default:
		return nil, &errorPage{
			Status: http.StatusServiceUnavailable, Title: "Too many live pages are open",
			Advice: "Close some of them, or load the page by hand.",
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxStream)
	s := &stream{ctx: ctx, close: func() { cancel(); <-p.streams }}
	var err error
	if s.Stream, err = api.NewStream(w, r, p.cfg.Auth); err != nil {
		s.close()
		return nil, errGone
	}
	return s, nil
}

// feed sends the parts of a page that produce makes, until it returns or the client goes, and marks
// the last one. It returns after produce did: everything that produce began has ended by then.
func (p *renderer) feed(
	w http.ResponseWriter, r *http.Request, produce func(ctx context.Context, send func([]byte) bool),
) error {
	s, err := p.open(w, r)
	if err != nil {
		return err
	}
	defer s.close()
	whole := s.Feed(s.ctx, p.cfg.Stopping, func(ctx context.Context, send func(string, []byte) bool) {
		produce(ctx, func(part []byte) bool { return send("", part) })
	})
	if whole {
		_ = s.Send("end", []byte("end")) // a client that is gone needs no end
	}
	return nil
}

// part returns a template of a view as HTML.
func (p *renderer) part(view, name string, v any) []byte {
	var html bytes.Buffer
	if err := p.views[view].ExecuteTemplate(&html, name, v); err != nil {
		p.cfg.Logger.Error("a part of a page cannot be written", "view", view, "error", err)
	}
	return legible.HTML(html.Bytes())
}
