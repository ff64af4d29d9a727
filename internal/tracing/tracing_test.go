package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/internal/tracing"
	"carillon/internal/tracing/tracingtest"
	"carillon/subscription"
	"carillon/topic"
)

// variables are an environment, for the Tracer and for what the library reads itself.
type variables map[string]string

func (v variables) tracer(t *testing.T, logger *slog.Logger, reg prometheus.Registerer) *tracing.Tracer {
	t.Helper()
	for name, value := range v {
		t.Setenv(name, value)
	}
	tracer, err := tracing.New(t.Context(), v.config(logger, reg))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func (v variables) config(logger *slog.Logger, reg prometheus.Registerer) tracing.Config {
	return tracing.Config{Getenv: func(name string) string { return v[name] }, Service: "hub", Version: "1.2.3", Logger: logger, Registerer: reg}
}

// publisher appends everything under one ID.
type publisher struct {
	id       uuid.UUID
	err      error
	repeated bool
}

func (p *publisher) Publish(context.Context, delivery.Publication) (delivery.Receipt, error) {
	if p.err != nil {
		return delivery.Receipt{}, p.err
	}
	return delivery.Receipt{ID: p.id, Seq: 7, Repeated: p.repeated}, nil
}

// sender gives preset answers.
type sender struct {
	outcome     send.Outcome
	traceparent string
}

func (s *sender) Send(_ context.Context, a *send.Attempt) send.Outcome {
	s.traceparent = a.Traceparent
	return s.outcome
}

func attemptOf(id uuid.UUID, number uint32) *send.Attempt {
	return &send.Attempt{
		Subscription: subscription.NewID("https://source.example/t", "https://user:pw@Callback.example:8443/secret?x=1"),
		Callback:     "https://user:pw@Callback.example:8443/secret?x=1", Secret: "shared secret", Number: number,
		Notification: &delivery.Notification{
			ID: id, Seq: 7,
			Publication: delivery.Publication{Topic: topic.Parse("https://source.example/t"), Body: []byte("news")},
		},
	}
}

func closeOf(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A publication and its deliveries are one trace, also those after a restart, without a message
// between processes.
func TestOneTrace(t *testing.T) {
	collector := tracingtest.Start(t)
	env := variables{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k", "OTEL_SERVICE_NAME": "mine"}
	first := env.tracer(t, nil, nil)
	id := uuid.New()

	var published http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := first.Publisher(&publisher{id: id})
		if _, err := p.Publish(
			r.Context(),
			delivery.Publication{Topic: topic.Parse("https://source.example/private/t?token=abc"), Body: []byte("news")},
		); err != nil {
			t.Error(err)
		}
	})
	r := httptest.NewRequest(http.MethodPost, "/websub/", strings.NewReader("news"))
	r.Header.Set("Traceparent", incoming)
	r.Header.Set("Tracestate", "vendor=private")
	r.Header.Set("Baggage", "who=private")
	first.Handler(published).ServeHTTP(httptest.NewRecorder(), r)
	failing := &sender{outcome: send.Outcome{Class: delivery.ClassServerError, Status: 503, Err: errors.New("private")}}
	first.Sender(failing, false).Send(t.Context(), attemptOf(id, 1))
	closeOf(t, first)

	second := env.tracer(t, nil, nil)
	good := &sender{outcome: send.Outcome{Class: delivery.ClassDelivered, Status: 204}}
	second.Sender(good, true).Send(t.Context(), attemptOf(id, 2))
	closeOf(t, second)

	spans := map[string][]tracingtest.Span{}
	for _, s := range collector.Spans() {
		spans[s.Name] = append(spans[s.Name], s)
	}
	if len(spans["publish"]) != 1 || len(spans["deliver"]) != 2 || len(spans["log append"]) != 1 {
		t.Fatalf("the collector got %+v", spans)
	}
	publish := spans["publish"][0]
	if publish.Parent != "" || len(publish.Links) != 1 ||
		publish.Links[0] != (tracingtest.Link{Trace: "0af7651916cd43dd8448eb211c80319c", ID: "b7ad6b7169203331"}) {
		t.Errorf("the span of the publication: %+v", publish)
	}
	for _, s := range append(spans["deliver"], spans["log append"]...) {
		if s.Trace != publish.Trace || s.Parent != publish.ID {
			t.Errorf("%s is in trace %s below %s, the publication is %s in %s", s.Name, s.Trace, s.Parent, publish.ID, publish.Trace)
		}
	}
	for i, want := range []map[string]any{
		{"carillon.attempt": int64(1), "carillon.class": "server_error", "http.response.status_code": int64(503)},
		{"carillon.attempt": int64(2), "carillon.class": "delivered", "http.response.status_code": int64(204)},
	} {
		for name, value := range want {
			if got := spans["deliver"][i].Attributes[name]; got != value {
				t.Errorf("attempt %d: %s is %v, want %v", i+1, name, got, value)
			}
		}
	}
	if !spans["deliver"][0].Failed || spans["deliver"][1].Failed {
		t.Error("not the failed attempt alone is an error")
	}
	if want := "00-" + publish.Trace + "-" + spans["deliver"][1].ID + "-01"; good.traceparent != want || failing.traceparent != "" {
		t.Errorf("callbacks got %q and %q, want none and %q", failing.traceparent, good.traceparent, want)
	}
	if publish.Resource["service.name"] != "mine" || publish.Resource["service.version"] != "1.2.3" {
		t.Errorf("the resource is %v", publish.Resource)
	}
	if collector.Header().Get("X-Key") != "k" {
		t.Error("the headers of the exporter were not sent")
	}
	everything := fmt.Sprintf("%+v", collector.Spans())
	for _, private := range []string{"private", "/secret", "pw@", "token=", "shared secret", "news"} {
		if strings.Contains(everything, private) {
			t.Errorf("%q is in a span: %s", private, everything)
		}
	}
	for _, public := range []string{"callback.example:8443", "source.example"} {
		if !strings.Contains(everything, public) {
			t.Errorf("%q is in no span", public)
		}
	}
}

// A repeated publication is marked as such, below the span of its first coming; one that could not be
// stored is a trace of its own.
func TestRepeatedAndFailed(t *testing.T) {
	collector := tracingtest.Start(t)
	tracer := variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.URL + "/v1/traces"}.tracer(t, nil, nil)
	id := uuid.New()
	for _, p := range []*publisher{{id: id}, {id: id, repeated: true}, {err: delivery.ErrUnavailable}} {
		_, _ = tracer.Publisher(p).Publish(t.Context(), delivery.Publication{})
	}
	closeOf(t, tracer)
	var all []tracingtest.Span
	for _, s := range collector.Spans() {
		if s.Name == "publish" {
			all = append(all, s)
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d publications: %+v", len(all), all)
	}
	first, again, failed := all[0], all[1], all[2]
	if again.Trace != first.Trace || again.Parent != first.ID || again.ID == first.ID || again.Attributes["carillon.notification.repeated"] != true {
		t.Errorf("again: %+v, first: %+v", again, first)
	}
	if failed.Trace == first.Trace || !failed.Failed || first.Failed {
		t.Errorf("failed: %+v", failed)
	}
}

// The requests to a callback about one subscription request are in one trace.
func TestVerifications(t *testing.T) {
	collector := tracingtest.Start(t)
	tracer := variables{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}.tracer(t, nil, nil)
	c := tracer.Confirmer(confirmer{})
	r := subscription.Request{
		ID: subscription.NewID("https://a.example/t", "https://b.example/c"), Token: uuid.New(),
		Mode: "subscribe", Callback: "https://b.example/c",
	}
	_ = c.Confirm(t.Context(), r, "challenge")
	_ = c.Confirm(t.Context(), r, "challenge")
	_ = c.Deny(t.Context(), "https://a.example/t", "https://b.example/c", "because")
	closeOf(t, tracer)
	spans := collector.Spans()
	if len(spans) != 3 || spans[0].Trace != spans[1].Trace || spans[0].ID == spans[1].ID || spans[2].Trace == spans[0].Trace ||
		spans[0].Attributes["carillon.result"] != "no_answer" || spans[0].Attributes["server.address"] != "b.example" || !spans[0].Failed {
		t.Errorf("%+v", spans)
	}
	if s := fmt.Sprint(spans); strings.Contains(s, "challenge") || strings.Contains(s, "because") {
		t.Errorf("too much is told: %s", s)
	}
}

type confirmer struct{}

func (confirmer) Confirm(context.Context, subscription.Request, string) error {
	return subscription.ErrNoAnswer
}
func (confirmer) Deny(context.Context, string, string, string) error { return nil }

// Sampling takes traces whole, by their IDs.
func TestSampling(t *testing.T) {
	collector := tracingtest.Start(t)
	tracer := variables{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5",
	}.tracer(t, nil, nil)
	const publications = 400
	good := &sender{outcome: send.Outcome{Class: delivery.ClassDelivered, Status: 200}}
	for range publications {
		id, err := uuid.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tracer.Publisher(&publisher{id: id}).Publish(t.Context(), delivery.Publication{})
		tracer.Sender(good, true).Send(t.Context(), attemptOf(id, 1))
	}
	closeOf(t, tracer)
	traces := map[string]int{}
	for _, s := range collector.Spans() {
		traces[s.Trace]++
	}
	// Fewer or more than these come of 400 fair coins once in 10^15 runs.
	if len(traces) < 120 || len(traces) > 280 {
		t.Errorf("%d of %d traces were taken", len(traces), publications)
	}
	for id, spans := range traces {
		if spans != 3 {
			t.Errorf("trace %s has %d spans, not 3", id, spans)
		}
	}
}

// The variables decide whether there are traces; an impossible setting is refused.
func TestVariables(t *testing.T) {
	const at = "http://127.0.0.1:4318"
	for _, tt := range []struct {
		env  variables
		on   bool
		says string
	}{
		{env: nil},
		{env: variables{"OTEL_SERVICE_NAME": "x"}},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at}, on: true},
		{env: variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": at}, on: true},
		{env: variables{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_EXPORTER": "none"}},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_SDK_DISABLED": "TRUE"}},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_SDK_DISABLED": "no"}, on: true},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, on: true},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, says: "http/protobuf"},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, says: "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_EXPORTER": "zipkin"}, says: "otlp or none"},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_SAMPLER": "xray"}, says: "OTEL_TRACES_SAMPLER"},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_SAMPLER": "always_off"}, on: true},
		{env: variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_SAMPLER": "traceidratio",
			"OTEL_TRACES_SAMPLER_ARG": "NaN",
		}, says: "from 0 to 1"},
		{env: variables{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_BSP_MAX_QUEUE_SIZE": "0"}, says: "OTEL_BSP_MAX_QUEUE_SIZE"},
	} {
		tracer, err := tracing.New(t.Context(), tt.env.config(nil, nil))
		if (tracer != nil) != tt.on || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v, %v; want on: %v, an error that says %q", tt.env, tracer, err, tt.on, tt.says)
		}
		closeOf(t, tracer)
	}
}

