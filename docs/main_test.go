// Package docs_test compares the documentation with the programs: tests run, parse or compare
// README.md and every page of docs/.
//
// The language of each fenced block says how it is tested:
//
//	console      run in order, page by page, against real programs (TestConsole)
//	sh           not run; commands and flags of the programs must exist (TestCommandsExist)
//	go           built and run, as is the callback of each other language (TestCallbacks)
//	python, js   by the module tools, as their interpreters may be missing here
//	yaml, json   parsed; settings of a hub are checked by the hub (TestSettings)
//	text, nginx  not run: what a program prints, drawings, settings of other programs
//	mermaid      not run: drawings
//
// Comments before a block, which readers do not see, add to this: see directive.
package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// root is the path of the repository.
const root = ".."

// pageWithin limits the time of a page, buildWithin that of the builds before it.
const (
	pageWithin  = 2 * time.Minute
	buildWithin = 8 * time.Minute
)

// TestMain also serves as the curl of the pages' commands: the shell finds this program
// under that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		os.Exit(curl(os.Args[1:], os.Stdout, os.Stderr))
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the directory with the programs and curl.
var built struct {
	sync.Once
	dir string
	err error
}

// programs builds the three programs, once for all tests.
func programs(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "carillon-docs-"); built.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
		defer cancel()
		// Debug information would double the time of the build.
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", built.dir+string(filepath.Separator), "./cmd/...")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building the programs: %w\n%s", err, out)
			return
		}
		self, err := os.Executable()
		built.err = errors.Join(err, os.Symlink(self, filepath.Join(built.dir, "curl")))
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// pages returns README.md and all pages of docs/, as paths from the repository's root.
func pages(t *testing.T) []string {
	t.Helper()
	here, err := filepath.Glob("*.md")
	if err != nil || len(here) < 5 {
		t.Fatalf("docs/ has %d pages (%v)", len(here), err)
	}
	slices.Sort(here)
	all := []string{"README.md"}
	for _, name := range here {
		all = append(all, "docs/"+name)
	}
	return all
}
