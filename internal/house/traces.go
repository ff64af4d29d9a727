package house

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/release"
	"carillon/internal/tracing"
)

// lastSpans is what sending the last spans may take at the end.
const lastSpans = 2 * time.Second

// openTraces makes the Tracer, if the variables of OpenTelemetry want one.
func (c Config) openTraces(metrics prometheus.Registerer) (*tracing.Tracer, error) {
	t, err := tracing.New(context.Background(), tracing.Config{
		Getenv: os.Getenv, Service: "carillon-hub", Version: release.Version, Logger: c.Logger, Registerer: metrics,
	})
	switch {
	case err != nil:
		return nil, err
	case t != nil:
		c.Logger.Info(
			"traces are sent to the collector that the OTEL_ variables name", "to_callbacks", c.TraceCallbacks,
		)
	case c.TraceCallbacks:
		c.Logger.Warn("--trace-callbacks does nothing: no variable names a collector (OTEL_EXPORTER_OTLP_ENDPOINT)")
	}
	return t, nil
}

// closeTraces sends the last spans.
func closeTraces(t *tracing.Tracer, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		logger.Warn("the last spans of traces were not sent", "error", err)
	}
}
