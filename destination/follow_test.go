package destination_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

// full is a Sink that has no room for some time.
type full struct {
	refuse error
	took   []*destination.Notification
}

func (f *full) Accept(n *destination.Notification) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.took = append(f.took, n)
	return nil
}

// TestNotNow: a Sink without room has the hub come again, and is not the end.
func TestNotNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		sink := &full{refuse: fmt.Errorf("the inbox is full: %w", destination.ErrNotNow)}
		cfg := w.config(t.TempDir())
		cfg.Sink = sink
		w.start(cfg)
		sub := w.subscribed(time.Hour)
		before := time.Now()
		rec := w.deliver(sub, sub.secret(), "1", minute(1))
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
			t.Errorf("answered %d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
		}
		if last := w.d.Status().LastDelivery; !last.IsZero() {
			t.Errorf("the last delivery was at %s, and none was taken", last)
		}
		sink.refuse = nil
		if rec := w.deliver(sub, sub.secret(), "1", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("with room it is answered %d", rec.Code)
		}
		if len(sink.took) != 1 || string(sink.took[0].Body) != minute(1) {
			t.Errorf("the sink took %v", sink.took)
		}
		if last := w.d.Status().LastDelivery; last.Before(before) {
			t.Errorf("the last delivery was at %s", last)
		}
		w.stop()
	})
}

// TestStay: the subscription outlives the process, with what was learned of it.
func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.hub = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", `<memory?topic=x>; rel="archives"; type="application/xml", <https://hub.example/>; rel=hub`)
			rw.WriteHeader(http.StatusAccepted)
		}
		cfg := w.config(t.TempDir())
		cfg.Stay = true
		w.start(cfg)
		sub := w.subscribed(time.Hour)
		const memory = hubURL + "memory?topic=x"
		if s := w.d.Status(); !s.Subscribed || s.Hub != hubURL || s.Topic != topicURL || s.ChangeMemory != memory {
			t.Errorf("the status is %+v", s)
		}
		w.cancel()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		select {
		case a := <-w.asked:
			t.Errorf("at the stop the hub was asked %v", a.form)
		default:
		}
		w.hub = answer(http.StatusServiceUnavailable, "")
		w.start(cfg)
		if rec := w.deliver(sub, sub.secret(), "1", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("after the restart a delivery is answered %d", rec.Code)
		}
		if s := w.d.Status(); s.ChangeMemory != memory || !s.Subscribed {
			t.Errorf("after the restart the status is %+v", s)
		}
		w.cancel()
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestMemoryOfOthers: only the hub's own address is its memory.
func TestMemoryOfOthers(t *testing.T) {
	for link, want := range map[string]string{
		`<https://hub.example/m?topic=x>; rel=archives`:                              "https://hub.example/m?topic=x",
		`<https://hub.example.evil.test/m>; rel=archives`:                            "",
		`<http://hub.example/m>; rel=archives`:                                       "",
		`<https://hub.example:8443/m>; rel=archives`:                                 "",
		`<https://evil.test/m>; rel=archives, <https://hub.example/n>; rel=archives`: "https://hub.example/n",
		`<https://user@hub.example/m>; rel=archives`:                                 "",
		`<::broken`: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			w.hub = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Link", link)
				rw.WriteHeader(http.StatusAccepted)
			}
			w.start(w.config(t.TempDir()))
			w.subscribed(time.Hour)
			if got := w.d.Status().ChangeMemory; got != want {
				t.Errorf("%s: the memory is %q, want %q", link, got, want)
			}
			w.stop()
		})
	}
}