// One that is off is not there: it returns what it was given.
func TestOff(t *testing.T) {
	var off *tracing.Tracer
	p, s, c := &publisher{}, &sender{}, confirmer{}
	if off.Publisher(p) != tracing.Publisher(p) || off.Sender(s, true) != send.Sender(s) || off.Confirmer(c) != subscription.Confirmer(c) {
		t.Error("something is wrapped")
	}
	closeOf(t, off)
}

// A collector that is away holds nothing up. Dropped spans are counted, and reported once.
func TestCollectorAway(t *testing.T) {
	hang, hanging := make(chan struct{}), make(chan struct{}, 64)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hanging <- struct{}{}
		<-hang
	}))
	defer server.Close()
	defer close(hang)
	var text bytes.Buffer
	reg := prometheus.NewRegistry()
	tracer := variables{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "5", "OTEL_BSP_EXPORT_TIMEOUT": "50",
	}.tracer(t, slog.New(slog.NewTextHandler(&text, nil)), reg)
	good := tracer.Sender(&sender{outcome: send.Outcome{Class: delivery.ClassDelivered, Status: 200}}, false)
	const attempts = 1000
	for n := range attempts {
		if good.Send(t.Context(), attemptOf(uuid.New(), 1)); n == 5 {
			<-hanging // the collector has the first ones
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = tracer.Close(ctx) // it tries to send what is left
	if err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP carillon_tracing_spans_total Spans of traces by what became of them: sent to the collector, or lost as it was away or too slow.
# TYPE carillon_tracing_spans_total counter
carillon_tracing_spans_total{result="lost"} %d
carillon_tracing_spans_total{result="sent"} 0
`, attempts))); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text.String(), "spans of traces are lost"); n != 1 || strings.Count(text.String(), "\n") != 1 {
		t.Errorf("the log has %d lines of it: %s", n, text.String())
	}
}

// BenchmarkSend is what an attempt costs more: with a span, with one that is not sampled,
// and without traces.
func BenchmarkSend(b *testing.B) {
	for _, how := range []string{"off", "always_off", "always_on"} {
		b.Run(how, func(b *testing.B) {
			var tracer *tracing.Tracer
			if how != "off" {
				server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
				defer server.Close()
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
				var err error
				tracer, err = tracing.New(
					b.Context(),
					variables{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_TRACES_SAMPLER": how}.config(nil, nil),
				)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = tracer.Close(b.Context()) }()
			}
			s := tracer.Sender(&sender{outcome: send.Outcome{Class: delivery.ClassDelivered, Status: 200}}, false)
			a := attemptOf(uuid.New(), 1)
			b.ReportAllocs()
			for b.Loop() {
				s.Send(b.Context(), a)
			}
		})
	}
}
