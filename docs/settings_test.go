package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestSettings checks that YAML in the pages is a valid configuration of a hub, and that JSON
// is valid JSON.
func TestSettings(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		_, blocks := readPage(t, page)
		for _, b := range blocks {
			text := strings.Join(b.lines, "\n")
			switch b.lang {
			case "yaml":
				checkSettings(t, b, text)
			case "json":
				if !json.Valid([]byte(text)) {
					t.Errorf("%s:%d: no JSON", b.page, b.line)
				}
			default:
				continue
			}
			checked++
		}
	}
	if checked < 3 {
		t.Errorf("only %d blocks were checked", checked)
	}
}

func checkSettings(t *testing.T, b block, text string) {
	t.Helper()
	var settings map[string]any
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil || len(settings) == 0 {
		t.Errorf("%s:%d: %v, %v", b.page, b.line, settings, err)
		return
	}
	file := filepath.Join(t.TempDir(), "hub.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), filepath.Join(programs(t), "hub"), "config", "check", "--config", file)
	check.Dir = t.TempDir()
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: hub config check: %v\n%s", b.page, b.line, err, out)
	}
}
