package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/program"
	"carillon/delivery/dispatch"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{
		"0": 0, "1": 1, "1000000": 1e6, "5B": 5, "2KB": 2000, "2KiB": 2048, "500 MB": 5e8, "100MiB": 100 << 20,
		"10GiB": 10 << 30, "1.5GiB": 3 << 29, "3GB": 3e9, "2TB": 2e12, "4TiB": 4 << 40,
	} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %d, error %v; want %d", text, got, err, want)
		}
	}
	var b byteSize
	if err := b.UnmarshalText([]byte("-1GB")); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("-1GB: error %v, want one that says why", err)
	}
	for _, text := range []string{"", "GiB", "-1", "-1GiB", "10 G", "1.5", "ten", "NaN", "Inf", "9e18KB", "1KBB", "10gib"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "10GiB") {
			t.Errorf("%q: got %d, error %v; want one that shows the form", text, got, err)
		}
	}
}

func parseServe(t *testing.T, args ...string) serveCommand {
	t.Helper()
	read, err := program.Read("hub", "", &commands{}, args, os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	return *read.Command.(*serveCommand)
}

// A size may come from everywhere where flags come from.
func TestKeepFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hub.yaml")
	if err := os.WriteFile(file, []byte("keep-bytes: 1000000\nkeep-for: 10h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parse := func(args ...string) serveCommand { return parseServe(t, args...) }
	if got := parse(); got.KeepBytes != 10<<30 || got.KeepFor != nil {
		t.Errorf("by default: %d bytes, %v", got.KeepBytes, got.KeepFor)
	}
	if got := parse("--config", file); got.KeepBytes != 1e6 || got.KeepFor == nil || got.KeepFor.Hours() != 10 {
		t.Errorf("from the file: %d bytes, %v", got.KeepBytes, got.KeepFor)
	}
	t.Setenv("HUB_KEEP_BYTES", "2GB")
	if got := parse("--config", file); got.KeepBytes != 2e9 {
		t.Errorf("from the environment: %d bytes", got.KeepBytes)
	}
	if got := parse("--config", file, "--keep-bytes=0"); got.KeepBytes != 0 {
		t.Errorf("from the command line: %d bytes", got.KeepBytes)
	}
}

// --max-body takes the units that --keep-bytes takes, or none.
func TestMaxBodyFlag(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]byteSize{
		"--log-level=info": 50 << 20, "--max-body=1000": 1000, "--max-body=1GiB": 1 << 30, "--max-body=2MB": 2e6,
	} {
		if got := parseServe(t, arg).MaxBody; got != want {
			t.Errorf("%s: %d bytes; want %d", arg, got, want)
		}
	}
	for _, arg := range []string{"0", "1025MiB", "many"} {
		if line := problemOf(t, "max-body", arg); line == "" {
			t.Errorf("--max-body=%s is taken", arg)
		}
	}
}

// 0 is no bound, in --keep-for as in --keep-bytes; a flag that is not given has its default.
func TestKeepNoBound(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]dispatch.Config{
		"--log-level=info":               {KeepBytes: 10 << 30},
		"--keep-for=0":                   {KeepBytes: 10 << 30, KeepFor: -1},
		"--keep-for=0s --keep-bytes=0":   {KeepBytes: -1, KeepFor: -1},
		"--keep-for=5m --keep-bytes=1MB": {KeepBytes: 1e6, KeepFor: 5 * time.Minute},
	} {
		got := deliveryConfig(t, strings.Fields(args)...)
		if got.KeepBytes != want.KeepBytes || got.KeepFor != want.KeepFor {
			t.Errorf("%s: %d bytes, %s; want %d, %s", args, got.KeepBytes, got.KeepFor, want.KeepBytes, want.KeepFor)
		}
	}
}

// A start warns if notifications are kept for a shorter time than they are retried.
func TestKeepShorterThanRetriesIsTold(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]int{
		"--keep-for=71h59m": 1, "--keep-for=72h": 0, "--keep-for=0": 0, "--log-level=info": 0, "--retry-for=1000h": 0,
	} {
		ended, end := context.WithCancel(t.Context())
		end()
		var stderr logText // it may be written to a little later
		args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir(), flag}
		if code := run(ended, args, io.Discard, &stderr); code != 0 {
			t.Errorf("%s: status %d: %s", flag, code, &stderr)
		}
		if got := strings.Count(stderr.String(), "--keep-for is shorter than --retry-for"); got != want {
			t.Errorf("%s: %d lines tell of it, want %d:\n%s", flag, got, want, &stderr)
		}
	}
}
