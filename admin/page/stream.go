package page

import (
	"context"
	"errors"
	"net/http"
	"time"

	"carillon/admin"
)

// stream is an answer of server-sent events.
type stream struct {
	*admin.Stream
	ctx context.Context // ends with it
	// cancel ends what is done for the client, and close gives the stream back after that.
	cancel context.CancelFunc
	close  func()
}

// maxStream is how long a stream lasts. The page asks anew.
const maxStream = time.Hour

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
	s := &stream{ctx: ctx, cancel: cancel, close: func() { cancel(); <-p.streams }}
	var err error
	if s.Stream, err = admin.NewStream(w, r, p.cfg.Auth); err != nil {
		s.close()
		return nil, errGone
	}
	return s, nil
}
