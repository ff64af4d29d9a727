package tracing

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans of what goes through what it wraps. nil is one that is off. Its
// methods may be called from any goroutine.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracer by the variables: nil where they ask for none. It opens no connection: the
// collector may be away.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	wanted, err := cfg.wanted()
	if err != nil || !wanted {
		return nil, err
	}
	sampler, err := cfg.sampler()
	if err != nil {
		return nil, err
	}
	queue, err := cfg.queue()
	if err != nil {
		return nil, err
	}
	lost, err := newLosses(cfg.Logger, cfg.Registerer)
	if err != nil {
		return nil, err
	}
	// The library reports its troubles by these alone, which are the process's.
	otel.SetLogger(logr.FromSlogHandler(cfg.Logger.Handler()))
	otel.SetErrorHandler(lost)
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", uuid.NewString()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	gate := newGate(exporter, queue, lost)
	provider := sdk.NewTracerProvider(
		sdk.WithResource(about), sdk.WithSampler(sampler), sdk.WithIDGenerator(generator{}), sdk.WithSpanProcessor(gate),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("carillon")}, nil
}

// Close sends what waits, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("traces: sending the last: %w", err)
	}
	return nil
}
