package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/program"
)

// belfry is a program with a command that serves, and one that checks.
type belfry struct {
	program.Common
	Serve    rope                         `cmd:"" default:"withargs" hidden:""`
	Settings program.ConfigCommands[rope] `cmd:"" name:"config"`
}

type rope struct {
	Length time.Duration `default:"5m" reload:""`
	Knots  int           `default:"3"`
	Key    string
	TLS    program.TLS `embed:"" set:"listener=tower"`
}

// Validate refuses two things at once.
func (r *rope) Validate() error {
	var all []error
	if r.Knots < 0 {
		all = append(all, errors.New("--knots must be 0 or more"))
	}
	if r.Length < time.Minute {
		all = append(all, errors.New("--length must be 1m or more"))
	}
	if r.Knots > 100 && r.Length < time.Hour {
		all = append(all, fmt.Errorf("so many --knots need a --length of an hour, not %s", r.Length))
	}
	return errors.Join(all...)
}

// Shown keeps the key back.
func (r *rope) Shown(flag, value string) string {
	if flag == "key" && value != "" {
		return "…"
	}
	return value
}

func readBelfry(t *testing.T, args ...string) (*belfry, *program.Settings, error) {
	t.Helper()
	var b belfry
	read, err := program.Read("bell", "", &b, args, io.Discard)
	return &b, read, err
}

// reloading is a Reloader over a file.
type reloading struct {
	*program.Reloader
	config string
	log    lines
	level  *program.LogLevel
	taken  int // times that the length was taken
}

func newReloading(t *testing.T, text string) *reloading {
	t.Helper()
	r := &reloading{config: write(t, text)}
	args := []string{"--config", r.config}
	b, inForce, err := readBelfry(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	r.level = program.NewLogLevel(b.LogLevel)
	r.Reloader = program.NewReloader(program.Reloading{
		InForce: inForce, Level: r.level, Logger: program.Logger(&r.log, r.level),
		Read: func() (*program.Settings, error) {
			_, read, err := readBelfry(t, args...)
			return read, err
		},
		Prepare: func(command any) (c program.Change, err error) {
			if command.(*rope).Length == 13*time.Minute {
				return c, errors.New("that is bad luck")
			}
			c.Take = append(c.Take, nil, func() { r.taken++ })
			return c, nil
		},
	})
	return r
}

// says reloads with a text in the file and returns what the log says of it.
func (r *reloading) says(t *testing.T, text string) string {
	t.Helper()
	putFile(t, r.config, []byte(text))
	r.log.text.Reset()
	err := r.Reload()
	if log := r.log.String(); (err != nil) != strings.Contains(log, `"level":"ERROR"`) || err != nil && strings.Count(log, "\n") != 1 {
		t.Errorf("%q: error %v, and the log says\n%s", text, err, log)
	}
	return r.log.String()
}

// The settings that can change do. For the rest the log asks for a restart. If anything is wrong
// nothing changes.
func TestReload(t *testing.T) {
	r := newReloading(t, "length: 5m\nkey: s3cret\n")
	has := func(what, log string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(log, part) {
				t.Errorf("%s: the log has no %s:\n%s", what, part, log)
			}
		}
		if strings.Contains(log, "s3cret") || strings.Contains(log, "another") {
			t.Errorf("%s: a secret is told:\n%s", what, log)
		}
	}
	has("nothing", r.says(t, "length: 5m\nkey: s3cret\n"), `"changed":0,"take_a_restart":0`)
	has(
		"what can change", r.says(t, "length: 6m\nkey: s3cret\n"),
		`"setting":"length","before":"5m","now":"6m","from":"`+r.config+`:1"`,
		`"changed":1,"take_a_restart":0`,
	)
	has("the rest", r.says(t, "length: 6m\nkey: another\nknots: 4\n"),
		`"setting":"knots","in_force":"3","configured":"4"`, `"setting":"key","in_force":"…","configured":"…"`, `"changed":0,"take_a_restart":2`)
	has("the rest is told again", r.says(t, "length: 6m\nkey: s3cret\nknots: 5\n"), `"in_force":"3","configured":"5"`)
	taken := r.taken
	for text, want := range map[string]string{
		"length: [":           "not a YAML mapping",
		"lenght: 7m\n":        `did you mean \"length\"`,
		"length: 1s\n":        "--length must be 1m or more",
		"length: 13m\n":       "that is bad luck",
		"log-level: loud\n":   "log-level",
		"knots: 1\nknots: 2":  "knots is there twice",
		"length: soon\nx: 1 ": "length: expected duration",
	} {
		has(text, r.says(t, text+""), "nothing has changed", want)
	}
	if r.taken != taken || r.level.Get() != "info" {
		t.Errorf("taken %d times more from files that are wrong, the level is %s", r.taken-taken, r.level.Get())
	}
	if err := os.Remove(r.config); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil {
		t.Error("a file that is gone was taken")
	}
}

