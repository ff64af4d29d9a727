package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
)

// CheckCommand is the command that looks at a configuration as a start would, without
// starting: S are the flags of the command that serves.
type CheckCommand[S any] struct {
	Settings  S    `embed:""`
	Effective bool `env:"-" help:"Print every setting, its value, and where that comes from: flag, environment, line of the file, or default. Secrets are not shown."`

	read     *Settings
	problems []error
}

// Help says what the flags do not.
func (*CheckCommand[S]) Help() string {
	return "It reads flags, environment and file as a start does, and looks at the files and directories that " +
		"they name. It opens no store and no listener, sends no requests, and changes nothing. It reports all " +
		"errors at once, and the exit status is 1 then. Run it as the user of the service, with the same " +
		"flags and variables."
}

// Looker are settings that can be looked at beyond their values.
type Looker interface {
	// Look returns all that a start would refuse, as far as that is seen without opening
	// anything, and warns of what a start would warn of.
	Look(ctx context.Context, logger *slog.Logger) error
}

// found implements takesProblems.
func (c *CheckCommand[S]) found(settings *Settings, problems []error) {
	c.read = settings
	for _, problem := range problems {
		c.add(problem)
	}
}

// Shown implements Shower.
func (c *CheckCommand[S]) Shown(flag, value string) string {
	if shower, ok := any(&c.Settings).(Shower); ok {
		return shower.Shown(flag, value)
	}
	return value
}

// Check reports the fault, each thing on a line of stderr. Also are variables that the
// program reads and that are no flag's; flags is its whole grammar, as for Parse.
func (c *CheckCommand[S]) Check(
	ctx context.Context, name string, flags any, stdout, stderr io.Writer, also ...string,
) error {
	warnings := &gathered{}
	logger := slog.New(warnings)
	WarnOfVariables(logger, name, flags, also...)
	if v, ok := any(&c.Settings).(interface{ Validate() error }); ok {
		c.add(v.Validate())
	}
	if l, ok := any(&c.Settings).(Looker); ok {
		c.add(l.Look(ctx, logger))
	}
	if c.Effective {
		c.effective(stdout, also)
	}
	for _, problem := range c.problems {
		fmt.Fprintf(stderr, "%s: %s\n", name, oneLine(problem))
	}
	for _, warning := range warnings.lines {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, warning)
	}
	switch n := len(c.problems); n {
	case 0:
		if !c.Effective {
			fmt.Fprintf(stdout, "%s: the configuration is good%s\n", name, c.of())
		}
		return nil
	case 1:
		return fmt.Errorf("the configuration%s has a problem: %s would not start", c.of(), name)
	default:
		return fmt.Errorf("the configuration%s has %d problems: %s would not start", c.of(), n, name)
	}
}

// of names the file.
func (c *CheckCommand[S]) of() string {
	if c.read.File == "" {
		return ""
	}
	return " (" + c.read.File + ")"
}

// add records each problem once. It leaves out problems of a value that could not be read: the
// value is its default now, so they would be wrong.
func (c *CheckCommand[S]) add(err error) {
	if err == nil {
		return
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) > 1 {
		for _, line := range lines { // of errors.Join
			c.add(errors.New(line))
		}
		return
	}
	for _, s := range c.read.All {
		if s.dropped && strings.Contains(err.Error()+" ", "--"+s.Flag+" ") {
			return
		}
	}
	for _, told := range c.problems {
		if told.Error() == err.Error() {
			return
		}
	}
	c.problems = append(c.problems, err)
}

// effective prints what is in effect.
func (c *CheckCommand[S]) effective(stdout io.Writer, also []string) {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	for _, s := range c.read.All {
		shown := s.Shown
		if s.dropped {
			shown = "?"
		} else if shown == "" {
			shown = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Flag, shown, s.From)
	}
	for _, name := range also {
		if _, there := os.LookupEnv(name); there {
			fmt.Fprintf(table, "-\t(hidden)\t$%s\n", name)
		}
	}
	_ = table.Flush() // to a terminal or a pipe, as any print
}

// gathered keeps the warnings that a start would log.
type gathered struct{ lines []string }

func (g *gathered) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (g *gathered) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, "; %s: %s", a.Key, durations(nil, a).Value)
		return true
	})
	g.lines = append(g.lines, b.String())
	return nil
}

func (g *gathered) WithAttrs([]slog.Attr) slog.Handler { return g }

func (g *gathered) WithGroup(string) slog.Handler { return g }
