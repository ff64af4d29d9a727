package notifier_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/notifier/journaltest"
)

// TestConditionalRequests: a client with the present document gets 304, by its tag or its date. One
// with an older document does not, even if it changed within the second.
func TestConditionalRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListEntries: 3}, &hub{})
		const path = "default/changelist.xml"
		time.Sleep(time.Minute)
		ask := func(what string, code int, headers ...string) http.Header {
			t.Helper()
			got := w.get(path, headers...)
			if got.Code != code || code == 304 && got.Body.Len() > 0 {
				t.Errorf("%s: %d with %d bytes, want %d", what, got.Code, got.Body.Len(), code)
			}
			return got.Header()
		}
		check := func(what string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			h := ask(what, 200)
			tag, date := "If-None-Match: "+h.Get("ETag"), "If-Modified-Since: "+h.Get("Last-Modified")
			modified, err := http.ParseTime(h.Get("Last-Modified"))
			if err != nil || modified.After(time.Now()) {
				t.Errorf("%s: Last-Modified %q", what, h.Get("Last-Modified"))
			}
			ask(what+", its tag", 304, tag)
			ask(what+", its tag, weak, among others", 304, `If-None-Match: "x", W/`+h.Get("ETag"))
			ask(what+", another tag", 200, `If-None-Match: "x"`, date)
			ask(what+", any", 304, "If-None-Match: *")
			ask(what+", its date", 304, date)
			ask(what+", a later date", 304, "If-Modified-Since: "+time.Now().UTC().Format(http.TimeFormat))
			ask(what+", an earlier date", 200, "If-Modified-Since: "+modified.Add(-time.Second).Format(http.TimeFormat))
			ask(what+", no date", 200, "If-Modified-Since: yesterday")
			packed := ask(what+", packed", 200, "Accept-Encoding: gzip")
			if packed.Get("ETag") == h.Get("ETag") || packed.Get("Vary") != "Accept-Encoding" || h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: %v, and packed %v", what, h, packed)
			}
			ask(what+", packed, its tag", 304, "Accept-Encoding: gzip", "If-None-Match: "+packed.Get("ETag"))
			ask(what+", packed, the other tag", 200, "Accept-Encoding: gzip", tag)
		}
		check("empty")
		w.add(inDefault, "1")
		check("one")
		time.Sleep(time.Second - time.Duration(time.Now().Nanosecond()) + 100*time.Millisecond)
		w.add(inDefault, "2")
		first := ask("within the second", 200)
		ask("within the second, by its date", 200, "If-Modified-Since: "+time.Now().UTC().Format(http.TimeFormat))
		w.add(inDefault, "3")
		ask("what came later within it, by the tag", 200, "If-None-Match: "+first.Get("ETag"))
		ask("what came later within it, by the date", 200, "If-Modified-Since: "+first.Get("Last-Modified"))
		time.Sleep(time.Minute)
		ask("much later", 200, "If-Modified-Since: "+first.Get("Last-Modified"))
		check("an index")
	})
}

func TestPackedDocuments(t *testing.T) {
	w := newWorld(t, notifier.Config{}, &hub{})
	w.add(inDefault, "1", "2")
	plain := w.get("default/changelist.xml").Body.Bytes()
	for accept, packed := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "GZIP ; Q=0.1": true, "*": true, "x-gzip": true,
		"": false, "gzip;q=0": false, "gzip; q=0.000": false, "*, gzip;q=0": false, "gzip;q=0, *": false,
		"br": false, "*;q=0": false, "gzip;q=many": false, "gzippy": false,
	} {
		got := w.get("default/changelist.xml", "Accept-Encoding: "+accept)
		body := got.Body.Bytes()
		if coding := got.Header().Get("Content-Encoding"); (coding == "gzip") != packed || coding != "" && coding != "gzip" {
			t.Errorf("Accept-Encoding %q: Content-Encoding %q", accept, coding)
		}
		if packed {
			r, err := gzip.NewReader(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, plain) {
			t.Errorf("Accept-Encoding %q: %d bytes, want %d", accept, len(body), len(plain))
		}
	}
	head := ask(w.Public(), "HEAD", "/default/changelist.xml", "", "Accept-Encoding: gzip")
	if head.Code != 200 || head.Body.Len() > 0 || head.Header().Get("Content-Encoding") != "gzip" || head.Header().Get("ETag") == "" {
		t.Errorf("HEAD: %d with %d bytes, %v", head.Code, head.Body.Len(), head.Header())
	}
}

// watched is a journal that reports when its events are read.
type watched struct {
	notifier.Store
	reads func(from time.Time) error
}

