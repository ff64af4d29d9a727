package program

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// Reloading is what a Reloader works on.
type Reloading struct {
	// InForce are the settings that the command began with.
	InForce *Settings
	// Read reads them anew, from the same command line.
	Read func() (*Settings, error)
	// Prepare reads what the settings with the tag reload name now, such as files, and
	// changes nothing yet. After an error nothing changes. Nil: only the log level is reloaded.
	Prepare func(command any) (Change, error)
	Level   *LogLevel
	Logger  *slog.Logger
}

// Change is what a reload is going to take.
type Change struct {
	// Take are called one after the other; they cannot fail. Nil ones are left out.
	Take []func()
	// Restart are the flags, of those with the tag reload, that a change from the
	// settings in force takes a restart for all the same.
	Restart []string
}

// Reloader reads the configuration of a running command again and applies the settings that
// can change. The log names the others, which need a restart. If any setting is wrong, nothing
// changes.
type Reloader struct {
	Reloading
	asked chan os.Signal
	began int // terminals, at the start

	mu      sync.Mutex
	inForce map[string]Setting // guarded by mu
	before  string             // the level of log lines before this reload; guarded by mu
}

// NewReloader makes a Reloader. From now on SIGHUP does not end the process; the first is
// heeded when Run is called.
func NewReloader(r Reloading) *Reloader {
	l := &Reloader{Reloading: r, asked: make(chan os.Signal, 1), began: terminals(), inForce: map[string]Setting{}}
	signal.Notify(l.asked, syscall.SIGHUP)
	for _, s := range r.InForce.All {
		l.inForce[s.Flag] = s
	}
	return l
}

// Run reloads at each SIGHUP until ctx ends. It returns nil. Where the terminal that the
// command was started at is gone the signal means that, and ends the process as SIGTERM
// does.
func (r *Reloader) Run(ctx context.Context) error {
	defer signal.Stop(r.asked)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.asked:
		}
		if terminals() < r.began {
			r.Logger.Info("the terminal is gone")
			return signalSelf(syscall.SIGTERM)
		}
		_ = r.Reload() // it is in the log
	}
}

// terminals counts which of the three streams of the process are terminals.
func terminals() (n int) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if term.IsTerminal(int(f.Fd())) {
			n++
		}
	}
	return n
}

// Reload reads the configuration again, applies it, and logs the result.
func (r *Reloader) Reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, err := r.Read()
	var change Change
	if err == nil && r.Prepare != nil {
		change, err = r.Prepare(fresh.Command)
	}
	if err != nil {
		err = fmt.Errorf("the configuration cannot be taken, and nothing has changed: %w", err)
		r.Logger.Error("the configuration was not reloaded: nothing has changed", "error", oneLine(err))
		return err
	}
	r.take(fresh, change)
	return nil
}

// take takes what can change.
func (r *Reloader) take(fresh *Settings, change Change) {
	for _, take := range change.Take {
		if take != nil {
			take()
		}
	}
	defer r.takeLevel(fresh)()
	changed, restart := 0, 0
	for _, s := range fresh.All {
		old := r.inForce[s.Flag]
		if s.Flag == logLevelFlag {
			old.value, old.Shown = r.before, r.before
			s.value = cmp.Or(s.value, defaultLevel)
			s.Shown = s.value
		}
		switch {
		case s.value == old.value || s.Flag == "config":
		case s.Reload && !slices.Contains(change.Restart, s.Flag):
			changed++
			r.inForce[s.Flag] = s
			r.Logger.Info(
				"a setting has changed", "setting", s.Flag, "before", old.Shown, "now", s.Shown, "from", s.From,
			)
		default:
			restart++
			r.Logger.Warn(
				"a setting has changed, which takes a restart: it stays as it was until then",
				"setting", s.Flag, "in_force", old.Shown, "configured", s.Shown, "from", s.From,
			)
		}
	}
	r.Logger.Info("the configuration was reloaded", "changed", changed, "take_a_restart", restart)
}

// takeLevel sets the level of log lines, also if it was changed by other means since. Until end
// is called, lines of both levels are logged, so that the lines about the change are visible.
func (r *Reloader) takeLevel(fresh *Settings) (end func()) {
	r.before = r.Level.Get()
	name := defaultLevel
	for _, s := range fresh.All {
		if s.Flag == logLevelFlag {
			name = cmp.Or(s.value, defaultLevel)
		}
	}
	level := NewLogLevel(Level(name))
	if level.Level() < r.Level.Level() {
		_ = r.Level.Set(name) // a flag has checked it
	}
	return func() { _ = r.Level.Set(name) }
}

// oneLine is an error for the log, which may have been several.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
