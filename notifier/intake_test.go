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
	"testing/synctest"

	"carillon/notifier"
	"carillon/notifier/journaltest"
)

// ask sends one request to a handler; headers are "Name: value".
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // into memory
	_ = w.Close()
	return b.String()
}

const (
	asJSON  = "Content-Type: application/json"
	asLines = "Content-Type: application/x-ndjson"
	asGzip  = "Content-Encoding: gzip"
)

func TestIntake(t *testing.T) {
	one := `{"loc":"http://a.example/","change":"created"}`
	forSets := `{"loc":"http://a.example/","change":"created","sets":["a","b"]}`
	tooMany := strings.Repeat(one+"\n", notifier.MaxIntakeEvents+1)
	tooLong := strings.Repeat(" ", notifier.MaxIntakeBytes+1)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		want                     string // in the answer
		sets                     string // how many events a and b have then
	}{
		{"an object", "POST", "/sets/a/events", one, []string{asJSON}, 202, `{"accepted":1}`, "1 0"},
		{"an array", "POST", "/sets/a/events", "[" + one + "," + one + "]", []string{asJSON}, 202, `{"accepted":2}`, "2 0"},
		{"lines", "POST", "/sets/b/events", one + "\n" + one + "\n", []string{asLines}, 202, `{"accepted":2}`, "0 2"},
		{"a charset", "POST", "/sets/a/events", one, []string{asJSON + "; charset=UTF-8"}, 202, "1", "1 0"},
		{"gzip", "POST", "/sets/a/events", gzipped(one), []string{asJSON, asGzip}, 202, "1", "1 0"},
		{"several sets", "POST", "/events", forSets, []string{asJSON}, 202, `{"accepted":1}`, "1 1"},
		{"an empty array", "POST", "/events", "[]", []string{asJSON}, 202, `{"accepted":0}`, "0 0"},

		{"nothing", "POST", "/sets/a/events", "", []string{asJSON}, 400, "must be an event", "0 0"},
		{"a wrong line", "POST", "/sets/a/events", one + "\n\n{}", []string{asLines}, 400, "line 3: loc is missing", "0 0"},
		{"a wrong element", "POST", "/sets/a/events", "[" + one + ",{}]", []string{asJSON}, 400, "element 2: loc is missing", "0 0"},
		{"sets beside the path's", "POST", "/sets/a/events", one + "\n" + forSets, []string{asLines}, 400, "line 2: sets must be left out", "0 0"},
		{"no sets", "POST", "/events", one, []string{asJSON}, 400, "element 1: sets is missing", "0 0"},
		{"an unknown set in an event", "POST", "/events", forSets + "\n\n" + strings.Replace(forSets, `"b"`, `"c"`, 1), []string{asLines}, 400, `line 3: sets names "c"`, "0 0"},
		{"not gzip", "POST", "/sets/a/events", one, []string{asJSON, asGzip}, 400, "gzip", "0 0"},
		{"gzip that is cut off", "POST", "/sets/a/events", gzipped(one)[:30], []string{asJSON, asGzip}, 400, "gzip", "0 0"},
		{"an unknown set", "POST", "/sets/c/events", one, []string{asJSON}, 404, "no such set", "0 0"},
		{"an unknown path", "POST", "/sets/a/event", one, []string{asJSON}, 404, "nothing", "0 0"},
		{"an escaped slash", "POST", "/sets/a%2Fevents/events", one, []string{asJSON}, 404, "no such set", "0 0"},
		{"GET", "GET", "/sets/a/events", "", nil, 405, "POST", "0 0"},
		{"PUT", "PUT", "/events", forSets, []string{asJSON}, 405, "POST", "0 0"},
		{"POST of health", "POST", "/healthz", "", nil, 405, "GET, HEAD", "0 0"},
		{"too many events", "POST", "/sets/a/events", tooMany, []string{asLines}, 413, "50000 events", "0 0"},
		{"too many bytes", "POST", "/sets/a/events", tooLong, []string{asJSON}, 413, "52428800", "0 0"},
		{"too many bytes unpacked", "POST", "/sets/a/events", gzipped(tooLong), []string{asJSON, asGzip}, 413, "52428800", "0 0"},
		{"no type", "POST", "/sets/a/events", one, nil, 415, "application/x-ndjson", "0 0"},
		{"two types", "POST", "/sets/a/events", one, []string{asJSON, asLines}, 415, "application/json", "0 0"},
		{"another type", "POST", "/sets/a/events", one, []string{"Content-Type: text/plain"}, 415, "application/json", "0 0"},
		{"another charset", "POST", "/sets/a/events", one, []string{asJSON + "; charset=utf-16"}, 415, "UTF-8", "0 0"},
		{"another coding", "POST", "/sets/a/events", one, []string{asJSON, "Content-Encoding: br"}, 415, "gzip", "0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}, Registry: nil}, &hub{})
			got := ask(w.Intake(), c.method, c.path, c.body, c.headers...)
			if got.Code != c.code || !strings.Contains(got.Body.String(), c.want) {
				t.Fatalf("%d %q, want %d with %q", got.Code, got.Body, c.code, c.want)
			}
			wantKind := "text/plain; charset=utf-8"
			if c.code == 202 {
				wantKind = "application/json"
			} else if got.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Error("no nosniff")
			}
			if kind := got.Header().Get("Content-Type"); kind != wantKind {
				t.Errorf("Content-Type %q", kind)
			}
			if (c.code == 405) != (got.Header().Get("Allow") != "") {
				t.Errorf("%d with Allow %q", c.code, got.Header().Get("Allow"))
			}
			w.drain()
			count := map[string]int{}
			for _, set := range []string{"a", "b"} {
				for _, n := range w.hub.notes(t, set) {
					count[set] += len(n.entries)
				}
			}
			if sets := fmt.Sprint(count["a"], " ", count["b"]); sets != c.sets {
				t.Errorf("the sets have %s events, want %s", sets, c.sets)
			}
		})
	}
}

func TestIntakeWithoutItsJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		w.wrap = func(j notifier.Store) notifier.Store {
			return journaltest.NewFaulty(j, func(call string) journaltest.Fault {
				if call == "Append" && broken {
					return journaltest.Lost
				}
				return journaltest.Works
			})
		}
		w.start()
		defer w.stop()
		broken = true
		post := func() *httptest.ResponseRecorder {
			return ask(w.Intake(), "POST", "/sets/default/events", `{"loc":"http://a.example/","change":"created"}`, asJSON)
		}
		got := post()
		if got.Code != 503 || got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "injected") {
			t.Errorf("%d %q %v, want 503 with Retry-After and nothing from inside", got.Code, got.Body, got.Header())
		}
		broken = false
		if got := post(); got.Code != 202 {
			t.Errorf("when the journal is back: %d", got.Code)
		}
	})
}

func TestHealthAndMetrics(t *testing.T) {
	w := newWorld(t, notifier.Config{}, &hub{})
	if got := ask(w.Intake(), "GET", "/healthz", ""); got.Code != 200 {
		t.Errorf("/healthz: %d", got.Code)
	}
	ask(w.Intake(), "POST", "/events", "", asJSON)
	w.add(inDefault, "1", "2")
	w.drain()
	metrics := ask(w.Intake(), "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`carillon_notifier_events_total{set="default"} 2`,
		`carillon_notifier_notifications_accepted_total{set="default"} 1`,
		`carillon_notifier_posts_total{outcome="accepted",set="default"} 1`,
		`carillon_notifier_intake_requests_total{code="400"} 1`,
		`carillon_notifier_publish_failures{set="default"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no line %s in\n%s", line, metrics)
		}
	}
}

func TestReadLines(t *testing.T) {
	one := `{"loc":"http://a.example/%d","change":"created"%s}` + "\n"
	long := fmt.Sprintf(one, 9, `,"type":"`+strings.Repeat("x", notifier.MaxEventBytes)+`"`)
	for _, c := range []struct {
		name, text string
		sets       []string
		strict     bool
		taken      int
		refused    string // the messages, each ended by a semicolon
	}{
		{"one set", fmt.Sprintf(one, 1, "") + "\n" + fmt.Sprintf(one, 2, `,"sets":["a"]`), []string{"a"}, false, 2, ""},
		{"no line end", strings.TrimSpace(fmt.Sprintf(one, 1, "")), []string{"a"}, false, 1, ""},
		{"nothing", "", []string{"a"}, false, 0, ""},
		{"several sets", fmt.Sprintf(one, 1, `,"sets":["a","b"]`) + fmt.Sprintf(one, 2, ""), []string{"a", "b"}, false, 1, "line 2: sets is missing;"},
		{"bad lines", "x\n" + fmt.Sprintf(one, 1, "") + "{}\n" + fmt.Sprintf(one, 2, ""), []string{"a"}, false, 2, "line 1: must be an event (a JSON object), found 'x';line 3: loc is missing;"},
		{"strict", fmt.Sprintf(one, 1, "") + "{}\n" + fmt.Sprintf(one, 2, ""), []string{"a"}, true, 1, "line 2: loc is missing;"},
		{"a long line", fmt.Sprintf(one, 1, "") + long + fmt.Sprintf(one, 2, ""), []string{"a"}, false, 2, "line 2: the event has more than 1048576 bytes;"},
		{"a long line at the end", strings.TrimSpace(long), []string{"a"}, false, 0, "line 1: the event has more than 1048576 bytes;"},
		{"another set", fmt.Sprintf(one, 1, `,"sets":["c"]`), []string{"a"}, false, 0, `line 1: sets names "c", which is no set here;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, notifier.Config{Sets: c.sets}, &hub{})
				refused := ""
				taken, err := w.ReadLines(t.Context(), strings.NewReader(c.text), notifier.LineReader{
					Strict: c.strict, Refused: func(err error) { refused += err.Error() + ";" },
				})
				if (c.refused != "") != errors.Is(err, notifier.ErrBadLines) || c.refused == "" && err != nil {
					t.Errorf("error %v", err)
				}
				if taken != c.taken || refused != c.refused {
					t.Errorf("took %d and refused %q, want %d and %q", taken, refused, c.taken, c.refused)
				}
				w.drain()
				got := 0
				for _, n := range w.hub.notes(t, "a") {
					got += len(n.entries)
				}
				if got != c.taken {
					t.Errorf("the hub has %d events, want %d", got, c.taken)
				}
			})
		})
	}
}

