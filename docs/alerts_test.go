package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// runbooks is the base of each alert's runbook_url: the documentation beside the installed units.
const runbooks = "file:///usr/local/share/doc/carillon/troubleshooting.md#"

// TestAlertsAreExplained: each alert of deploy/ has a heading in troubleshooting.md, and its
// runbook_url names that heading.
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
					Alert       string            `yaml:"alert"`
					Labels      map[string]string `yaml:"labels"`
					Annotations map[string]string `yaml:"annotations"`
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
				heading := strings.ToLower(rule.Alert)
				if !explained[heading] {
					t.Errorf("docs/troubleshooting.md has no heading for the alert %s", rule.Alert)
				}
				if got := rule.Annotations["runbook_url"]; got != runbooks+heading {
					t.Errorf("the runbook_url of the alert %s is %q, want %q", rule.Alert, got, runbooks+heading)
				}
				if got := rule.Labels["severity"]; got != "critical" && got != "warning" && got != "info" {
					t.Errorf("the alert %s has the severity %q", rule.Alert, got)
				}
			}
		}
	}
	if alerts < 5 {
		t.Errorf("only %d alerts were found", alerts)
	}
}
