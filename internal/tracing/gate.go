package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// gate lets no more spans wait than the queue behind it holds, so that it, and not the queue,
// which would not tell, drops those that are too many; it counts what the exporter has
// sent, and what it could not.
type gate struct {
	sdk.SpanProcessor // sends in the background
	exporter          sdk.SpanExporter
	waiting           atomic.Int64
	room              int64
	lost              *losses
}

func newGate(exporter sdk.SpanExporter, room int, lost *losses) *gate {
	g := &gate{exporter: exporter, room: int64(room), lost: lost}
	g.SpanProcessor = sdk.NewBatchSpanProcessor(outlet{g}, sdk.WithMaxQueueSize(room))
	return g
}

// OnEnd takes a span that has ended, or drops it. It does not wait.
func (g *gate) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if g.waiting.Add(1) > g.room {
		g.waiting.Add(-1)
		g.lost.add(1, errQueueFull)
		return
	}
	g.SpanProcessor.OnEnd(s)
}

var errQueueFull = errors.New("more spans wait than the queue holds: the collector takes them too slowly")

// outlet is the exporter of what has passed the gate.
type outlet struct{ *gate }

// ExportSpans sends spans. Losses are counted and logged here.
func (o outlet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := o.exporter.ExportSpans(ctx, spans)
	o.waiting.Add(-int64(len(spans)))
	if err != nil {
		o.lost.add(len(spans), err)
		return nil
	}
	o.lost.sent.Add(float64(len(spans)))
	return nil
}

// Shutdown ends the exporter.
func (o outlet) Shutdown(ctx context.Context) error { return o.exporter.Shutdown(ctx) }

// lossEvery is how often a line reports lost spans.
const lossEvery = time.Minute

// losses counts what was sent and what was lost.
type losses struct {
	logger         *slog.Logger
	sent, lost     prometheus.Counter
	mu             sync.Mutex
	untold         int       // owned by mu
	told, toldElse time.Time // owned by mu
}

func newLosses(logger *slog.Logger, reg prometheus.Registerer) (*losses, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "tracing", Name: "spans_total",
		Help: "Spans of traces by what became of them: sent to the collector, or lost as it was away or too slow.",
	}, []string{"result"})
	l := &losses{logger: logger, sent: spans.WithLabelValues("sent"), lost: spans.WithLabelValues("lost")}
	if reg == nil {
		return l, nil
	}
	return l, reg.Register(spans)
}

// add notes spans that were lost.
func (l *losses) add(n int, why error) {
	l.lost.Add(float64(n))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.untold += n
	if now := time.Now(); l.told.IsZero() || now.Sub(l.told) >= lossEvery {
		l.logger.Warn("spans of traces are lost: the collector does not take them", "spans", l.untold, "error", why)
		l.told, l.untold = now, 0
	}
}

// Handle takes what else the library has to say (otel.ErrorHandler).
func (l *losses) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.toldElse.IsZero() || now.Sub(l.toldElse) >= lossEvery {
		l.logger.Warn("trouble with traces", "error", err)
		l.toldElse = now
	}
}
