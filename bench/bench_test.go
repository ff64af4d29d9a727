package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestMain lets the test binary be the processes that bench starts.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-role") {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestBench runs the whole program on a small plan: it measures nothing worth
// quoting, but what it prints is complete.
func TestBench(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-callbacks", "40", "-publications", "3", "-connections", "8", "-rounds", "1", "-idle", "200", "-rest", "100ms"}
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("status %d\n%s", code, &stderr)
	}
	lines := []string{
		`net/http +[1-9]\d* +1\.00`, `fasthttp +[1-9]\d* .* 1\.00\s`, `hub +[1-9]\d* `,
		`200 idle subscriptions: -?\d+ bytes of live heap each`, `goroutines: \d+ without any, \d+ with all of them`,
	}
	if os.Getenv("CARILLON_REQUIRE_REDIS") != "" || bytes.Contains(stdout.Bytes(), []byte("hub, Redis")) {
		lines = append(lines, `hub, Redis +[1-9]\d* `, `-?\d+\.\d+ commands for each delivery`)
	}
	for _, line := range lines {
		if !regexp.MustCompile(line).Match(stdout.Bytes()) {
			t.Errorf("no line like %q in\n%s", line, &stdout)
		}
	}
}
