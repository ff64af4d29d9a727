package main

import (
	"context"
	"os"
	"time"

	"carillon/cmd/internal/program"
	"carillon/internal/tracing"
)

// traceFlags say what of the traces goes to others. Whether there are any, and where they
// go, is told by the variables that OpenTelemetry has for all programs.
type traceFlags struct {
	TraceCallbacks bool `help:"Send traceparent (W3C Trace Context) with each delivery, so that a Destination's traces can go on where the hub's end. There are traces where OTEL_EXPORTER_OTLP_ENDPOINT names a collector."`
}

// lastSpans is what sending the last spans may take at the end.
const lastSpans = 2 * time.Second

// openTraces makes the Tracer, if the variables want one.
func (h *house) openTraces(ctx context.Context, f traceFlags) (err error) {
	h.traces, err = tracing.New(ctx, tracing.Config{
		Getenv: os.Getenv, Service: "carillon-hub", Version: program.Version, Logger: h.logger, Registerer: h.metrics,
	})
	switch {
	case err != nil:
		return err
	case h.traces != nil:
		h.logger.Info("traces are sent to the collector that the OTEL_ variables name", "to_callbacks", f.TraceCallbacks)
	case f.TraceCallbacks:
		h.logger.Warn("--trace-callbacks does nothing: no variable names a collector (OTEL_EXPORTER_OTLP_ENDPOINT)")
	}
	return nil
}

// closeTraces sends the last spans.
func (h *house) closeTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := h.traces.Close(ctx); err != nil {
		h.logger.Warn("the last spans of traces were not sent", "error", err)
	}
}
