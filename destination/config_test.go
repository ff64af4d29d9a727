package destination_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/destination"
)

func TestConfigRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*destination.Config)
		want   string
	}{
		"no topic":           {func(c *destination.Config) { c.Topic = "" }, "topic: is missing"},
		"relative topic":     {func(c *destination.Config) { c.Topic = "/change/" }, "topic: "},
		"topic by ftp":       {func(c *destination.Config) { c.Topic = "ftp://source.example/" }, "topic: "},
		"topic with user":    {func(c *destination.Config) { c.Topic = "http://user@source.example/" }, "topic: "},
		"topic with anchor":  {func(c *destination.Config) { c.Topic += "#x" }, "topic: "},
		"no URL":             {func(c *destination.Config) { c.URL = "" }, "url: is missing"},
		"URL without scheme": {func(c *destination.Config) { c.URL = "destination.example:80" }, "url: "},
		"URL with query":     {func(c *destination.Config) { c.URL += "?x" }, "url: must not have a query"},
		"no directory":       {func(c *destination.Config) { c.Data = "" }, "data: "},
		"negative lease":     {func(c *destination.Config) { c.Lease = -time.Second }, "lease: "},
		"fractional lease":   {func(c *destination.Config) { c.Lease = 1500 * time.Millisecond }, "lease: "},
		"no sink":            {func(c *destination.Config) { c.Sink = nil }, "sink"},
		"negative limit":     {func(c *destination.Config) { c.MaxBody = -1 }, "negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := newFixture(t).config(filepath.Join(t.TempDir(), "data"))
			data := cfg.Data
			tt.change(&cfg)
			_, err := destination.New(cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("New: %v, want one line with %q", err, tt.want)
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("the data directory was made for a start that is refused")
			}
		})
	}
}

func TestDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w := newFixture(t)
	d, err := destination.New(w.config(dir))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(cfg destination.Config, want string) {
		t.Helper()
		if _, err := destination.New(cfg); !errors.Is(err, destination.ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want ErrData that says %q", err, want)
		}
	}
	refused(w.config(dir), "another process uses it")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	state := filepath.Join(dir, "destination.json")
	if err := os.WriteFile(state, []byte(`{"topic": "http://other.example/"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(w.config(dir), `it belongs to the topic "http://other.example/"`)
	if err := os.WriteFile(state, []byte(`{"topic": `), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(w.config(dir), "destination.json is damaged")
	if err := os.WriteFile(state, fmt.Appendf(nil, `{"version": 2, "topic": %q}`, w.config(dir).Topic), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(w.config(dir), "written by a newer version")
	refused(w.config(state), "not a directory")
}

// TestHalfWrittenState checks that states which a crash has left half written, secrets and all, are
// removed, and that they stay where the directory is another topic's.
func TestHalfWrittenState(t *testing.T) {
	dir := t.TempDir()
	w := newFixture(t)
	left := []string{filepath.Join(dir, "destination.json.new"), filepath.Join(dir, "destination.json.temp")}
	for _, name := range left {
		if err := os.WriteFile(name, []byte(`{"subscription":{"secret":"half`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(dir, "destination.json")
	if err := os.WriteFile(state, []byte(`{"topic": "http://other.example/"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := destination.New(w.config(dir)); !errors.Is(err, destination.ErrData) {
		t.Fatalf("a directory of another topic: %v", err)
	}
	for _, name := range left {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("it was touched, and is another topic's: %v", err)
		}
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	d, err := destination.New(w.config(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range left {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}
