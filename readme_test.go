package carillon_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("building the commands: %v\n%s", err, out)
	}
	return bin
}

// TestReadmeTellsTheTwoCommands keeps the two commands that newcomers and CI
// rely on where they look for them.
func TestReadmeTellsTheTwoCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go run ./cmd/hub", "go test ./..."} {
		if !strings.Contains(string(text), fmt.Sprintf("\n    %s\n", command)) {
			t.Errorf("README.md does not have the command %q on a line of its own", command)
		}
	}
}
