package destination_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

// deny sends a denial, as any client may that knows the callback.
func (w *fixture) deny(a ask) {
	w.t.Helper()
	if rec := w.get(a.callback() + "?hub.mode=denied&hub.topic=" + url.QueryEscape(topicURL)); rec.Code != http.StatusOK {
		w.t.Errorf("a denial is answered %d, want 200", rec.Code)
	}
	synctest.Wait()
}

// A forged denial ends nothing: deliveries are taken, and the hub, asked at once, verifies. However
// many come, the hub is asked once in ten minutes.
func TestForgedDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(240 * time.Hour)
		w.deny(a)
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusNoContent {
			t.Fatalf("a delivery after a forged denial is answered %d, want 204", rec.Code)
		}
		if len(w.asked) != 1 {
			t.Fatalf("the hub was asked %d times, want once and at once", len(w.asked))
		}
		again := w.subscribed(240 * time.Hour)
		if again.callback() != a.callback() {
			t.Error("the hub is asked with another callback")
		}
		const hours = 3
		asked := 0
		for range hours * 60 * 6 {
			w.deny(a)
			for len(w.asked) > 0 {
				again = w.subscribed(240 * time.Hour)
				asked++
			}
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		for len(w.asked) > 0 {
			again = w.subscribed(240 * time.Hour)
		}
		if asked < hours*6-1 || asked > hours*6 {
			t.Errorf("the hub was asked %d times in %d hours of forged denials, want once in ten minutes", asked, hours)
		}
		if rec := w.deliver(a, again.secret(), "n2", minute(2)); rec.Code != http.StatusNoContent {
			t.Errorf("a delivery after many forged denials is answered %d, want 204", rec.Code)
		}
		w.stop()
	})
}

// A hub that denies, and once more when it is asked, is believed when it had its time to verify.
// Even then no delivery is answered 410: the hub may have the subscription all the same.
func TestDenialThatHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(240 * time.Hour)
		w.deny(a)
		<-w.asked
		denied := time.Now()
		w.deny(a)
		if err := <-w.ran; !errors.Is(err, destination.ErrDenied) {
			t.Errorf("Run: %v, want ErrDenied", err)
		}
		if took := time.Since(denied); took != destination.DefaultVerifyWithin {
			t.Errorf("the denial was believed after %s, want %s", took, destination.DefaultVerifyWithin)
		}
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("a delivery with a good signature is answered %d, want 204", rec.Code)
		}
		if rec := w.deliver(a, "another", "n2", minute(2)); rec.Code != http.StatusForbidden {
			t.Errorf("a delivery with another signature is answered %d, want 403", rec.Code)
		}
		w.cancel()
		if err := w.d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A forged denial that comes before the hub's first verification does not keep it out.
func TestForgedDenialBeforeVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := <-w.asked
		w.deny(a)
		time.Sleep(4 * time.Second)
		if rec := w.verify(a, nil); rec.Code != http.StatusOK {
			t.Fatalf("the verification is answered %d, want 200", rec.Code)
		}
		synctest.Wait()
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("a delivery is answered %d, want 204", rec.Code)
		}
		w.stop()
	})
}

// stalling is a body of which nothing comes, and the answer to it.
type stalling struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

// SetReadDeadline is for http.ResponseController.
func (s *stalling) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *stalling) Read([]byte) (int, error) {
	if s.deadline.IsZero() {
		s.deadline = time.Now().Add(time.Minute) // the server's own
	}
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// Requests of strangers whose bodies do not come hold up no delivery.
func TestBodiesThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(time.Hour)
		const many = 100
		answered := make(chan int, many)
		for range many {
			s := &stalling{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodPost, a.callback(), io.NopCloser(s))
			r.ContentLength = 1 << 20
			go func() {
				w.d.ServeHTTP(s, r)
				answered <- s.Code
			}()
		}
		synctest.Wait()
		began := time.Now()
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusNoContent || time.Since(began) > 0 {
			t.Errorf("a delivery beside bodies that stall is answered %d after %s, want 204 at once", rec.Code, time.Since(began))
		}
		for range many {
			if code := <-answered; code != http.StatusRequestTimeout {
				t.Errorf("a body that stalls is answered %d, want 408", code)
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the last of them held its memory for %s", took)
		}
		w.stop()
	})
}
