package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inModule writes a module with one target and runs it.
func inModule(t *testing.T, body string) (status int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                     "module small\n\ngo 1.26\n",
		"small.go":                   "package small\n",
		"testdata/fuzz/FuzzIt/known": "go test fuzz v1\nstring(\"a\")\n",
		"small_test.go": "package small\n\nimport \"testing\"\n\nfunc FuzzIt(f *testing.F) {\n\tf.Add(\"seed\")\n" +
			"\tf.Fuzz(func(t *testing.T, s string) {" + body + "})\n}\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	var out, errs bytes.Buffer
	status = run(t.Context(), []string{"-root", dir, "-time", "1s"}, &out, &errs)
	return status, out.String(), errs.String()
}

func TestTargetsAreRun(t *testing.T) {
	status, stdout, stderr := inModule(t, "")
	if status != 0 || !strings.Contains(stdout, "small.FuzzIt       1") || !strings.Contains(stdout, " ok") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestAFailureIsLoud(t *testing.T) {
	status, stdout, stderr := inModule(t, `if s == "a" { t.Error("found it") }`)
	if status != 1 || !strings.Contains(stdout, "FAILED") || !strings.Contains(stderr, "FAILED small.FuzzIt") || !strings.Contains(stderr, "found it") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestOnlyLate(t *testing.T) {
	const end = "fuzz: elapsed: 30s, execs: 9 (0/sec), new interesting: 0 (total: 1)\n--- FAIL: FuzzIt (30.01s)\n    context deadline exceeded\nFAIL\n"
	for output, want := range map[string]bool{
		end: true,
		"--- FAIL: FuzzIt (0.1s)\n    --- FAIL: FuzzIt (0.00s)\n        it_test.go:1: context deadline exceeded\nFAIL\n": false,
		strings.Replace(end, "FAIL\n", "Failing input written to testdata\nFAIL\n", 1):                                   false,
		"panic: x\n" + end: false,
	} {
		if got := onlyLate(output); got != want {
			t.Errorf("%v for\n%s", got, output)
		}
	}
}

func TestSideBySide(t *testing.T) {
	if got := sideBySide(40, 30*time.Second, 4*time.Minute); got < 5 {
		t.Errorf("40 targets of 30 s in 4 minutes need 5 at a time, not %d", got)
	}
	if got := sideBySide(1, time.Minute, time.Second); got != 1 {
		t.Errorf("one target: %d", got)
	}
}
