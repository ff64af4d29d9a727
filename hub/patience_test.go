package hub_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
)

// reluctant are servers of topics that take as long as they are let. Each answers until the request's
// context ends.
var reluctant = map[string]func(*http.Request) (*http.Response, error){
	"never answers": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"takes its time for HEAD, and never answers GET": func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			time.Sleep(9 * time.Second)
			return respond(r, http.StatusMethodNotAllowed, ""), nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"trickles": func(r *http.Request) (*http.Response, error) {
		return without(r, func(b []byte) (int, error) { return copy(b, " "), await(r, time.Second) }), nil
	},
	"trickles behind its links": func(r *http.Request) (*http.Response, error) {
		return without(r, func(b []byte) (int, error) { return copy(b, "x"), await(r, time.Second) }, good(address(r))), nil
	},
	"never ends": func(r *http.Request) (*http.Response, error) {
		return without(r, func(b []byte) (int, error) { return len(b), await(r, 10*time.Millisecond) }, good(address(r))), nil
	},
	"stops in the middle": func(r *http.Request) (*http.Response, error) {
		return without(r, func(b []byte) (int, error) { return 0, await(r, time.Hour) }, good(address(r))), nil
	},
}

// without is an answer without a length.
func without(r *http.Request, read readFunc, header ...string) *http.Response {
	resp := respond(r, http.StatusOK, "", append(header, "Content-Type: text/html")...)
	resp.ContentLength, resp.Body = -1, io.NopCloser(read)
	return resp
}

// await waits, and fails when the request ends before.
func await(r *http.Request, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// TestPatience: 30 s are all that a topic gets for a check, or for a fetch after a ping, whatever of it
// hangs, trickles or never ends.
func TestPatience(t *testing.T) {
	const most = 30 * time.Second
	for name, serve := range reluctant {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Duration, 100)
				s := newStage(t, hub.Config{
					URL: hubURL, MaxBody: 1 << 40, MaxFetchBytes: 1 << 42, MaxBodiesBytes: 1 << 40,
				}, doFunc(func(r *http.Request) (*http.Response, error) {
					began := time.Now()
					stop := make(chan struct{})
					go func() { <-r.Context().Done(); ended <- time.Since(began); close(stop) }()
					return serve(r)
				}), anywhere{})
				defer s.running(t)()

				began := time.Now()
				err := s.checker.Validate(t.Context(), topicURL)
				if took := time.Since(began); took > most || err != nil && !errors.Is(err, hub.ErrTopicAway) && took > 0 {
					t.Errorf("the check took %v: %v", took, err)
				}
				synctest.Wait()
				for len(ended) > 0 {
					<-ended
				}
				began = time.Now()
				s.ping(t, topicURL)
				took := <-ended
				if took > most || time.Since(began) > most {
					t.Errorf("the fetch took %v", took)
				}
			})
		})
	}
}
