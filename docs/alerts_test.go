package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlertsAreExplained: each alert of deploy/ has a heading in troubleshooting.md.
func TestAlertsAreExplained(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "alerts*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no alert rules in deploy/ (%v)", err)
	}
	explained, alerts := anchors(t, "troubleshooting.md"), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert string `yaml:"alert"`
				} `yaml:"rules"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				if rule.Alert == "" {
					continue
				}
				alerts++
				if !explained[strings.ToLower(rule.Alert)] {
					t.Errorf("docs/troubleshooting.md has no heading for the alert %s", rule.Alert)
				}
			}
		}
	}
	if alerts < 5 {
		t.Errorf("only %d alerts were found", alerts)
	}
}
