package notifier_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
)

// put sends a snapshot of the set "a" to the intake, perhaps an empty one.
func (w *world) put(body io.Reader, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPut, "/sets/a/resources?allow-empty=true", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	w.Intake().ServeHTTP(answer, r)
	return answer
}

func TestSnapshotByIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{Sets: []string{"a"}, ResourceListDir: t.TempDir()}, &hub{})
		answer := w.put(strings.NewReader("{\"loc\":\"http://a.example/2\"}\n\n \n" +
			`{"loc":"http://a.example/1","hash":"` + md5One + `","length":3,"lastmod":"2026-01-31","type":"text/plain","encoding":"gzip",` +
			`"ln":[{"rel":"describedby","href":"http://a.example/about"}]}`))
		if answer.Code != http.StatusOK || answer.Body.String() != `{"resources":2,"events":false,"created":0,"updated":0,"deleted":0}`+"\n" {
			t.Errorf("the first is %d %s", answer.Code, answer.Body)
		}
		synctest.Wait()
		l := w.read("/a/resourcelist.xml") // made at once
		if l.locs() != "1 2" || l.entries[0].Length != "3" || l.entries[0].LastMod != "2026-01-31" || len(l.entries[0].Links) != 1 {
			t.Errorf("the Resource List is %+v", l)
		}
		time.Sleep(time.Second)
		var packed bytes.Buffer
		pack := gzip.NewWriter(&packed)
		fmt.Fprintf(pack, `{"loc":"http://a.example/2","hash":%q}`+"\r\n"+`{"loc":"http://a.example/3"}`, md5Two)
		if err := pack.Close(); err != nil {
			t.Fatal(err)
		}
		answer = w.put(&packed, "Content-Encoding", "gzip")
		if answer.Code != http.StatusOK || answer.Body.String() != `{"resources":2,"events":true,"created":1,"updated":1,"deleted":1}`+"\n" {
			t.Errorf("the second is %d %s", answer.Code, answer.Body)
		}
		w.drain()
		var told []string
		for _, n := range w.hub.notes(t, "a") {
			for _, e := range n.entries {
				told = append(told, string(e.Change)+" "+e.Loc)
			}
		}
		if got := strings.Join(told, ", "); got != "deleted http://a.example/1, updated http://a.example/2, created http://a.example/3" {
			t.Errorf("the hub was told %q", got)
		}
		if _, locs := w.resources(); locs != "2 3" {
			t.Errorf("the Resource List after that has %q", locs)
		}
	})
}

