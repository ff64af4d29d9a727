package main

import (
	"io"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"carillon/cmd/internal/program"
)

// engines are stores by their names that a hub opens without anything else running.
func engines(t *testing.T) map[string]string {
	return map[string]string{"pebble": "pebble:" + t.TempDir(), "redis": "redis://127.0.0.1:1/0"}
}

// gather returns what a hub over the store shows before it serves.
func gather(t *testing.T, store string, args ...string) []*dto.MetricFamily {
	t.Helper()
	c := commands{Serve: serveCommand{open: openHub}}
	args = append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store)
	if _, err := program.Read("hub", summary, &c, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	h, err := c.Serve.start(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Metrics have the names, units and helps that Prometheus' own linter asks for.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	for name, store := range engines(t) {
		t.Run(name, func(t *testing.T) {
			families := gather(t, store, "--publishers", "registered")
			if len(families) < 60 {
				t.Fatalf("only %d metrics were gathered", len(families))
			}
			problems, err := promlint.NewWithMetricFamilies(families).Lint()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		})
	}
}