func (s *watched) Events(ctx context.Context, set string, from time.Time) iter.Seq2[notifier.Event, error] {
	return func(yield func(notifier.Event, error) bool) {
		if err := s.reads(from); err != nil {
			yield(notifier.Event{}, err)
			return
		}
		for e, err := range s.Store.Events(ctx, set, from) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// serve asks for a path and reports whether the connection was broken off.
func serve(h http.Handler, w http.ResponseWriter, path, client string) (broken bool) {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = client
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler {
				panic(v)
			}
			broken = true
		}
	}()
	h.ServeHTTP(w, r)
	return broken
}

// TestLongDocuments: they are read in stretches, have what was there when they were
// asked for, and are broken off where the rest cannot be had.
func TestLongDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reads func(time.Time) error
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		w.wrap = func(j notifier.Store) notifier.Store {
			return &watched{j, func(from time.Time) error {
				mu.Lock()
				defer mu.Unlock()
				if reads == nil {
					return nil
				}
				return reads(from)
			}}
		}
		set := func(f func(time.Time) error) {
			mu.Lock()
			defer mu.Unlock()
			reads = f
		}
		w.start()
		defer w.stop()
		var locs []string
		for i := range 3000 { // 600 kB
			locs = append(locs, fmt.Sprint(i, "/", strings.Repeat("x", 100)))
		}
		w.add(inDefault, locs...)
		w.drain()
		time.Sleep(5 * time.Second)
		public := w.Public()
		whole := w.get("default/changelist.xml")
		if l, err := readDoc(whole); err != nil || l.locs() != strings.Join(locs, " ") {
			t.Errorf("%d entries, %v", len(l.entries), err)
		}
		opened := w.list("default/changelist.xml").FromTime
		added := false
		set(func(from time.Time) error {
			if from.After(opened) && !added { // the second stretch
				added = true
				err := w.Append(context.Background(), []notifier.Event{journaltest.Created("http://a.example/late", inDefault...)})
				return err
			}
			return nil
		})
		if got := httptest.NewRecorder(); serve(
			public, got, "/default/changelist.xml", "192.0.2.1:1",
		) || !bytes.Equal(got.Body.Bytes(), whole.Body.Bytes()) || !added {
			t.Errorf("with an event that came meanwhile: %d bytes, want %d", got.Body.Len(), whole.Body.Len())
		}
		time.Sleep(5 * time.Second)
		set(func(from time.Time) error {
			if from.After(opened) {
				return journaltest.ErrInjected
			}
			return nil
		})
		if got := httptest.NewRecorder(); !serve(public, got, "/default/changelist.xml", "192.0.2.1:1") || got.Body.Len() == 0 {
			t.Errorf("a journal that fails in the middle: %d with %d bytes", got.Code, got.Body.Len())
		}
		set(func(time.Time) error { return journaltest.ErrInjected })
		if got := httptest.NewRecorder(); serve(
			public, got, "/default/changelist.xml", "192.0.2.1:1",
		) || got.Code != 503 || got.Header().Get("Retry-After") == "" {
			t.Errorf("a journal that fails at once: %d %v", got.Code, got.Header())
		}
		set(nil)
	})
}

// stuck is an answer whose client does not read; it ends with the deadline that is set.
type stuck struct {
	httptest.ResponseRecorder
	cut  chan struct{}
	once sync.Once
}

func newStuck() *stuck {
	return &stuck{ResponseRecorder: *httptest.NewRecorder(), cut: make(chan struct{})}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.cut
	return 0, io.ErrClosedPipe
}

func (s *stuck) SetWriteDeadline(time.Time) error {
	s.once.Do(func() { close(s.cut) })
	return nil
}

// TestReadingsAreBounded: a client has a share, all have a bound, and slow ones make room.
func TestReadingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{}, &hub{})
		w.add(inDefault, "1")
		public := w.Public()
		var all sync.WaitGroup
		var readers []*stuck
		hang := func(client string) {
			s := newStuck()
			readers = append(readers, s)
			all.Go(func() { serve(public, s, "/default/changelist.xml", client) })
		}
		want := func(what, client string, code int) {
			t.Helper()
			got := httptest.NewRecorder()
			if serve(public, got, "/default/changelist.xml", client); got.Code != code || (code == 503) != (got.Header().Get("Retry-After") != "") {
				t.Errorf("%s: %d %v, want %d", what, got.Code, got.Header(), code)
			}
		}
		for i := range 16 {
			hang(fmt.Sprintf("[2001:db8:0:1::%x]:%d", i, i+1))
		}
		synctest.Wait()
		want("a client that has its share", "[2001:db8:0:1::ffff]:1", 503)
		want("another network", "[2001:db8:0:2::1]:1", 200)
		for i := range 40 {
			hang(fmt.Sprintf("192.0.2.%d:1", i))
		}
		for i := range 7 {
			hang(fmt.Sprintf("127.0.0.1:%d", i+1))
		}
		synctest.Wait()
		want("the last place", "198.51.100.1:1", 200)
		hang("198.51.100.1:1")
		synctest.Wait()
		want("too many", "198.51.100.2:1", 503)
		time.Sleep(31 * time.Second)
		want("instead of a slow one", "198.51.100.2:1", 200)
		synctest.Wait()
		cut := 0
		for _, s := range readers {
			select {
			case <-s.cut:
				cut++
			default:
			}
		}
		if cut != 1 {
			t.Errorf("%d slow readers were cut off, want 1", cut)
		}
		for _, s := range readers {
			_ = s.SetWriteDeadline(time.Now())
		}
		all.Wait()
		want("afterwards", "[2001:db8:0:1::ffff]:1", 200)
	})
}

