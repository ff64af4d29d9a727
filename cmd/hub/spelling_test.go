package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"carillon/internal/redistest"
)

// A topic is one topic as an IRI, as a URI, and with its scheme in capitals (RFC 3987 §3.1,
// RFC 3986 §3.1): subscribers by each spelling get what is published or pinged by another.
func TestTopicsInOtherSpellings(t *testing.T) {
	t.Parallel()
	for engine, store := range map[string]func() string{
		"pebble": func() string { return "pebble:" + t.TempDir() },
		"redis":  func() string { return redistest.Start(t).URL() },
	} {
		t.Run(engine, func(t *testing.T) {
			s := newSink(t)
			p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store())
			hub := "http://" + p.ready["listen"] + "/websub/"
			s.setHub(hub, 0)
			iri, uri := s.topicURL("café"), s.topicURL("caf%C3%A9")
			subscribers := map[string]string{"1": iri, "2": uri, "3": strings.Replace(uri, "http:", "HTTP:", 1)}
			for callback, topic := range subscribers {
				if status, body, err := subscribe(hub, topic, s.callbackURL(callback), nil); err != nil || status != http.StatusAccepted {
					t.Fatalf("subscribing to %s: %d %s %v", topic, status, body, err)
				}
			}
			s.await(t, "the verifications", func() bool { return len(s.verified) == len(subscribers) })
			everyone := func(body string) {
				t.Helper()
				s.await(t, "the deliveries of "+body, func() bool {
					return s.has("1", body) && s.has("2", body) && s.has("3", body)
				})
			}
			for _, topic := range []string{uri, iri, subscribers["3"]} {
				if status, body, err := publish(hub, topic, "text/plain", "by "+topic); err != nil || status != http.StatusOK {
					t.Fatalf("publishing to %s: %d %s %v", topic, status, body, err)
				}
				everyone("by " + topic)
			}
			form := url.Values{"hub.mode": {"publish"}, "hub.url": {iri}}
			if status, body, err := answer(http.PostForm(hub, form)); err != nil || status/100 != 2 {
				t.Fatalf("the ping: %d %s %v", status, body, err)
			}
			everyone("the content of café")
		})
	}
}
