package dump_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// TestNothingIsWrittenForWhoHasIt checks that a dump is written only where it is sent, and then in
// pieces: a HEAD, or a request that gets 304, must not cost a document of up to 50 MB.
func TestNothingIsWrittenForWhoHasIt(t *testing.T) {
	const packages = 100
	w := newWorld(t, notifier.Config{ChangeListEntries: packages}, dump.Config{PackageEntries: 1})
	var events []notifier.Event
	for i := range packages {
		name := fmt.Sprint(i)
		w.shelf.put(loc(name), name)
		events = append(events, entry(name, name, payload.Created))
	}
	w.tell(events...)
	<-w.changed
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	public := w.Public()
	for _, name := range []string{"changedump", "resourcedump"} {
		path := "/default/" + name + ".xml"
		if n := len(w.document(path[1:]).packages); n != packages {
			t.Fatalf("%s has %d packages", name, n)
		}
		ask := func(method, tag string, status int) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("If-None-Match", tag)
			answer := httptest.NewRecorder()
			if public.ServeHTTP(answer, r); answer.Code != status {
				t.Errorf("%s %s: %d, want %d", method, path, answer.Code, status)
			}
			return answer
		}
		tag := ask(http.MethodGet, `"other"`, http.StatusOK).Header().Get("ETag")
		for _, c := range []struct {
			method, tag string
			status      int
		}{
			{http.MethodHead, `"other"`, http.StatusOK},
			{http.MethodGet, tag, http.StatusNotModified},
		} {
			n := testing.AllocsPerRun(5, func() { ask(c.method, c.tag, c.status) })
			if n >= 3*packages {
				t.Errorf("%s %s with %s allocates %.0f times for %d packages",
					c.method, path, c.tag, n, packages)
			}
		}
	}
}
