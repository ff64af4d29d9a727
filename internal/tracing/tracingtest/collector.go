// Package tracingtest is a collector of OpenTelemetry traces for tests: it takes OTLP over
// HTTP as protobuf, and keeps what it got.
package tracingtest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// patience is how long Await waits for spans.
const patience = 30 * time.Second

// Span is a span as the collector got it.
type Span struct {
	Name, Trace, ID, Parent string // IDs in hexadecimal; Parent empty: it has none
	Links                   []Link
	Began, Ended            time.Time
	Failed                  bool
	// Attributes are its own, Resource those of who sent it.
	Attributes, Resource map[string]any
}

// Link is what else a span says that it belongs to.
type Link struct{ Trace, ID, State string }

// Collector keeps spans. Its methods may be called from any goroutine.
type Collector struct {
	// URL is for OTEL_EXPORTER_OTLP_ENDPOINT.
	URL string

	mu      sync.Mutex
	spans   []Span        // owned by mu
	header  http.Header   // of the latest request; owned by mu
	changed chan struct{} // closed when there are more; owned by mu
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{changed: make(chan struct{})}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "spans are posted to /v1/traces as application/x-protobuf", http.StatusBadRequest)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	raw, err := io.ReadAll(body)
	var message collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &message)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.keep(&message, r.Header)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) keep(message *collector.ExportTraceServiceRequest, header http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = header
	for _, r := range message.GetResourceSpans() {
		about := values(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				kept := Span{
					Name: span.GetName(), Trace: hex.EncodeToString(span.GetTraceId()), ID: hex.EncodeToString(span.GetSpanId()),
					Parent: hex.EncodeToString(span.GetParentSpanId()),
					Began:  time.Unix(0, int64(span.GetStartTimeUnixNano())), Ended: time.Unix(0, int64(span.GetEndTimeUnixNano())),
					Failed: span.GetStatus().GetCode() == 2, Attributes: values(span.GetAttributes()), Resource: about,
				}
				for _, l := range span.GetLinks() {
					kept.Links = append(
						kept.Links,
						Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId()), l.GetTraceState()},
					)
				}
				c.spans = append(c.spans, kept)
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func values(all []*common.KeyValue) map[string]any {
	found := map[string]any{}
	for _, kv := range all {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			found[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			found[kv.GetKey()] = v.IntValue
		case *common.AnyValue_BoolValue:
			found[kv.GetKey()] = v.BoolValue
		default:
			found[kv.GetKey()] = v
		}
	}
	return found
}

// Spans are those that came, the one that began first leading.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := slices.Clone(c.spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return a.Began.Compare(b.Began) })
	return spans
}

// Header is that of the latest request.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Await returns the spans when enough says that all are there.
func (c *Collector) Await(t testing.TB, enough func([]Span) bool) []Span {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		spans := c.Spans()
		if enough(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("the collector got only %+v", spans)
		}
	}
}
