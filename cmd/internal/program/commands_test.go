package program_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

// tower is a program with commands.
type tower struct {
	program.Common
	Ring ringCommand `cmd:"" default:"withargs" hidden:"" help:"Ring."`
	Oil  oilCommand  `cmd:"" help:"Oil the bells."`
}

type where struct {
	Bell string `default:"great" help:"Which bell."`
}

type ringCommand struct {
	where
	Times int `default:"1" help:"How often."`
}

// Validate refuses what cannot be rung.
func (c *ringCommand) Validate() error {
	if c.Times < 1 {
		return errors.New("--times must be at least 1")
	}
	return nil
}

type oilCommand struct {
	where
	Drops int `default:"3" help:"How much."`
}

func parseTower(args ...string) (any, string, error) {
	var out bytes.Buffer
	read, err := program.Read("tower", "A tower.", &tower{}, args, &out)
	if err != nil {
		return nil, out.String(), err
	}
	return read.Command, out.String(), nil
}

// Without a word the default command is meant, with its flags; a setting in the
// file or in the environment is for every command that knows it.
func TestParseCommand(t *testing.T) {
	config := write(t, "times: 5\nbell: small\n")
	for _, test := range []struct {
		name string
		args []string
		want any
	}{
		{"nothing said", nil, ringCommand{where{"great"}, 1}},
		{"flags alone", []string{"--times", "2", "--bell=tenor"}, ringCommand{where{"tenor"}, 2}},
		{"by its name", []string{"ring", "--times", "2"}, ringCommand{where{"great"}, 2}},
		{"another", []string{"oil", "--bell", "tenor"}, oilCommand{where{"tenor"}, 3}},
		{"from the file", []string{"--config", config}, ringCommand{where{"small"}, 5}},
		{"another from a file that says more", []string{"--config", config, "oil"}, oilCommand{where{"small"}, 3}},
		{"the file after the command", []string{"oil", "--config", config}, oilCommand{where{"small"}, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			command, _, err := parseTower(test.args...)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			switch c := command.(type) {
			case *ringCommand:
				got = *c
			case *oilCommand:
				got = *c
			}
			if got != test.want {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
	t.Setenv("TOWER_BELL", "passing")
	for _, args := range [][]string{nil, {"oil"}} {
		command, _, err := parseTower(args...)
		if err != nil {
			t.Fatal(err)
		}
		switch c := command.(type) {
		case *ringCommand:
			if c.Bell != "passing" {
				t.Errorf("ring: bell %q", c.Bell)
			}
		case *oilCommand:
			if c.Bell != "passing" {
				t.Errorf("oil: bell %q", c.Bell)
			}
		}
	}
}

func TestParseCommandRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":          {[]string{"paint"}, "unexpected argument paint"},
		"a flag of another":        {[]string{"oil", "--times", "2"}, "--times"},
		"a flag before a command":  {[]string{"--times", "2", "oil"}, "--times"},
		"a setting that no one is": {[]string{"--config", write(t, "time: 5\n"), "oil"}, `"time"`},
		"a bad value":              {[]string{"--times", "0"}, "--times must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parseTower(test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("err = %v; want one with %s", err, test.want)
			}
		})
	}
	// The help that has the flag is the command's.
	if _, _, err := parseTower("oil", "--drops", "many"); err == nil || !strings.Contains(err.Error(), "(tower oil --help lists the flags)") {
		t.Errorf("err = %v; want it to name the help of the command", err)
	}
	// The user did not type the name of the default command.
	if _, _, err := parseTower("--times", "0"); !strings.HasPrefix(err.Error(), "--times") {
		t.Errorf("err = %v; want it to begin with the flag", err)
	}
}

// The help of the program shows the flags of the default command and the names of
// the others; a command's own help shows its flags.
func TestParseCommandHelp(t *testing.T) {
	for _, test := range []struct {
		args   []string
		has    []string
		hasNot []string
	}{
		{[]string{"--help"}, []string{
			"Usage: tower [<command>] [flags]\n", "--times", "TOWER_BELL", "oil", "Oil the bells.", "--config",
		}, []string{"--drops", "\n  ring"}},
		{[]string{"--times=2", "--help"}, []string{"--times", "oil"}, []string{"--drops"}},
		{[]string{"oil", "--help"}, []string{"Usage: tower oil [flags]\n", "--drops", "TOWER_BELL", "--config"}, []string{"--times"}},
	} {
		_, out, err := parseTower(test.args...)
		if !errors.Is(err, program.ErrDone) {
			t.Errorf("%v: err = %v", test.args, err)
		}
		for _, part := range test.has {
			if !strings.Contains(out, part) {
				t.Errorf("%v has no %q:\n%s", test.args, part, out)
			}
		}
		for _, part := range test.hasNot {
			if strings.Contains(out, part) {
				t.Errorf("%v has %q:\n%s", test.args, part, out)
			}
		}
	}
}
