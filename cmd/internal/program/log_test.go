package program_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"carillon/cmd/internal/program"
)

// A reader of the log need not know that a bare number would be nanoseconds.
func TestDurationsInTheLog(t *testing.T) {
	var log bytes.Buffer
	program.Logger(&log, program.NewLogLevel("")).Info("tried again", "every", 90*time.Second)
	if !strings.Contains(log.String(), `"every":"1m30s"`) {
		t.Errorf("logged %s", &log)
	}
}

// The level of a logger changes while it is used.
func TestLogLevel(t *testing.T) {
	var log bytes.Buffer
	level := program.NewLogLevel("")
	logger := program.Logger(&log, level)
	for _, test := range []struct {
		set  string
		told bool
	}{{"", false}, {"debug", true}, {"warn", false}, {"debug", true}, {"error", false}, {"info", false}} {
		if test.set != "" {
			if err := level.Set(test.set); err != nil || level.Get() != test.set {
				t.Fatalf("set %s: %v, it is %s", test.set, err, level.Get())
			}
		}
		log.Reset()
		logger.With("a", 1).Debug("said")
		if told := log.Len() > 0; told != test.told {
			t.Errorf("at %q a line of level debug is told: %t", test.set, told)
		}
	}
	if err := level.Set("loud"); err == nil || !strings.Contains(err.Error(), "debug, info, warn or error") || level.Get() != "info" {
		t.Errorf("set loud: %v, it is %s", err, level.Get())
	}
}

// Texts of strangers do nothing to the terminal of the log's reader, and are the same JSON.
func TestForeignTextInTheLog(t *testing.T) {
	const foreign = "a\x1b[2J\u009b2J\u202eb"
	var log bytes.Buffer
	program.Logger(&log, program.NewLogLevel("")).Info(foreign, foreign, foreign)
	if odd := strings.IndexFunc(log.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); odd >= 0 {
		t.Errorf("logged %q", log.String()[odd:])
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line["msg"] != foreign || line[foreign] != foreign {
		t.Errorf("%v: the line says %q", err, line)
	}
}