// TestFilesAreBounded: so are files, each of which is open while it is sent.
func TestFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{Files: 8}, &hub{})
		var ended atomic.Int64
		files := w.Serving(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
				ended.Add(1)
			}
		}))
		var all sync.WaitGroup
		reading, leave := context.WithCancel(t.Context())
		hang := func(client string) {
			r := httptest.NewRequestWithContext(reading, http.MethodGet, "/slow", nil)
			r.RemoteAddr = client
			all.Go(func() { files.ServeHTTP(newStuck(), r) })
			synctest.Wait()
		}
		want := func(what, client string, code int) {
			t.Helper()
			got := httptest.NewRecorder()
			if serve(files, got, "/fast", client); got.Code != code || (code == 503) != (got.Header().Get("Retry-After") != "") {
				t.Errorf("%s: %d %v, want %d", what, got.Code, got.Header(), code)
			}
		}
		hang("192.0.2.1:1")
		want("another of one client", "192.0.2.1:2", 200)
		hang("192.0.2.1:2")
		want("more than its quarter", "192.0.2.1:3", 503)
		for i := range 6 {
			hang(fmt.Sprintf("127.0.0.1:%d", i+1))
		}
		want("too many", "192.0.2.2:1", 503)
		time.Sleep(31 * time.Second)
		want("instead of the slowest", "192.0.2.2:1", 200)
		if synctest.Wait(); ended.Load() != 1 {
			t.Errorf("%d were cut off, want 1", ended.Load())
		}
		leave()
		all.Wait()
		want("afterwards", "192.0.2.1:3", 200)
	})
}

// slowClosing is a journal that takes its time to close a list.
type slowClosing struct{ notifier.Store }

func (s *slowClosing) CloseList(ctx context.Context, l notifier.ChangeList) error {
	time.Sleep(2 * time.Second)
	return s.Store.CloseList(ctx, l)
}

// TestAListThatIsBeingClosed: a client that read it meanwhile, or within the same second, does not get
// 304 when it is closed; and it takes nothing more.
func TestAListThatIsBeingClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL, ChangeListFor: time.Minute}}
		w.cfg.Transport = w.hub
		w.wrap = func(j notifier.Store) notifier.Store { return &slowClosing{j} }
		w.start()
		defer w.stop()
		address := "default/changelist/" + w.list("default/changelist.xml").FromTime.Format("20060102T150405.000000Z") + ".xml"
		time.Sleep(300 * time.Millisecond)
		w.add(inDefault, "1") // due 60.3 s after the beginning
		time.Sleep(58_900 * time.Millisecond)
		w.add(inDefault, "2") // counted a second later, just before
		time.Sleep(1800 * time.Millisecond)
		w.add(inDefault, "3") // while it is being closed
		time.Sleep(500 * time.Millisecond)
		w.want(address, "1 2", false)
		old := w.get(address)
		time.Sleep(10 * time.Second)
		if got := w.get(address, "If-Modified-Since: "+old.Header().Get("Last-Modified")); got.Code != 200 {
			t.Errorf("the closed list, asked for by the date of before: %d", got.Code)
		}
		w.want(address, "1 2", true)
		w.want("default/changelist/open.xml", "3", false)
	})
}

// undurable is a journal whose newest events are not durable yet.
type undurable struct {
	notifier.Store
	last time.Time
}

func (u *undurable) Last(context.Context) (time.Time, error) { return u.last, nil }

// TestListsHaveWhatIsDurable: events that a crash may take are not served.
func TestListsHaveWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &undurable{last: time.Now().Add(time.Second)}
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		w.wrap = func(j notifier.Store) notifier.Store { u.Store = j; return u }
		w.start()
		defer w.stop()
		time.Sleep(time.Second)
		w.add(inDefault, "1")
		time.Sleep(time.Second)
		w.add(inDefault, "2")
		w.want("default/changelist.xml", "1", false)
	})
}
