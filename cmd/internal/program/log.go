package program

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"carillon/internal/legible"
)

// Level is the name of a level of log lines; empty means the
// default, info.
type Level string

// logLevelFlag is the flag of the level, and defaultLevel what it is without.
const (
	logLevelFlag = "log-level"
	defaultLevel = "info"
)

// levels are all there are.
var levels = map[Level]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// UnmarshalText takes one of the levels.
func (l *Level) UnmarshalText(text []byte) error {
	*l = Level(text)
	if _, ok := levels[*l]; !ok {
		return fmt.Errorf("must be debug, info, warn or error, not %q", text)
	}
	return nil
}

// LogLevel is the least level of the lines that a Logger writes. It may be changed
// meanwhile, from any goroutine.
type LogLevel struct{ level slog.LevelVar }

var _ slog.Leveler = (*LogLevel)(nil)

// NewLogLevel is the level that a command begins with, which a flag has checked.
func NewLogLevel(begin Level) *LogLevel {
	l := &LogLevel{}
	l.level.Set(levels[cmp.Or(begin, defaultLevel)])
	return l
}

// Level implements slog.Leveler.
func (l *LogLevel) Level() slog.Level { return l.level.Level() }

// Get returns the name of the level: debug, info, warn or error.
func (l *LogLevel) Get() string { return strings.ToLower(l.level.Level().String()) }

// Set takes the name of a level. The caller logs the change.
func (l *LogLevel) Set(name string) error {
	var level Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return fmt.Errorf("the log level %w", err)
	}
	l.level.Set(levels[level])
	return nil
}

// Logger returns the command's logger: text where w is a terminal, JSON elsewhere.
func Logger(w io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: durations}
	if _, ok := OnScreen(w).(*Screen); ok {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(escaping{w}, options))
}

// escaping writes lines of JSON without anything that does something to a terminal, in which logs are
// read. The text handler quotes such things itself.
type escaping struct{ io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	if _, err := e.Writer.Write(legible.AppendJSON(nil, line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// durations writes durations with their unit: 1m30s.
func durations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
