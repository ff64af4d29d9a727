package page_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/operator/page"
)

func TestNumbersAndTimes(t *testing.T) {
	for got, want := range map[string]string{
		page.Number(0): "0", page.Number(uint64(1234567)): "1\u202f234\u202f567", page.Number(-4321): "−4\u202f321", page.Number(999): "999",
		page.Size(0): "0 B", page.Size(999): "999 B", page.Size(1000): "1 kB", page.Size(1_234): "1.23 kB", page.Size(999_600): "1 MB", page.Size(7_412_345_678): "7.41 GB",
		page.Took(0): "0 ms", page.Took(0.00042): "0.42 ms", page.Took(0.0423): "42.3 ms", page.Took(0.4): "400 ms", page.Took(30): "30 s", page.Took(119.96): "120 s", page.Took(7200): "2 h",
		page.Long(-time.Second): "0 s", page.Long(59 * time.Second): "59 s", page.Long(61 * time.Second): "1 min", page.Long(90 * time.Minute): "1 h 30 min",
		page.Long(49 * time.Hour): "2 d 1 h", page.Long(700 * time.Hour): "29 d",
		page.Ranges(nil): "none", page.Ranges([]int{5, 1, 2, 3, 9, 2}): "1–3, 5, 9", page.Letter(0): "A", page.Letter(26): "AA",
		page.Web("https://x.example/"): "https://x.example/", page.Web("javascript:alert(1)"): "", page.Web("//x.example"): "", page.Web("data:text/html,x"): "",
		api.OwnPath("/topic?topic=x"): "/topic?topic=x", api.OwnPath("//evil.example/"): "/", api.OwnPath("https://evil.example/"): "/", api.OwnPath(`/\evil.example`): "/", api.OwnPath(""): "/",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for d, want := range map[time.Duration]string{0: "now", -90 * time.Second: "1 min ago", 3 * time.Hour: "in 3 h"} {
			if got := page.Relative(now.Add(d)); got != want {
				t.Errorf("%v from now is %q; want %q", d, got, want)
			}
		}
	})
}

// A chart of whatever a hub has counted is a drawing: nothing of it is no number, and it
// says in words what it shows.
func TestCharts(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	step := func(i int) operator.Step {
		return operator.Step{At: at.Add(time.Duration(i) * 5 * time.Second), Seconds: 5}
	}
	var quiet, gaps, long []operator.Step
	for i := range 120 {
		s := step(i)
		quiet = append(quiet, s)
		if i%10 < 5 {
			s.Delivered, s.P50, s.P90, s.P99 = 50, 0.01, 0.2, 31
			s.Failed = map[string]int{"timeout": 3, "none-such": 1}
		}
		gaps = append(gaps, s)
	}
	for i := range 5000 {
		long = append(long, step(i))
	}
	for name, steps := range map[string][]operator.Step{
		"none": nil, "one": quiet[:1], "quiet": quiet, "gaps": gaps, "long": long, "no time": {{}, {}, {}},
	} {
		paths, texts := page.Charts(steps)
		for _, p := range paths {
			if strings.Contains(p, "NaN") || strings.Contains(p, "Inf") || len(p) > 4000 {
				t.Errorf("%s: %s", name, p)
			}
		}
		if len(texts) != 5 || strings.Contains(strings.Join(texts, ""), "NaN") {
			t.Errorf("%s: %q", name, texts)
		}
	}
	_, texts := page.Charts(gaps)
	if want := "Deliveries per second over the last ten minutes: 0 now, 10 at most, 5 on average."; texts[0] != want {
		t.Errorf("%q; want %q", texts[0], want)
	}
	if want := "Time that delivery attempts take, on a logarithmic scale, at last: half within 10 ms, 90 % within 200 ms, 99 % within 31 s."; texts[4] != want {
		t.Errorf("%q; want %q", texts[4], want)
	}
	if _, texts := page.Charts(quiet); texts[4] != "No attempt in the last ten minutes." {
		t.Errorf("quiet: %q", texts[4])
	}
}
