package notifier_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// noting is a journal whose Append keeps the events of the last call only.
type noting struct {
	notifier.Store
	appended []notifier.Event
}

func (n *noting) Append(_ context.Context, events []notifier.Event, _ time.Time) error {
	n.appended = slices.Clone(events)
	return nil
}

// FuzzIntake sends anything to the intake listener, under any media type, packed or not: it is taken
// whole or refused whole. With 202 the journal has as many events as the answer says, each of which
// can be published. With any other status it has none, and the answer is a line of text. Nothing is a
// 500.
func FuzzIntake(f *testing.F) {
	const one = `{"loc":"http://a.example/","change":"created"}`
	f.Add("/sets/a/events", "application/json", "", []byte(one))
	f.Add("/events", "application/x-ndjson", "gzip", []byte(gzipped(`{"loc":"http://a.example/","change":"deleted","sets":["a","b"]}`+"\n")))
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: vfs.NewMem(), MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	note := &noting{Store: journal}
	n, err := notifier.New(context.Background(), notifier.Config{
		URL: base, Hub: hubURL, Sets: []string{"a", "b"}, Journal: note, Logger: slog.New(slog.DiscardHandler), Transport: &hub{},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = journal.Close() })
	handler := n.Intake()
	f.Fuzz(func(t *testing.T, path, contentType, coding string, body []byte) {
		if path == "/metrics" || path == "/healthz" {
			return
		}
		note.appended = nil
		r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
		r.URL.Path, r.URL.RawPath, r.RequestURI = path, "", path
		r.Header.Set("Content-Type", contentType)
		if coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != 202 {
			checkRefused(t, w, note.appended)
			return
		}
		var answer struct{ Accepted int }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Accepted != len(note.appended) {
			t.Fatalf("%s for %d events, %v", w.Body, len(note.appended), err)
		}
		for _, e := range note.appended {
			if len(e.Sets) == 0 {
				t.Fatalf("%+v is of no set", e)
			}
			e.Datetime = time.Unix(1, 0)
			if _, err := payload.AppendEntry(nil, &e.Entry); err != nil {
				t.Fatalf("taken, but it cannot be told: %v", err)
			}
		}
	})
}

func checkRefused(t *testing.T, w *httptest.ResponseRecorder, appended []notifier.Event) {
	t.Helper()
	if !slices.Contains([]int{400, 404, 413, 415}, w.Code) || len(appended) > 0 {
		t.Errorf("status %d, with %d events: %s", w.Code, len(appended), w.Body)
	}
	text := w.Body.String()
	if len(text) > 4000 || strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x00\r") {
		t.Errorf("the answer is %q", text)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("it comes as %v", fmt.Sprint(w.Header()))
	}
}
