package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"carillon/internal/redistest"
)

// needPrometheus skips or fails the test where the programs of Debian's package prometheus are
// missing.
func needPrometheus(t *testing.T) {
	t.Helper()
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CARILLON_REQUIRE_PROMETHEUS") == "1" {
			t.Fatalf("%s is not installed, and CARILLON_REQUIRE_PROMETHEUS=1 requires it", name)
		}
		t.Skipf("NOT TESTED: %s is not installed; install it, or set CARILLON_REQUIRE_PROMETHEUS=1 to make this a failure", name)
	}
}

// scraper is a running Prometheus that scrapes every second.
type scraper struct{ address string }

// startPrometheus starts a Prometheus that scrapes the targets of each job. It ends with the test.
func startPrometheus(t *testing.T, jobs map[string][]string, options ...string) *scraper {
	t.Helper()
	dir, p := t.TempDir(), &scraper{fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs:\n"
	for job, targets := range jobs {
		text += fmt.Sprintf("  - job_name: %s\n    static_configs: [{targets: [%s]}]\n", job, strings.Join(targets, ", "))
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, said := exec.Command("prometheus", append([]string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + p.address,
	}, options...)...), &logText{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said)
		}
	})
	eventually(t, "Prometheus", func() bool { status, _ := look(p.address, "/-/ready"); return status == http.StatusOK })
	return p
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string
	Value  []any // the time and the value as text; a native histogram has none
}

// ask returns the answer to a query without the series that have no value (NaN).
func (p *scraper) ask(t *testing.T, query string) []sample {
	t.Helper()
	status, text := look(p.address, "/api/v1/query?query="+url.QueryEscape(query))
	var answer struct{ Data struct{ Result []sample } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s (%v)", query, status, text, err)
	}
	return slices.DeleteFunc(answer.Data.Result, func(s sample) bool { return len(s.Value) == 2 && s.Value[1] == "NaN" })
}

// await returns when the query has an answer.
func (p *scraper) await(t *testing.T, query string) {
	t.Helper()
	eventually(t, query, func() bool { return len(p.ask(t, query)) > 0 })
}

// comparison is the end of an alert's expression: without it the expression has a value also
// while all is well.
var comparison = regexp.MustCompile(`(>|<|==) [0-9.]+`)

// Each query of the dashboard and each alert has a value in a Prometheus that scrapes classic
// histograms, and in one that scrapes native histograms. Alerts that look at histograms find the
// slow hub in both.
func TestQueriesInPrometheus(t *testing.T) {
	needPrometheus(t)
	redis, certificate := redistest.Start(t), selfSigned(t)
	busy := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store",
		"pebble:"+filepath.Join(t.TempDir(), "store"), "--retry-first", "1h", "--retry-max", "1h",
	)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	idle := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", redis.URL(),
		"--tls-cert", certificate+".crt", "--tls-key", certificate+".key",
	)
	eventually(t, "readiness", func() bool { return busy.isReady() && idle.isReady() })
	slow, jobs := newSlowHub(t), map[string][]string{"carillon": {busy.ready["admin"], idle.ready["admin"]}}
	jobs["slow"] = []string{slow.address}
	s := newSink(t)
	s.setHub(busy.ready["url"], 0)
	traffic(t, busy, s, 1)
	modes := map[string]*scraper{}
	for mode, options := range map[string][]string{"classic": nil, "native": {"--enable-feature=native-histograms"}} {
		modes[mode] = startPrometheus(t, jobs, options...)
	}
	for _, p := range modes {
		scraped(t, p, 1)
	}
	slow.observe()
	traffic(t, busy, s, 2)
	for mode, p := range modes {
		scraped(t, p, 2)
		t.Run(mode, func(t *testing.T) {
			native, classic := len(p.ask(t, "carillon_delivery_delay_seconds")), len(p.ask(t, "carillon_delivery_delay_seconds_bucket"))
			if (native > 0) != (mode == "native") || (classic > 0) != (mode == "classic") {
				t.Fatalf("this Prometheus has %d native histograms and %d classic buckets", native, classic)
			}
			answered(t, p)
			slowOnly(t, p)
		})
	}
}

// slowHub shows the metrics of a hub whose deliveries come late, and whose store is slow.
type slowHub struct {
	address       string
	delay, append prometheus.Observer
	observations  prometheus.Counter
}