// TestSnapshotRefusals: a snapshot is taken whole or not at all.
func TestSnapshotRefusals(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}, ResourceLists: []string{"a"}, Within: []string{"b"}}, &hub{})
	w.record(eventOf(payload.Created, "kept", ""))
	good := `{"loc":"http://a.example/1"}` + "\n"
	many := &strings.Builder{}
	for n := range 3000 {
		fmt.Fprintf(many, `{"loc":"http://a.example/many/%d"}`+"\n", n)
	}
	for _, c := range []struct {
		name   string
		answer *httptest.ResponseRecorder
		status int
		text   string
	}{
		{"no JSON", w.put(strings.NewReader(good + "x")), 400, "line 2: must be a resource (a JSON object), found"},
		{"a change", w.put(
			strings.NewReader(good + `{"loc":"http://a.example/2","change":"created"}`),
		), 400, "line 2: change is of a change, not of a resource; leave it out"},
		{"a datetime", w.put(strings.NewReader(`{"loc":"http://a.example/2","datetime":"2026-01-01"}`)), 400, "line 1: datetime is of a change"},
		{"sets", w.put(strings.NewReader(`{"loc":"http://a.example/2","sets":["a"]}`)), 400, "line 1: sets must be left out"},
		{"an unknown field", w.put(
			strings.NewReader(`{"loc":"http://a.example/2","Hash":"md5:0"}`),
		), 400, "line 1: Hash is not a field that is known"},
		{"no loc", w.put(strings.NewReader(good + "\n{}")), 400, "line 3: loc is missing"},
		{"a bad hash", w.put(strings.NewReader(`{"loc":"http://a.example/2","hash":"md5:0"}`)), 400, "line 1: hash "},
		{
			"a patch",
			w.put(
				strings.NewReader(
					`{"loc":"http://a.example/2","ln":[{"rel":"http://www.openarchives.org/rs/terms/patch","href":"http://a.example/p","type":"text/x"}]}`,
				),
			),
			400, "line 1: ln[0].rel is of a change",
		},
		{"two on a line", w.put(strings.NewReader(strings.TrimSpace(good) + good)), 400, "line 1: expected nothing more"},
		{"one twice", w.put(strings.NewReader(good + "\n" + good)), 400, "line 3: loc stands twice: http://a.example/1"},
		{"one twice, far away", w.put(strings.NewReader(good + many.String() + good)), 400, "line 3002: loc stands twice: http://a.example/1"},
		{"a long line", w.put(strings.NewReader(good + strings.Repeat(" ", 2<<20))), 400, "line 2: "},
		{"cut off", w.put(
			io.MultiReader(strings.NewReader(good), iotest.ErrReader(io.ErrUnexpectedEOF)),
		), 400, "The body could not be read to its end"},
		{"cut off, packed", w.put(bytes.NewReader(packedPart(t)), "Content-Encoding", "gzip"), 400, "The body could not be read to its end"},
		{"no gzip", w.put(strings.NewReader(good), "Content-Encoding", "gzip"), 400, "valid gzip"},
		{"another coding", w.put(strings.NewReader(good), "Content-Encoding", "br"), 415, "must be gzip"},
		{"another type", w.put(strings.NewReader(good), "Content-Type", "application/json"), 415, "application/x-ndjson"},
		{"latin", w.put(strings.NewReader(good), "Content-Type", "application/x-ndjson; charset=latin1"), 415, "in UTF-8"},
	} {
		if c.answer.Code != c.status || !strings.Contains(c.answer.Body.String(), c.text) {
			t.Errorf("%s: %d %s, want %d %s", c.name, c.answer.Code, c.answer.Body, c.status, c.text)
		}
	}
	for path, status := range map[string]int{"/sets/c/resources": 404, "/sets/b/resources": 403} {
		r := httptest.NewRequest(http.MethodPut, path, strings.NewReader(good))
		r.Header.Set("Content-Type", "application/x-ndjson")
		answer := httptest.NewRecorder()
		if w.Intake().ServeHTTP(answer, r); answer.Code != status {
			t.Errorf("%s: %d, want %d", path, answer.Code, status)
		}
	}
	post := httptest.NewRecorder()
	if w.Intake().ServeHTTP(
		post, httptest.NewRequest(http.MethodPost, "/sets/a/resources", nil),
	); post.Code != 405 || post.Header().Get("Allow") != "PUT" {
		t.Errorf("POST: %d, Allow %q", post.Code, post.Header().Get("Allow"))
	}
	w.drain()
	if notes := w.hub.notes(t, "a"); len(notes) != 1 || strings.Join(notes[0].locs(), " ") != "http://a.example/kept" {
		t.Errorf("a snapshot that was refused was told: %v", notes)
	}
}

// packedPart is the beginning of a packed snapshot.
func packedPart(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	fmt.Fprintln(pack, `{"loc":"http://a.example/1"}`)
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()[:packed.Len()-9]
}

// TestSnapshotsBesideEachOther: one import into a set at a time.
func TestSnapshotsBesideEachOther(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a"}}, &hub{})
	slow, end := io.Pipe()
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- w.put(slow) }()
	if _, err := end.Write([]byte(`{"loc":"http://a.example/1"}` + "\n")); err != nil { // it is being read
		t.Fatal(err)
	}
	if answer := w.put(strings.NewReader("")); answer.Code != http.StatusConflict {
		t.Errorf("beside another: %d %s", answer.Code, answer.Body)
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if answer := <-first; answer.Code != http.StatusOK {
		t.Errorf("the first: %d %s", answer.Code, answer.Body)
	}
	if answer := w.put(strings.NewReader("")); answer.Code != http.StatusOK {
		t.Errorf("after it: %d %s", answer.Code, answer.Body)
	}
}