// A reload sets the level to what the configuration says, and is seen at either.
func TestReloadOfTheLevel(t *testing.T) {
	r := newReloading(t, "")
	for _, step := range []struct{ set, text, level, told string }{
		{"", "log-level: error\n", "error", `"setting":"log-level","before":"info","now":"error"`},
		{"", "log-level: error\n", "error", ""},
		{"", "log-level: debug\n", "debug", `"before":"error","now":"debug"`},
		{"warn", "log-level: debug\n", "debug", `"before":"warn","now":"debug"`},
		{"", "", "info", `"before":"debug","now":"info"`},
	} {
		if step.set != "" {
			if err := r.level.Set(step.set); err != nil {
				t.Fatal(err)
			}
		}
		log := r.says(t, step.text)
		if r.level.Get() != step.level || !strings.Contains(log, step.told) || step.told == "" && log != "" {
			t.Errorf("%+v: the level is %s, and the log says\n%s", step, r.level.Get(), log)
		}
	}
}

// config check says all that is wrong, and shows no secret.
func TestCheck(t *testing.T) {
	check := func(args ...string) (string, string, error) {
		t.Helper()
		b, read, err := readBelfry(t, append([]string{"config", "check"}, args...)...)
		if err != nil {
			return "", "", err
		}
		var out, problems bytes.Buffer
		err = read.Command.(*program.CheckCommand[rope]).Check(context.Background(), "bell", b, &out, &problems, "BELL_SECRET")
		return out.String(), problems.String(), err
	}
	config := write(t, "knots: -1\nlength: soon\nkey: s3cret\nkee: x\n")
	t.Setenv("BELL_KNOT", "1")
	t.Setenv("BELL_SECRET", "hush")
	out, problems, err := check("--config", config, "--effective")
	if err == nil || !strings.Contains(err.Error(), "has 3 problems") {
		t.Errorf("err = %v", err)
	}
	for _, want := range []string{
		":4: there is no setting", ":2: length: expected duration",
		"bell: --knots must be 0 or more\n", "warning: the environment has",
		"did_you_mean: BELL_KNOTS",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q is not told:\n%s", want, problems)
		}
	}
	for _, want := range []string{"\nlength     ?", "\nknots      -1", config + ":1\n", "\nkey        …", "$BELL_SECRET"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown:\n%s", want, out)
		}
	}
	if strings.Contains(out+problems, "s3cret") || strings.Contains(out+problems, "hush") {
		t.Errorf("a secret is shown:\n%s%s", out, problems)
	}
	// A message about a value that was not read would be wrong.
	if _, problems, err := check("--config", write(t, "knots: 101\nlength: soon\n")); err == nil || strings.Contains(problems, "an hour") {
		t.Errorf("beside a value that cannot be read: %v\n%s", err, problems)
	}
	if _, problems, err := check("--config", write(t, "knots: 101\n")); err == nil || !strings.Contains(problems, "an hour") {
		t.Errorf("two values that do not go together: %v\n%s", err, problems)
	}
	if out, _, err := check("--knots", "1"); err != nil || out != "bell: the configuration is good\n" {
		t.Errorf("a good one: %q, %v", out, err)
	}
	if _, _, err := check("--knot", "1"); err == nil || !strings.Contains(err.Error(), "--knot") {
		t.Errorf("an unknown flag: %v", err)
	}
}
