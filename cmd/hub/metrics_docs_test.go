package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
)

// metric is what may be said of a metric.
type metric struct {
	name, kind, help string
	labels           map[string][]string // by name, the values that are there from the start
}

// allMetrics are those of the hub itself over both engines, with all that flags and variables can
// have it show; everything also has those of the process.
func allMetrics(t *testing.T) (own, everything map[string]metric) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	own, everything = map[string]metric{}, map[string]metric{}
	certificate := selfSigned(t)
	for _, store := range engines(t) {
		for _, f := range gather(t, store, "--publishers", "registered", "--tls-cert", certificate+".crt", "--tls-key", certificate+".key") {
			m := metricOf(f)
			if before, found := everything[m.name]; found {
				for label, values := range before.labels {
					m.labels[label] = append(m.labels[label], values...)
				}
			}
			everything[m.name] = m
		}
	}
	for name, m := range everything {
		for label, values := range m.labels {
			slices.Sort(values)
			m.labels[label] = slices.Compact(values)
		}
		if strings.HasPrefix(name, "carillon_") {
			own[name] = m
		}
	}
	return own, everything
}

func metricOf(f *dto.MetricFamily) metric {
	m := metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp(), labels: map[string][]string{}}
	for _, one := range f.GetMetric() {
		for _, l := range one.GetLabel() {
			m.labels[l.GetName()] = append(m.labels[l.GetName()], l.GetValue())
		}
	}
	return m
}

// The lines around the table of docs/metrics.md.
const (
	tableBegins = "<!-- The table is what the hub says of itself: CARILLON_WRITE_DOCS=1 go test ./cmd/hub -run TestMetricsAreListed writes it. -->\n"
	tableEnds   = "<!-- Here it ends. -->\n"
)

// docs/metrics.md has every metric that there is, with its meaning, and no other.
func TestMetricsAreListed(t *testing.T) {
	const page = "../../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	own, _ := allMetrics(t)
	want := before + tableBegins + "\n" + listing(own) + "\n" + tableEnds + after
	if want == string(text) {
		return
	}
	if os.Getenv("CARILLON_WRITE_DOCS") == "" {
		t.Fatalf("%s is not what the hub shows: CARILLON_WRITE_DOCS=1 go test ./cmd/hub -run TestMetricsAreListed", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func listing(all map[string]metric) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		var labels []string
		for _, label := range slices.Sorted(maps.Keys(m.labels)) {
			const most = 12 // values beyond say nothing to who reads
			if values := m.labels[label]; len(values) > 1 && len(values) <= most {
				labels = append(labels, fmt.Sprintf("`%s`: %s", label, strings.Join(values, ", ")))
			} else {
				labels = append(labels, "`"+label+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(labels, "; "), strings.ReplaceAll(m.help, "|", "\\|"))
	}
	return b.String()
}

// expressions are those of Prometheus in what deploy/ has, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	readFile(t, "../../deploy/alerts.yml", func(text []byte) error { return yaml.Unmarshal(text, &rules) })
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			found["alert "+rule.Alert] = rule.Expr
			if rule.Annotations["summary"] == "" || rule.Annotations["action"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("the alert %s does not say what it means, what to do, and how urgent it is", rule.Alert)
			}
			if strings.Contains(rule.Expr, "rate(") && !strings.Contains(rule.Expr, "increase(") && rule.For == "" {
				t.Errorf("the alert %s has no for", rule.Alert)
			}
		}
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	readFile(t, "../../deploy/grafana.json", func(text []byte) error { return json.Unmarshal(text, &dashboard) })
	ids, rows := map[int]bool{}, []string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("the dashboard has two panels %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
		for i, target := range p.Targets {
			found[fmt.Sprintf("panel %d %s %d", p.ID, p.Title, i)] = target.Expr
		}
	}
	if want := []string{"Overview", "Deliveries", "Publishing", "Store", "Subscriptions", "Processes"}; !slices.Equal(rows, want) {
		t.Errorf("the dashboard has the rows %q, want %q", rows, want)
	}
	return found
}

func readFile(t *testing.T, name string, parse func([]byte) error) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = parse(text)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var (
	selector = regexp.MustCompile(`\b((?:carillon|process|go)_[a-z0-9_]+)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	foreign  = []string{"job", "instance", "le"} // labels that Prometheus itself adds
)

// Every metric, label and value that the dashboard and the alerts name is there.
func TestDashboardAndAlerts(t *testing.T) {
	_, all := allMetrics(t)
	checked := 0
	for where, expr := range expressions(t) {
		labels := slices.Clone(foreign)
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			checked++
			known, found := find(all, m[1])
			if !found {
				t.Errorf("%s: there is no metric %s", where, m[1])
				continue
			}
			labels = slices.AppendSeq(labels, maps.Keys(known.labels))
			for _, by := range matcher.FindAllStringSubmatch(m[2], -1) {
				values, has := known.labels[by[1]]
				if !has && !slices.Contains(foreign, by[1]) {
					t.Errorf("%s: %s has no label %s", where, m[1], by[1])
				}
				if has && !strings.Contains(by[2], "~") && !strings.Contains(by[3], "$") && !slices.Contains(values, by[3]) {
					t.Errorf("%s: %s of %s is never %q: %q", where, by[1], m[1], by[3], values)
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				// Which statuses there are is known only when they came.
				if label = strings.TrimSpace(label); !slices.Contains(labels, label) && label != "kind" && label != "status" {
					t.Errorf("%s: nothing there has the label %s", where, label)
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d metrics were looked for", checked)
	}
}

// find returns the metric of a series. Of a histogram that is its name, which only native
// histograms have, or its buckets. Nothing may ask for _count or _sum: native histograms have none.
func find(all map[string]metric, series string) (metric, bool) {
	if m, found := all[series]; found {
		return m, true
	}
	if base, cut := strings.CutSuffix(series, "_bucket"); cut && all[base].kind == "histogram" {
		return all[base], true
	}
	return metric{}, series == "carillon_hub_requests_total" // present after the first request
}
