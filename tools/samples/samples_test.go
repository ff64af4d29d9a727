// Package samples_test runs those samples of the documentation whose interpreters
// `go test ./...` of the programs does not ask for. Here they must be there.
package samples_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// languages are those of the samples, with their interpreters.
var languages = map[string]string{"python": "python3", "node": "node"}

// TestCallbacks has the callbacks of docs/destination.md tried by the test beside them.
func TestCallbacks(t *testing.T) {
	var all []string
	for language, interpreter := range languages {
		if _, err := exec.LookPath(interpreter); err != nil {
			t.Errorf("the sample in %s cannot be run: install %s, or put it into PATH (%v)", language, interpreter, err)
			continue
		}
		all = append(all, language)
	}
	if t.Failed() {
		return
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestCallbacks$", "./docs")
	run.Dir = "../.."
	run.Env = append(os.Environ(), "CARILLON_SAMPLES="+strings.Join(all, ","))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, language := range all {
		if !strings.Contains(string(out), "--- PASS: TestCallbacks/"+language+" ") {
			t.Errorf("the sample in %s was not run:\n%s", language, out)
		}
	}
}