func newSlowHub(t *testing.T) *slowHub {
	t.Helper()
	native := prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.1, Buckets: []float64{.5, 2.5, 60, 600}}
	delay, operations := native, native
	delay.Name, operations.Name = "carillon_delivery_delay_seconds", "carillon_store_operation_duration_seconds"
	delays, calls := prometheus.NewHistogram(delay), prometheus.NewHistogramVec(operations, []string{"operation", "outcome"})
	reg := prometheus.NewRegistry()
	h := &slowHub{delay: delays, append: calls.WithLabelValues("log_append", "ok")}
	h.observations = prometheus.NewCounter(prometheus.CounterOpts{Name: "slow_observations_total"})
	reg.MustRegister(delays, calls, h.observations)
	h.observe()
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	h.address = server.Listener.Addr().String()
	return h
}

// observe is a publication that the store takes 2 seconds for, and that is delivered after 5 minutes.
func (h *slowHub) observe() {
	h.append.Observe(2)
	h.delay.Observe(300)
	h.observations.Inc()
}

// slowOnly asks with the alerts that look at histograms: the slow hub raises them, the others do not.
func slowOnly(t *testing.T, p *scraper) {
	t.Helper()
	all := expressions(t)
	for _, alert := range []string{"alert CarillonSlowDeliveries", "alert CarillonStoreSlow"} {
		found := p.ask(t, all[alert])
		if len(found) != 1 || found[0].Metric["job"] != "slow" {
			t.Errorf("%s is raised for %v, want the job slow", alert, found)
		}
	}
}

// traffic is the given round of publishing to a subscriber that accepts, and one that does not.
func traffic(t *testing.T, hub *process, s *sink, round int) {
	t.Helper()
	topic := s.topicURL("news")
	for _, name := range []string{"good", "bad"} {
		callback := s.callbackURL(fmt.Sprint(name, round))
		s.setBroken(fmt.Sprint("bad", round), true)
		if status, said, err := subscribe(hub.ready["url"], topic, callback, nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, said, err)
		}
	}
	s.await(t, "the verifications", func() bool {
		return s.verified[fmt.Sprint("good", round)] > 0 && s.verified[fmt.Sprint("bad", round)] > 0
	})
	body := fmt.Sprint("news ", round)
	if status, said, err := publish(hub.ready["url"], topic, "text/plain", body); err != nil || status != http.StatusOK {
		t.Fatalf("publishing: %d %s %v", status, said, err)
	}
	s.await(t, "the delivery", func() bool { return s.has(fmt.Sprint("good", round), body) })
}

// scraped returns when the Prometheus has the outcome of the rounds of traffic until this one.
func scraped(t *testing.T, p *scraper, rounds int) {
	t.Helper()
	p.await(t, fmt.Sprintf("count(count_over_time(up[5m]) >= %d) == 3", rounds))
	for query, want := range map[string]int{
		"slow_observations_total":                                        rounds,
		`sum(carillon_delivery_publishes_total{result="accepted"})`:      rounds,
		`sum(carillon_hub_requests_total{kind="publish"})`:               rounds,
		`sum(carillon_delivery_attempts_total{class="delivered"})`:       rounds,
		`sum(carillon_delivery_attempts_total{class="server_error"})`:    rounds,
		`sum(carillon_subscription_outcomes_total{outcome="activated"})`: 2 * rounds,
	} {
		p.await(t, fmt.Sprintf("%s >= %d", query, want))
	}
}

// answered gives Prometheus all expressions of deploy/. Each has a result: counters of trouble begin
// with 0.
func answered(t *testing.T, p *scraper) {
	t.Helper()
	all, empty := expressions(t), 0
	for _, where := range slices.Sorted(maps.Keys(all)) {
		query := strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "1m").Replace(all[where])
		if strings.HasPrefix(where, "alert ") {
			query = comparison.ReplaceAllString(query, "")
		}
		if len(p.ask(t, query)) > 0 {
			continue
		}
		empty++
		t.Errorf("%s has no answer: %s", where, query)
	}
	t.Logf("%d of %d queries have no answer", empty, len(all))
}

// The rules are valid, and fire when deploy/alerts_test.yml says, which has all of them.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = "../../deploy"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests, err := os.ReadFile("../../deploy/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for where := range expressions(t) {
		if alert, found := strings.CutPrefix(where, "alert "); found && !strings.Contains(string(tests), `{labels: '{alertname="`+alert+`",`) {
			t.Errorf("no test of deploy/alerts_test.yml expects the alert %s", alert)
		}
	}
}
