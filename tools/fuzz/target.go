package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// target is a fuzz target, built and ready to run.
type target struct {
	pkg, name string
	dir       string // of the package, where a failing input is written
	binary    string
	cache     string // for what is found, and perhaps what earlier runs found
	files     int    // the corpus in the repository
	bytes     int64
}

func (t target) String() string { return t.pkg + "." + t.name }

// result is what came of a target.
type result struct {
	execs, interesting int
	seeds              string // how many of them were tried, of how many
	err                error
	output             string
}

// find builds the packages of the module that have fuzz targets. clean removes what it
// built.
func find(ctx context.Context, root, only string, keep bool) (targets []target, clean func(), err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return nil, func() {}, err
	}
	bin, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return nil, func() {}, err
	}
	clean = func() { _ = os.RemoveAll(bin) }
	cache := bin
	if keep {
		if cache, err = output(ctx, root, "go", "env", "GOCACHE"); err != nil {
			return nil, clean, err
		}
	}
	module, err := output(ctx, root, "go", "list", "-m")
	if err != nil {
		return nil, clean, err
	}
	// The fuzzer sees the effects of an input in the code of the module. With -fuzz it would see those in
	// all code: packages of others need not be built anew, and are not searched.
	visible := "-gcflags=" + module + "/...=-d=libfuzzer"
	list, err := output(ctx, root, "go", "list", "-f", "{{.ImportPath}}\t{{.Dir}}", "./...")
	if err != nil {
		return nil, clean, err
	}
	for i, line := range strings.Split(list, "\n") {
		pkg, dir, _ := strings.Cut(line, "\t")
		if !hasTargets(dir) {
			continue
		}
		binary := filepath.Join(bin, fmt.Sprintf("%d.test", i))
		if _, err := output(ctx, dir, "go", "test", "-c", visible, "-o", binary, "."); err != nil {
			return nil, clean, fmt.Errorf("building %s: %w", pkg, err)
		}
		names, err := output(ctx, dir, binary, "-test.list=^Fuzz")
		if err != nil {
			return nil, clean, err
		}
		for _, name := range strings.Fields(names) {
			t := target{pkg: pkg, name: name, dir: dir, binary: binary, cache: filepath.Join(cache, "fuzz", pkg)}
			if t.count(); wanted.MatchString(t.String()) {
				targets = append(targets, t)
			}
		}
	}
	if len(targets) == 0 {
		return nil, clean, errors.New("there are no targets")
	}
	return targets, clean, nil
}

// hasTargets reports whether the test files of a directory declare a target, so that nothing else is
// built.
func hasTargets(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is good
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("\nfunc Fuzz")) {
			return true
		}
	}
	return false
}

// count looks at the corpus in the repository.
func (t *target) count() {
	entries, _ := os.ReadDir(filepath.Join(t.dir, "testdata", "fuzz", t.name)) // there may be none
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			t.files++
			t.bytes += info.Size()
		}
	}
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// run runs the target, with one worker.
func (t target) run(ctx context.Context, each time.Duration) (r result) {
	ctx, cancel := context.WithTimeout(ctx, each+slack)
	defer cancel()
	// Making an input smaller is bounded by tries: where the coverage of a target differs from
	// one try to the next a bound of time would be used up for each.
	cmd := exec.CommandContext(ctx, t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$",
		"-test.fuzztime="+each.String(), "-test.parallel=1", "-test.fuzzminimizetime=200x", "-test.fuzzcachedir="+t.cache)
	cmd.Dir = t.dir
	text, err := cmd.CombinedOutput()
	r.read(string(text))
	switch {
	case ctx.Err() != nil:
		r.err = fmt.Errorf("it did not end in time: %w", ctx.Err())
	case err != nil && !onlyLate(r.output):
		r.err = err
	case r.seeds == "":
		r.err = errors.New("nothing was tried")
	case strings.Contains(r.output, "without coverage"):
		r.err = errors.New("the fuzzer does not see what it reaches")
	}
	return r
}

// progress is the fuzzer's line of every few seconds.
var (
	progress = regexp.MustCompile(`execs: (\d+) \(.*new interesting: (\d+)`)
	baseline = regexp.MustCompile(`baseline coverage: (\d+/\d+)`)
)

// read takes the numbers out of what the target printed.
func (r *result) read(text string) {
	r.output = text
	if all := baseline.FindAllStringSubmatch(text, -1); len(all) > 0 {
		r.seeds = all[len(all)-1][1]
	}
	all := progress.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return
	}
	last := all[len(all)-1]
	r.execs, _ = strconv.Atoi(last[1])       // they are digits
	r.interesting, _ = strconv.Atoi(last[2]) // likewise
}

// late is how the fuzzer of Go 1.26 fails at the end of its time, though nothing was
// found, when two parts of it see the end in the wrong order (go.dev/issue/75804).
var late = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(.*\)\n\s+context deadline exceeded\n(FAIL\n)?\z`)

// onlyLate separates that harmless failure from those of a target.
func onlyLate(output string) bool {
	return late.MatchString(output) && !strings.Contains(output, "Failing input") && !strings.Contains(output, "panic:")
}
