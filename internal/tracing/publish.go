package tracing

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"carillon/delivery"
	"carillon/topic"
)

// arrival is what is known of a request before anything of it was done.
type arrival struct {
	at    time.Time
	cause trace.SpanContext // what the client says that it is a part of
}

type arrivalKey struct{}

// Handler notes when POSTs to next arrive, and of which trace their sender says that they are
// a part.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			a := arrival{at: time.Now(), cause: causeOf(r.Header)}
			r = r.WithContext(context.WithValue(r.Context(), arrivalKey{}, a))
		}
		next.ServeHTTP(w, r)
	})
}

// causeOf reads traceparent. It ignores tracestate and baggage.
func causeOf(header http.Header) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(header))
	return trace.SpanContextFromContext(ctx).WithTraceState(trace.TraceState{})
}

// Publisher takes what was published (hub.Publisher).
type Publisher interface {
	Publish(ctx context.Context, p delivery.Publication) (delivery.Receipt, error)
}

// Publisher is p, with a span for each publication, and one for the append that it is.
func (t *Tracer) Publisher(p Publisher) Publisher {
	if t == nil {
		return p
	}
	return publisher{p, t}
}

type publisher struct {
	Publisher
	t *Tracer
}

// Publish publishes. The notification's ID, by which its spans are known, is in its receipt: so they
// are made after all is over.
func (p publisher) Publish(ctx context.Context, what delivery.Publication) (delivery.Receipt, error) {
	host, size := topic.Authority(what.Topic.String()), len(what.Body)
	began := time.Now()
	receipt, err := p.Publisher.Publish(ctx, what)
	ended := time.Now()
	a, ok := ctx.Value(arrivalKey{}).(arrival)
	if !ok {
		a.at = began // it was fetched
	}
	p.t.published(a, began, ended, receipt, err,
		attribute.String("carillon.topic.host", host), attribute.Int("carillon.body.size", size))
	return receipt, err
}

func (t *Tracer) published(
	a arrival, began, ended time.Time, r delivery.Receipt, err error, about ...attribute.KeyValue,
) {
	of := idsOf(r.ID)
	ctx := of.root()
	switch {
	case err != nil: // it has no ID, or no client got it
		of = idsOf(uuid.New())
		ctx = of.root()
	case r.Repeated:
		ctx = of.parent() // the span of its first coming is its first
	}
	if err == nil {
		about = append(about, attribute.String("carillon.notification.id", r.ID.String()),
			attribute.Int64("carillon.notification.seq", int64(r.Seq)), attribute.Bool(
				"carillon.notification.repeated", r.Repeated,
			))
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(a.at), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(about...),
	}
	if a.cause.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: a.cause}))
	}
	ctx, span := t.tracer.Start(ctx, "publish", options...)
	_, store := t.tracer.Start(ctx, "log append", trace.WithTimestamp(began))
	if err != nil {
		store.SetStatus(codes.Error, "")
		span.SetStatus(codes.Error, "not stored")
	}
	store.End(trace.WithTimestamp(ended))
	span.End(trace.WithTimestamp(ended))
}
