package hub_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"carillon/hub"
	"carillon/subscription"
)

// TestPingOfAList: several topics in one value, joined by commas, are taken apart unless the value is
// known as a topic. If no topic is known, it may be either, and all are fetched.
func TestPingOfAList(t *testing.T) {
	const a, b, c = "http://a.example/x", "https://b.example/y?p=1,2", "http://c.example/,z"
	for name, tt := range map[string]struct {
		value string
		known string // a topic with a subscription
		want  []string
	}{
		"nobody knows":         {a + "," + b, "", []string{a, a + "," + b, b}},
		"a part is known":      {a + "," + b, b, []string{a, b}},
		"the value is known":   {a + "," + b, a + "," + b, []string{a + "," + b}},
		"with spaces":          {a + ", " + b + " , " + c, "", []string{a, b, c}},
		"three":                {a + "," + b + "," + c, a, []string{a, b, c}},
		"the same twice":       {a + "," + a, a, []string{a}},
		"a comma of its own":   {b, "", []string{b}},
		"a part is no URL":     {a + ",http://", "", []string{a + ",http://"}},
		"an address in a path": {"http://a.example/x,https:y", "", []string{"http://a.example/x,https:y"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, hub.Config{URL: hubURL}, nowhere{}, strict{})
			if tt.known != "" {
				s.audience.is(map[string][]subscription.Subscription{tt.known: {{Topic: tt.known}}})
			}
			s.ping(t, tt.value)
			if got := slices.Sorted(maps.Keys(s.pings.kept)); !slices.Equal(got, slices.Sorted(slices.Values(tt.want))) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// strict lets URLs be that have a host and no spaces.
type strict struct{}

func (strict) CheckURL(raw string) error {
	r, err := http.NewRequest(http.MethodGet, raw, nil)
	if err == nil && (r.URL.Host == "" || strings.Contains(raw, " ")) {
		err = fmt.Errorf("%q is no URL", raw)
	}
	return err
}

// TestPingOfMany: one ping may name 1,000 topics.
func TestPingOfMany(t *testing.T) {
	s := newStage(t, hub.Config{URL: hubURL}, nowhere{}, anywhere{})
	var body strings.Builder
	body.WriteString("hub.mode=publish")
	for i := range 1000 {
		fmt.Fprintf(&body, "&hub.url=http://%d.example/", i)
	}
	for _, tt := range []struct {
		more   string
		status int
	}{{"", http.StatusNoContent}, {"&hub.url=http://more.example/", http.StatusBadRequest}} {
		r := httptest.NewRequest(http.MethodPost, hubURL, strings.NewReader(body.String()+tt.more))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", formType)
		w := httptest.NewRecorder()
		s.hub.Handler().ServeHTTP(w, r)
		if w.Code != tt.status || s.pings.waiting() != 1000 {
			t.Errorf("%d %s, %d wait", w.Code, w.Body, s.pings.waiting())
		}
	}
}
