package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/internal/tracing/tracingtest"
)

// One trace has a publication and every delivery of it: to each subscriber, with the failed
// attempts, and by the process that comes after the one that took it was killed.
func TestTraceGoesOnAfterAKill(t *testing.T) {
	collector := tracingtest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	s := newSink(t)
	port := freePort(t)
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", port)
	s.setHub(hub, 0)
	args := []string{
		"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--url", hub,
		"--store", "pebble:" + t.TempDir(), "--retry-first", "20ms", "--retry-max", "200ms", "--trace-callbacks",
	}
	p := startHub(t, args...)
	topic, callbacks := s.topicURL("0"), []string{"a", "b", "c"}
	for _, name := range callbacks {
		if status, body, err := subscribe(hub, topic, s.callbackURL(name), nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, body, err)
		}
	}
	collector.Await(t, func(spans []tracingtest.Span) bool { return len(named(spans, "verify", "")) == len(callbacks) })
	eventually(t, "the subscriptions", func() bool {
		_, text := look(p.ready["admin"], "/metrics")
		return countOf(text, "carillon_delivery_subscriptions") == len(callbacks)
	})

	s.setHub(hub, 1) // nothing is taken
	status, id, err := publish(hub, topic, "text/plain", "news")
	if err != nil || status != http.StatusOK {
		t.Fatalf("publishing: %d %s %v", status, id, err)
	}
	trace := traceOf(t, id)
	collector.Await(t, func(spans []tracingtest.Span) bool {
		return len(named(spans, "publish", trace)) == 1 && len(named(spans, "deliver", trace)) >= len(callbacks)
	})
	p.kill()
	s.setHub(hub, 0)
	p = startHub(t, args...)
	spans := collector.Await(t, func(spans []tracingtest.Span) bool {
		return tookSpans(named(spans, "deliver", trace)) == len(callbacks)
	})

	published := named(spans, "publish", trace)[0]
	instances := map[any]bool{}
	for _, span := range named(spans, "deliver", trace) {
		if span.Parent != published.ID {
			t.Errorf("a delivery is below %s, the publication is %s", span.Parent, published.ID)
		}
		instances[span.Resource["service.instance.id"]] = true
		if span.Attributes["carillon.class"] == "delivered" {
			t.Logf("trace %s: attempt %v, status %v, subscription %v", trace, span.Attributes["carillon.attempt"],
				span.Attributes["http.response.status_code"], span.Attributes["carillon.subscription.id"])
		}
	}
	if len(instances) != 2 {
		t.Errorf("%d processes delivered, want both", len(instances))
	}
	if n := len(named(spans, "deliver", trace)) - tookSpans(named(spans, "deliver", trace)); n < len(callbacks) {
		t.Errorf("%d failed attempts in the trace, want one of each callback at least", n)
	}
	for _, name := range callbacks {
		s.mu.Lock()
		got := s.got[name]
		s.mu.Unlock()
		if parent := got[len(got)-1].header.Get("Traceparent"); len(parent) != 55 || parent[3:35] != trace {
			t.Errorf("callback %s got traceparent %q of trace %s", name, parent, trace)
		}
	}
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
}

// traceOf is the trace of a notification, which any reader can compute by docs/tracing.md.
func traceOf(t *testing.T, id string) string {
	t.Helper()
	u, err := uuid.Parse(strings.TrimSpace(id))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append([]byte("carillon trace "), u[:]...))
	return hex.EncodeToString(sum[:16])
}

// named are the spans of a name in a trace; in any where that is empty.
func named(spans []tracingtest.Span, name, trace string) (found []tracingtest.Span) {
	for _, s := range spans {
		if s.Name == name && (trace == "" || s.Trace == trace) {
			found = append(found, s)
		}
	}
	return found
}

func tookSpans(spans []tracingtest.Span) (n int) {
	for _, s := range spans {
		if s.Attributes["carillon.class"] == "delivered" {
			n++
		}
	}
	return n
}

// countOf is what a metric without labels says in the text of /metrics, -1 where it is not there.
func countOf(text, name string) int {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return -1
			}
			return int(n)
		}
	}
	return -1
}
