package program_test

import (
	"bytes"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

// Lines of the log stand above the line that reports how far something has come, which
// stays the last one.
func TestScreen(t *testing.T) {
	var terminal bytes.Buffer
	s := program.NewScreen(&terminal)
	logger := program.Logger(s, program.NewLogLevel(""))
	logger.Info("before")
	s.Show("1 of 3")
	s.Show("1 of 3")
	logger.Info("between")
	s.Show("2 of 3")
	s.Show("")
	logger.Info("after")
	const clear = "\r\x1b[K"
	var parts []string
	for _, part := range strings.Split(terminal.String(), clear) {
		_, message, found := strings.Cut(part, "msg=")
		if !found {
			message = part
		}
		parts = append(parts, message)
	}
	if got, want := strings.Join(parts, "|"), "before\n|1 of 3|between\n1 of 3|2 of 3|after\n"; got != want {
		t.Errorf("shown %q; want %q", got, want)
	}
	if w := program.OnScreen(&terminal); w != &terminal {
		t.Error("what is no terminal is taken for one")
	}
}