// TestReadLinesTakesWhatIsComplete: a line does not wait for the end of the next.
func TestReadLinesTakesWhatIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{}, &hub{})
		r, stdin := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := w.ReadLines(t.Context(), r, notifier.LineReader{Refused: func(err error) { t.Error(err) }})
			ended <- err
		}()
		line := `{"loc":"http://a.example/","change":"created"}` + "\n"
		if _, err := io.WriteString(stdin, line+line[:20]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.drain()
		if got := w.hub.notes(t, notifier.DefaultSet); len(got) != 1 {
			t.Errorf("%d notifications while the second line is unfinished, want 1", len(got))
		}
		if _, err := io.WriteString(stdin, line[20:]); err != nil {
			t.Fatal(err)
		}
		stdin.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestReadLinesReportsAReadThatFails(t *testing.T) {
	w := newWorld(t, notifier.Config{}, &hub{})
	broken := io.MultiReader(strings.NewReader(`{"loc":"http://a.example/","change":"created"}`+"\n"+`{"loc":"http://a.exam`), brokenReader{})
	taken, err := w.ReadLines(t.Context(), broken, notifier.LineReader{Refused: func(err error) { t.Error(err) }})
	if taken != 1 || !errors.Is(err, errBroken) {
		t.Errorf("took %d, %v", taken, err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }
