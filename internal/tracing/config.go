package tracing

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"
)

// The variables that are read here. The exporter and the SDK read others themselves:
// OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE and those of the client,
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_….
const (
	varDisabled       = "OTEL_SDK_DISABLED"
	varExporter       = "OTEL_TRACES_EXPORTER"
	varEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	varTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	varTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	varSampler        = "OTEL_TRACES_SAMPLER"
	varSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
	varQueue          = "OTEL_BSP_MAX_QUEUE_SIZE"
)

// Config is what a Tracer is made of.
type Config struct {
	// Getenv reads a variable, as os.Getenv does.
	Getenv func(name string) string
	// Service is the name of the service where OTEL_SERVICE_NAME says none.
	Service string
	// Version is that of the program.
	Version string
	// Logger logs errors. nil: they are not logged.
	Logger *slog.Logger
	// Registerer takes the metrics of what was sent and dropped; it may be nil.
	Registerer prometheus.Registerer
}

// wanted reports whether the variables ask for traces. The error is of variables that ask for
// something impossible.
func (c Config) wanted() (bool, error) {
	if strings.EqualFold(strings.TrimSpace(c.Getenv(varDisabled)), "true") {
		return false, nil
	}
	endpoint := c.first(varTracesEndpoint, varEndpoint)
	switch exporter := strings.TrimSpace(c.Getenv(varExporter)); exporter {
	case "":
		if endpoint == "" {
			return false, nil
		}
	case "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("%s is %q: it can be otlp or none", varExporter, exporter)
	}
	if protocol := c.first(varTracesProtocol, varProtocol); protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf(
			"%s is %q: only http/protobuf is spoken, to which collectors listen at port 4318", varProtocol, protocol,
		)
	}
	for _, name := range []string{varTracesEndpoint, varEndpoint} {
		if err := checkEndpoint(c.Getenv(name)); err != nil {
			return false, fmt.Errorf("%s %w", name, err)
		}
	}
	return true, nil
}

// first returns the first of the variables that has something.
func (c Config) first(names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(c.Getenv(name)); value != "" {
			return value
		}
	}
	return ""
}

// checkEndpoint refuses what the exporter would not take, and send to the default instead.
func checkEndpoint(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("is no URL as http://collector:4318 is")
	}
	return nil
}

// sampler is what OTEL_TRACES_SAMPLER names. It decides by the trace's ID alone, so that every
// process decides alike for every span of a trace: publications have no parent, and so
// parentbased_X is X.
func (c Config) sampler() (trace.Sampler, error) {
	name := strings.ToLower(strings.TrimSpace(c.Getenv(varSampler)))
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return trace.AlwaysSample(), nil
	case "always_off":
		return trace.NeverSample(), nil
	case "traceidratio":
		arg := strings.TrimSpace(c.Getenv(varSamplerArg))
		if arg == "" {
			return trace.AlwaysSample(), nil
		}
		ratio, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("%s is %q: it must be from 0 to 1", varSamplerArg, arg)
		}
		return trace.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf(
		"%s is %q: it can be always_on, always_off or traceidratio, or parentbased_ and one of them",
		varSampler, name,
	)
}

// maxQueue bounds OTEL_BSP_MAX_QUEUE_SIZE: a span takes about 1 KB.
const maxQueue = 1 << 20

// queue is how many spans may wait to be sent.
func (c Config) queue() (int, error) {
	raw := strings.TrimSpace(c.Getenv(varQueue))
	if raw == "" {
		return trace.DefaultMaxQueueSize, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < 1 || n > maxQueue {
		return 0, fmt.Errorf("%s is %q: it must be from 1 to %d", varQueue, raw, maxQueue)
	}
	return n, nil
}
