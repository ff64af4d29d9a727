package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{
		"0": 0, "1": 1, "1000000": 1e6, "5B": 5, "2KB": 2000, "2KiB": 2048, "500 MB": 5e8, "100MiB": 100 << 20,
		"10GiB": 10 << 30, "1.5GiB": 3 << 29, "3GB": 3e9, "2TB": 2e12, "4TiB": 4 << 40,
	} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %d, error %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "-1GiB", "10 G", "1.5", "ten", "NaN", "Inf", "9e18KB", "1KBB", "10gib"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "10GiB") {
			t.Errorf("%q: got %d, error %v; want one that shows the form", text, got, err)
		}
	}
}

// A size may come from everywhere where flags come from.
func TestKeepFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hub.yaml")
	if err := os.WriteFile(file, []byte("keep-bytes: 1000000\nkeep-for: 10h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parse := func(args ...string) serveCommand {
		t.Helper()
		command, err := program.ParseCommand("hub", "", &commands{}, args, os.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		return *command.(*serveCommand)
	}
	if got := parse(); got.KeepBytes != 10<<30 || got.KeepFor != 0 {
		t.Errorf("by default: %d bytes, %s", got.KeepBytes, got.KeepFor)
	}
	if got := parse("--config", file); got.KeepBytes != 1e6 || got.KeepFor.Hours() != 10 {
		t.Errorf("from the file: %d bytes, %s", got.KeepBytes, got.KeepFor)
	}
	t.Setenv("HUB_KEEP_BYTES", "2GB")
	if got := parse("--config", file); got.KeepBytes != 2e9 {
		t.Errorf("from the environment: %d bytes", got.KeepBytes)
	}
	if got := parse("--config", file, "--keep-bytes=0"); got.KeepBytes != 0 {
		t.Errorf("from the command line: %d bytes", got.KeepBytes)
	}
}
