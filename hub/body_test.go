package hub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
)

// upload is a request whose body comes at a pace, and the answer to it.
type upload struct {
	*httptest.ResponseRecorder
	left     int           // bytes that are still to come
	pause    time.Duration // before each piece
	piece    int           // bytes, 0: as many as are asked for
	hang     int           // after so many bytes nothing more comes, 0: never
	sent     int
	deadline time.Time
	answered chan struct{}
}

// SetReadDeadline is for http.ResponseController.
func (u *upload) SetReadDeadline(t time.Time) error {
	u.deadline = t
	return nil
}

func (u *upload) Read(b []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	wait := u.pause
	if u.hang > 0 && u.sent >= u.hang {
		wait = 24 * time.Hour
	}
	if rest := time.Until(u.deadline); wait > rest {
		time.Sleep(rest)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(wait)
	n := min(len(b), u.left)
	if u.piece > 0 {
		n = min(n, u.piece)
	}
	if u.hang > 0 {
		n = min(n, u.hang-u.sent)
	}
	copy(b, bytes.Repeat([]byte("x"), n))
	u.left -= n
	u.sent += n
	return n, nil
}

// upload posts a body of so many bytes to the handler itself; shape says how it comes.
func (s *stage) upload(contentType string, size int, announced bool, shape upload) *upload {
	u := &shape
	u.ResponseRecorder, u.left, u.answered = httptest.NewRecorder(), size, make(chan struct{})
	r := httptest.NewRequest(http.MethodPost, hubURL, u)
	r.ContentLength = -1
	if announced {
		r.ContentLength = int64(size)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Link", strings.TrimPrefix(good(topicURL), "Link: "))
	go func() {
		defer close(u.answered)
		s.hub.Handler().ServeHTTP(u, r)
	}()
	return u
}

// status waits for the answer.
func (u *upload) status() int {
	<-u.answered
	return u.Code
}

func newUploadStage(t *testing.T, cfg hub.Config) *stage {
	t.Helper()
	cfg.URL = hubURL
	c := &clerk{}
	c.good()
	return newStage(t, cfg, c, anywhere{})
}

// TestAnnouncedBodiesCostNothing announces long bodies and sends a byte now and then: others can still
// publish.
func TestAnnouncedBodiesCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUploadStage(t, hub.Config{MaxBody: 4 << 20, MaxBodiesBytes: 8 << 20})
		var slow []*upload
		for i := range 40 {
			slow = append(slow, s.upload([]string{"text/plain", formType}[i%2], 1<<20, i%4 < 2, upload{pause: 20 * time.Second, piece: 1}))
		}
		synctest.Wait()
		for _, size := range []int{1, 1 << 20, 4 << 20} {
			if status := s.upload("text/plain", size, true, upload{}).status(); status != 200 {
				t.Errorf("%d bytes beside slow bodies: %d", size, status)
			}
		}
		for _, u := range slow {
			if status := u.status(); status != http.StatusRequestTimeout {
				t.Errorf("a slow body: %d", status)
			}
		}
	})
}

