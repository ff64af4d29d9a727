package program_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/program"
)

// Who reads the log need not know that a bare number would be nanoseconds.
func TestDurationsInTheLog(t *testing.T) {
	var log bytes.Buffer
	program.Logger(&log, "info").Info("tried again", "every", 90*time.Second)
	if !strings.Contains(log.String(), `"every":"1m30s"`) {
		t.Errorf("logged %s", &log)
	}
}
