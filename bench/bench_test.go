package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestMain lets the test binary be the processes that bench starts.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-child") {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// runSideBySide runs all scenarios on a small plan, some beside each other: most of them wait.
func runSideBySide(t *testing.T) (stdout, stderr bytes.Buffer) {
	t.Helper()
	var parts [3]struct {
		only           []string
		code           int
		stdout, stderr bytes.Buffer
	}
	for i, name := range names() {
		parts[i%len(parts)].only = append(parts[i%len(parts)].only, name)
	}
	var group sync.WaitGroup
	for i := range parts {
		part := &parts[i]
		group.Go(func() {
			part.code = run([]string{"-quick", "-only", strings.Join(part.only, ",")}, &part.stdout, &part.stderr)
		})
	}
	group.Wait()
	for i := range parts {
		if parts[i].code != 0 {
			t.Fatalf("status %d\n%s", parts[i].code, &parts[i].stderr)
		}
		stdout.Write(parts[i].stdout.Bytes())
		stderr.Write(parts[i].stderr.Bytes())
	}
	return stdout, stderr
}

// TestBench runs the whole program on a small plan: it measures nothing worth
// quoting, but what it prints is complete.
func TestBench(t *testing.T) {
	stdout, stderr := runSideBySide(t)
	engines := []string{"Pebble"}
	if os.Getenv("CARILLON_REQUIRE_REDIS") != "" || !bytes.Contains(stderr.Bytes(), []byte("NO redis-server")) {
		engines = append(engines, "Redis")
	}
	const n = `-?\d+(\.\d+)?(e[+-]\d+)?`
	lines := []string{
		`net/http +[1-9]\d* +1\.00`, `fasthttp +[1-9]\d* .* 1\.00\s`, `bare loop packs +[1-9]`, `notifier dump +[1-9]`,
		`bare loop downloads, unpacks, hashes and writes files +[1-9]`, `destination baseline --dump never +[1-9]`,
	}
	for _, engine := range engines {
		lines = append(lines,
			`hub, `+engine+` +[1-9]\d* `,
			engine+` +[1-9]\d* +[1-9]\d* +\d`, // publishers
		)
	}
	if len(engines) > 1 {
		lines = append(lines, n+` commands for each delivery`)
	}
	values := strings.Repeat(`\s+`+n+`( ?\S*[^\s\d]\S*)?`, len(engines))
	for _, g := range goals() {
		if runtime.GOOS != "linux" && strings.HasPrefix(g.name, "tls: ") {
			continue // left out there
		}
		lines = append(lines, regexp.QuoteMeta(g.name)+`\s+`+regexp.QuoteMeta(g.String())+values+`\s+(yes|no)`)
	}
	for _, line := range lines {
		if !regexp.MustCompile(line).Match(stdout.Bytes()) {
			t.Errorf("no line like %q in\n%s", line, &stdout)
		}
	}
	for _, counts := range regexp.MustCompile(`(\d+) of (\d+) `).FindAllSubmatch(stdout.Bytes(), -1) {
		if !bytes.Equal(counts[1], counts[2]) {
			t.Errorf("delivered: %s", counts[0])
		}
	}
}

// goals are those of all scenarios.
func goals() []goal {
	all := []goal{
		goalSpeed, goalSpeedFast, goalCPU, goalQuiet, goalLoaded, goalLoadedOwn, goalMemory, goalWorked, goalReady,
		goalPublishes, goalFirst, goalMirror, goalDumpOr, goalUnpack, goalPack, goalTLSFailed,
	}
	for _, g := range append(slices.Clone(goalsSick), goalsSlow...) {
		all = append(all, g.whole, g.without)
	}
	for _, row := range tlsRows {
		all = append(all, row.cpu, row.opened)
	}
	return all
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-only", "throughput,nothing"},
		{"-engines", "sqlite"},
		{"-nonsense"},
		{"-child", `{"Role":"nobody"}`},
		{"-child", "nobody"},
	} {
		var stderr bytes.Buffer
		if code := run(args, io.Discard, &stderr); code == 0 || stderr.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, code, &stderr)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	r := &report{w: &out, markdown: true, engines: []engine{onPebble, onRedis}}
	r.section("Chapter")
	r.table([]string{"a", "b"}, [][]string{{"1", "2"}})
	r.put(atLeast(2, "speed", ""), onPebble, 2.5)
	r.put(atLeast(2, "speed", ""), onRedis, 1.9)
	r.put(atMost(350, "memory", " B"), onPebble, 351)
	r.put(atMost(1, "general", ""), noEngine, 1)
	r.summary()
	const want = `
## Chapter

| a | b |
|---|---|
| 1 | 2 |


## Summary

| figure | goal | Pebble | Redis | met? |
|---|---|---|---|---|
| speed | ≥ 2 | 2.5 | 1.9 | yes, no |
| memory | ≤ 350 B | 351 B | not measured | no, ? |
| general | ≤ 1 | 1 | 1 | yes |

`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestQuantile(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}
