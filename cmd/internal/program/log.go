package program

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"golang.org/x/term"
)

// Level is the name of a level of log lines; empty: nobody has chosen one, which is
// info.
type Level string

// UnmarshalText takes one of the levels.
func (l *Level) UnmarshalText(text []byte) error {
	if *l = Level(text); !slices.Contains([]Level{"debug", "info", "warn", "error"}, *l) {
		return fmt.Errorf("must be debug, info, warn or error, not %q", text)
	}
	return nil
}

// Logger returns the command's logger: text where w is a terminal, JSON elsewhere.
func Logger(w io.Writer, level Level) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: legible}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// legible writes durations with their unit: 1m30s.
func legible(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
