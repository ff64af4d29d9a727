package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// A Source makes its first Resource List some time after its first event: a follower finds that, and
// keeps it where the Source cannot be asked.
func TestListsThatAreMadeLater(t *testing.T) {
	t.Parallel()
	var made, away atomic.Bool
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		at := "http://" + r.Host + "/"
		list := payload.CapabilityList{Up: at, Capabilities: []payload.Capability{{Loc: at + "changes", Capability: payload.CapChangeList}}}
		if made.Load() {
			list.Capabilities = append(list.Capabilities, payload.Capability{Loc: at + "resources", Capability: payload.CapResourceList})
		}
		w.Header().Set("Content-Type", "application/xml")
		if err := payload.WriteCapabilityList(w, list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(source.Close)
	client, err := lists.New(lists.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &locator{changeList: auto, client: client, start: source.URL + "/capabilities", logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	want := func(when, resources string) {
		t.Helper()
		changes, err := p.ChangeList(t.Context())
		if err != nil || changes != source.URL+"/changes" {
			t.Errorf("%s the Change List is %q, %v", when, changes, err)
		}
		if got, err := p.ResourceList(t.Context()); err != nil || got != resources {
			t.Errorf("%s the Resource List is %q, %v; want %q", when, got, err, resources)
		}
	}
	want("at first", "")
	made.Store(true)
	want("within the pause", "")
	away.Store(true)
	p.again = time.Time{} // the pause is over
	want("while it is away", "")
	away.Store(false)
	p.again = time.Time{}
	want("when it was made", source.URL+"/resources")
	away.Store(true)
	p.again = time.Time{}
	want("when all is known", source.URL+"/resources")
}
