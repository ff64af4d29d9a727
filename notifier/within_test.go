package notifier_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/notifier"
)

// TestEventsFromWithin: a set whose events come from within takes none from outside, by no way, and
// those by Append.
func TestEventsFromWithin(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}, Within: []string{"b"}}, &hub{})
	const ofB = `{"loc":"http://a.example/","change":"created","sets":["a","b"]}`
	for _, c := range []struct {
		path, body, text string
		status           int
	}{
		{"/sets/b/events", `{"loc":"http://a.example/","change":"created"}`, "The set b takes no events from outside", http.StatusForbidden},
		{"/events", ofB, `element 1: sets names "b", which takes no events from outside`, http.StatusBadRequest},
		{"/sets/a/events", `{"loc":"http://a.example/","change":"created"}`, "accepted", http.StatusAccepted},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		w.Intake().ServeHTTP(answer, r)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.text) {
			t.Errorf("%s: %d %s, want %d %q", c.path, answer.Code, answer.Body, c.status, c.text)
		}
	}
	var refused error
	_, err := w.ReadLines(t.Context(), strings.NewReader(ofB), notifier.LineReader{Refused: func(err error) { refused = err }})
	if err == nil || refused == nil || !strings.Contains(refused.Error(), `names "b"`) {
		t.Errorf("a line: %v, %v", err, refused)
	}
	event, err := notifier.ParseEvent([]byte(ofB))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(t.Context(), []notifier.Event{event}); err != nil {
		t.Error(err)
	}
}
