package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// Sender is s, with a span for each attempt: a child of the publication's span, from
// any process. With tell each delivery has the header traceparent.
func (t *Tracer) Sender(s send.Sender, tell bool) send.Sender {
	if t == nil {
		return s
	}
	return sender{s, t, tell}
}

type sender struct {
	send.Sender
	t    *Tracer
	tell bool
}

// Send makes one attempt.
func (s sender) Send(ctx context.Context, a *send.Attempt) send.Outcome {
	of := idsOf(a.Notification.ID)
	_, span := s.t.tracer.Start(of.parent(), "deliver", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("server.address", topic.Authority(a.Callback)),
			attribute.String("carillon.subscription.id", a.Subscription.String()),
			attribute.String("carillon.notification.id", a.Notification.ID.String()),
			attribute.Int64("carillon.notification.seq", int64(a.Notification.Seq)),
			attribute.Int64("carillon.attempt", int64(a.Number)),
			attribute.Int("carillon.body.size", len(a.Notification.Body)),
		)
	}
	if s.tell {
		a.Traceparent = traceparent(span.SpanContext())
	}
	out := s.Sender.Send(ctx, a)
	span.SetAttributes(attribute.String("carillon.class", out.Class.String()))
	if out.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", out.Status))
	}
	if out.Class != delivery.ClassDelivered {
		span.SetStatus(codes.Error, out.Class.String())
	}
	span.End()
	return out
}

// traceparent is the value of the header (W3C Trace Context §3.2).
func traceparent(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// Confirmer is c, with a span for each request to a callback. Those of one subscription
// request are in one trace.
func (t *Tracer) Confirmer(c subscription.Confirmer) subscription.Confirmer {
	if t == nil {
		return c
	}
	return confirmer{c, t}
}

type confirmer struct {
	subscription.Confirmer
	t *Tracer
}

// Confirm asks a callback for its intent.
func (c confirmer) Confirm(ctx context.Context, r subscription.Request, challenge string) error {
	_, span := c.t.tracer.Start(idsOf(r.Token).another().root(), "verify", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("carillon.mode", string(r.Mode)),
		attribute.String("carillon.subscription.id", r.ID.String()),
		attribute.String("server.address", topic.Authority(r.Callback)),
		attribute.String("carillon.topic.host", topic.Authority(r.Topic)),
	))
	err := c.Confirmer.Confirm(ctx, r, challenge)
	end(span, err)
	return err
}

// Deny sends a callback its denial.
func (c confirmer) Deny(ctx context.Context, topicURL, callback, reason string) error {
	_, span := c.t.tracer.Start(context.Background(), "deny", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("carillon.subscription.id", subscription.NewID(topicURL, callback).String()),
		attribute.String("server.address", topic.Authority(callback)),
		attribute.String("carillon.topic.host", topic.Authority(topicURL)),
	))
	err := c.Confirmer.Deny(ctx, topicURL, callback, reason)
	end(span, err)
	return err
}

// end ends the span of a request to a callback.
func end(span trace.Span, err error) {
	result := "confirmed"
	switch {
	case errors.Is(err, subscription.ErrNoIntent):
		result = "no_intent"
	case err != nil:
		result = "no_answer"
	}
	span.SetAttributes(attribute.String("carillon.result", result))
	if err != nil {
		span.SetStatus(codes.Error, result)
	}
	span.End()
}
