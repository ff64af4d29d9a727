package notifier_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"carillon/notifier"
)

// Metrics have the names that Prometheus' own linter asks for, and docs/metrics.md has all of
// them and no other.
func TestMetricsAreListed(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	w := newWorld(t, notifier.Config{Sets: []string{"a"}, Registry: registry}, &hub{})
	ask(w.Intake(), "POST", "/sets/a/events", "no JSON", asJSON) // counted by its answer
	ask(w.Public(), "GET", "/a/changelist.xml", "")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
		if row := fmt.Sprintf("| `%s` | %s | ", f.GetName(), strings.ToLower(f.GetType().String())); !strings.Contains(string(page), row) ||
			!strings.Contains(string(page), f.GetHelp()) {
			t.Errorf("docs/metrics.md has no row %s… | %s |", row, f.GetHelp())
		}
	}
	for _, name := range regexp.MustCompile(`carillon_notifier_[a-z_]+`).FindAllString(string(page), -1) {
		if !known[name] && !strings.HasPrefix(name, "carillon_notifier_dump_") { // package dump has those
			t.Errorf("docs/metrics.md has %s, which there is not", name)
		}
	}
}
