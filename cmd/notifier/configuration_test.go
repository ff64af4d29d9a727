package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// docs/configuration.md has what the code says of every flag: go generate ./cmd/... writes it.
func TestConfigurationReference(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	if status := run(t.Context(), []string{"config", "reference"}, &out, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), out.String()) {
		t.Error("docs/configuration.md is not what the flags are: run go generate ./cmd/...")
	}
}