// TestSnapshotIsCarriedOut: a sealed import is carried out, whatever happens to the journal and the
// process in between, and each difference is published once.
func TestSnapshotIsCarriedOut(t *testing.T) {
	for _, fault := range []journaltest.Fault{journaltest.Lost, journaltest.Kept} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, notifier.Config{Sets: []string{"a"}, ResourceLists: []string{"a"}}, &hub{})
				w.record(eventOf(payload.Created, "gone", ""))
				w.stop()
				steps := 0
				w.wrap = func(j notifier.Store) notifier.Store {
					return journaltest.NewFaulty(j, func(call string) journaltest.Fault {
						if call == "Apply" {
							if steps++; steps%2 == 1 {
								return fault
							}
						}
						return journaltest.Works
					})
				}
				w.start()
				var snapshot strings.Builder
				const resources = 1200
				for n := range resources {
					fmt.Fprintf(&snapshot, `{"loc":"http://a.example/%d"}`+"\n", n)
				}
				sent := make(chan *httptest.ResponseRecorder)
				go func() { sent <- w.put(strings.NewReader(snapshot.String())) }()
				synctest.Wait() // the first step has failed
				w.restart()
				if answer := <-sent; answer.Code != http.StatusAccepted || !strings.Contains(answer.Body.String(), `"pending":true`) {
					t.Errorf("who waited when Run ended is told %d %s", answer.Code, answer.Body)
				}
				time.Sleep(time.Hour)
				w.drain()
				var locs []string
				for _, n := range w.hub.notes(t, "a") {
					locs = append(locs, n.locs()...)
				}
				if len(locs) != 1+1+resources || steps < 2 {
					t.Errorf("%d changes were told in %d steps, want %d", len(locs), steps, 1+1+resources)
				}
			})
		})
	}
}

// TestImporter: the work of the command without a notifier.
func TestImporter(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a"}}, &hub{})
	w.stop()
	j := w.journal(t)
	m := notifier.Importer{Store: j}
	var shown []int
	m.Progress = func(done notifier.Imported) { shown = append(shown, done.Resources) }
	i, done, err := m.Read(t.Context(), "a", strings.NewReader(`{"loc":"http://a.example/1"}`))
	if i != nil || err != nil || done.Resources != 1 || done.Events || len(shown) == 0 {
		t.Errorf("the first: %v, %+v, %v, shown %v", i, done, err, shown)
	}
	if err := j.Append(t.Context(), []notifier.Event{eventOf(payload.Created, "2", "")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	i, done, err = m.Read(t.Context(), "a", strings.NewReader(`{"loc":"http://a.example/3"}`))
	if i == nil || err != nil || !done.Events {
		t.Fatalf("the second: %v, %+v, %v", i, done, err)
	}
	if err := m.Apply(t.Context(), i, &done); err != nil || done.Differences != (notifier.Differences{Created: 1, Deleted: 2}) {
		t.Errorf("applied: %+v, %v", done, err)
	}
	if _, _, err := m.Read(t.Context(), "a", strings.NewReader("\n")); !errors.As(err, new(*notifier.InputError)) {
		t.Errorf("an empty one: %v", err)
	}
	if entries(t, j) != 1 {
		t.Errorf("%d resources after it, want 1", entries(t, j))
	}
	m.AllowEmpty = true
	if i, done, err = m.Read(t.Context(), "a", strings.NewReader("")); err == nil {
		err = m.Apply(t.Context(), i, &done)
	}
	if err != nil || done.Deleted != 1 {
		t.Errorf("an empty one that is meant: %+v, %v", done, err)
	}
	m.AllowEmpty = false
	if _, _, err := m.Read(t.Context(), "a", strings.NewReader("")); err != nil {
		t.Errorf("an empty one of an empty set: %v", err)
	}
	if _, _, err := m.Read(t.Context(), "b", strings.NewReader("")); !errors.Is(err, notifier.ErrNoSet) {
		t.Errorf("into no set: %v", err)
	}
}

// entries counts the resources of the set "a".
func entries(t *testing.T, j notifier.Store) (n int) {
	t.Helper()
	_, all, err := j.Resources(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for range all {
		n++
	}
	return n
}