// TestBodyPace: which pace is enough.
func TestBodyPace(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name   string
		size   int
		shape  upload
		status int
		after  time.Duration
	}{
		{"at once", 4 * mib, upload{}, 200, 0},
		{"64 KiB/s", mib, upload{pause: time.Second, piece: 64 << 10}, 200, 18 * time.Second},
		{"one pause", mib, upload{pause: 29 * time.Second}, 200, 7 * 29 * time.Second},
		{"a byte now and then", mib, upload{pause: 10 * time.Second, piece: 1}, 408, 30*time.Second + time.Second/2},
		{"fast, then a trickle", 4 * mib, upload{pause: time.Millisecond, piece: 1 << 10, hang: 3 * mib}, 408, 0},
		{"stops", mib, upload{hang: 1}, 408, 30 * time.Second},
		// Each pause and each part is in time, all of them together are not.
		{"too long as a whole", 16 * mib, upload{pause: 29 * time.Second, piece: mib}, 408, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newUploadStage(t, hub.Config{BodyIdle: 30 * time.Second, BodyRate: 32 << 10, BodyTimeout: 5 * time.Minute})
				start := time.Now()
				u := s.upload("text/plain", tt.size, true, tt.shape)
				if status := u.status(); status != tt.status {
					t.Errorf("%d %s", status, u.Body)
				}
				if took := time.Since(start); tt.after > 0 && took != tt.after {
					t.Errorf("answered after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// TestRoomForBodies: the room left by long bodies is for the short ones and for forms, and an ended
// body gives its room back.
func TestRoomForBodies(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		s := newUploadStage(t, hub.Config{MaxBody: 8 * mib, MaxForm: 2 * mib, MaxBodiesBytes: 32 * mib, BodyIdle: time.Minute})
		form := func() int {
			u := s.upload(formType, 1000, true, upload{})
			return u.status()
		}
		// Each holds 1 MiB, and 7 in the share of 28 for long bodies.
		var long []*upload
		for range 4 {
			long = append(long, s.upload("text/plain", 8*mib, len(long)%2 == 0, upload{hang: 8*mib - 1}))
			synctest.Wait()
		}
		for size, want := range map[int]int{2 * mib: 503, mib - 1: 503, 1: 503} {
			if status := s.upload("text/plain", size, true, upload{}).status(); status != want {
				t.Errorf("all is taken, %d bytes: %d", size, status)
			}
		}
		if status := form(); status != 503 {
			t.Errorf("all is taken, a form: %d", status)
		}
		for _, u := range long {
			u.status()
		}
		// The share for long bodies is taken, what is kept is not.
		s = newUploadStage(t, hub.Config{MaxBody: 15 * mib, MaxBodiesBytes: 32 * mib, BodyIdle: time.Minute})
		long = []*upload{
			s.upload("text/plain", 15*mib, true, upload{hang: 15*mib - 1}),
			s.upload("text/plain", 15*mib, false, upload{hang: 15*mib - 1}),
		}
		synctest.Wait()
		late := s.upload("text/plain", 2*mib, true, upload{})
		if late.status() != 503 || late.Header().Get("Retry-After") == "" {
			t.Errorf("a long one too many: %d", late.Code)
		}
		unannounced := s.upload("text/plain", 2*mib, false, upload{})
		if unannounced.status() != 503 {
			t.Errorf("a long one too many, not announced: %d", unannounced.Code)
		}
		if status := s.upload("text/plain", mib, true, upload{}).status(); status != 200 {
			t.Errorf("a short one: %d", status)
		}
		if status := form(); status != 400 {
			t.Errorf("a form: %d", status)
		}
		for _, u := range long {
			if u.status() != 408 {
				t.Errorf("one that hangs: %d", u.Code)
			}
		}
		for range 2 {
			if status := s.upload("text/plain", 15*mib, true, upload{}).status(); status != 200 {
				t.Errorf("when the others have ended: %d", status)
			}
		}
	})
}

// TestBodyWhole: a body of many parts arrives as it was sent.
func TestBodyWhole(t *testing.T) {
	w := newTown(t, nil)
	link := fmt.Sprintf("Link: <%s/good>; rel=self, <%s>; rel=hub", w.topicURL, w.hubURL)
	for i, size := range []int{1, 16 << 10, 16<<10 + 1, 3<<20 + 17} {
		var body strings.Builder
		for n := 0; body.Len() < size; n++ {
			fmt.Fprintf(&body, "%d ", n)
		}
		sent := body.String()[:size]
		if status, _, answer := w.post(t, "text/plain", sent, link); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		req, err := http.NewRequest(http.MethodPost, w.hubURL, struct{ io.Reader }{strings.NewReader(sent)})
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"text/plain"}, "Link": {strings.TrimPrefix(link, "Link: ")}}
		if status, _, answer := do(t, req); status != 200 {
			t.Fatalf("in chunks: %d %s", status, answer)
		}
		for _, p := range w.publisher.all()[2*i:] {
			if string(p.Body) != sent {
				t.Errorf("of %d bytes %d came, and not as they were sent", size, len(p.Body))
			}
		}
	}
}
