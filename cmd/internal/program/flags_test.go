package program_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/program"
	"carillon/internal/release"
)

type flags struct {
	program.Common
	Listen      string         `default:"127.0.0.1:1" help:"Where."`
	LeaseMin    time.Duration  `default:"5m" help:"How long."`
	Set         []string       `help:"Which."`
	Limit       int            `default:"10" help:"How many."`
	Net         []netip.Prefix `help:"Where from."`
	Once        string         `env:"-" help:"What this once."`
	program.TLS `embed:"" prefix:"tower-" set:"listener=tower"`
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func parse(t *testing.T, args ...string) (flags, string, error) {
	t.Helper()
	var f flags
	var out bytes.Buffer
	_, err := program.Read("bell", "A bell.", &f, args, &out)
	return f, out.String(), err
}

func TestParsePrecedence(t *testing.T) {
	config := write(t, "listen: 127.0.0.1:3\nlease-min: 3m\nset: [c, d]\nlimit: 30\n")
	t.Setenv("BELL_LEASE_MIN", "2m")
	t.Setenv("BELL_LIMIT", "20")
	f, _, err := parse(t, "--config", config, "--limit", "1")
	if err != nil {
		t.Fatal(err)
	}
	if f.Limit != 1 {
		t.Errorf("limit = %d; a flag wins over everything: want 1", f.Limit)
	}
	if f.LeaseMin != 2*time.Minute {
		t.Errorf("lease-min = %s; the environment wins over the file: want 2m", f.LeaseMin)
	}
	if f.Listen != "127.0.0.1:3" || !slices.Equal(f.Set, []string{"c", "d"}) {
		t.Errorf("listen = %q, set = %q; the file wins over defaults", f.Listen, f.Set)
	}
}

// A negative number is the value of the flag before it, and no flag.
func TestParseNegatives(t *testing.T) {
	f, _, err := parse(t, "--limit", "-1", "--lease-min", "-3m")
	if err != nil || f.Limit != -1 || f.LeaseMin != -3*time.Minute {
		t.Errorf("limit = %d, lease-min = %s, err = %v; want -1 and -3m", f.Limit, f.LeaseMin, err)
	}
	for name, args := range map[string][]string{
		"behind a value":   {"--limit=3", "-1"},
		"without a flag":   {"-1"},
		"behind the flags": {"--limit=3", "--", "-1"},
		"a flag":           {"--listen", "--limit", "-1"},
	} {
		if f, _, err := parse(t, args...); err == nil {
			t.Errorf("%s: %q was taken, limit = %d, listen = %q", name, args, f.Limit, f.Listen)
		}
	}
}

func TestParseConfigFromEnvironment(t *testing.T) {
	t.Setenv("BELL_CONFIG", write(t, "limit: 7\n"))
	f, _, err := parse(t)
	if err != nil || f.Limit != 7 {
		t.Fatalf("limit = %d, err = %v; want 7 from the file that BELL_CONFIG names", f.Limit, err)
	}
}

func TestParseListFromEnvironment(t *testing.T) {
	t.Setenv("BELL_SET", "a,b")
	f, _, err := parse(t)
	if err != nil || !slices.Equal(f.Set, []string{"a", "b"}) {
		t.Fatalf("set = %q, err = %v", f.Set, err)
	}
}

func TestParseRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":       {[]string{"--lisen", "x"}, "--lisen"},
		"bad duration":       {[]string{"--lease-min", "soon"}, "lease-min"},
		"stray word":         {[]string{"start"}, "start"},
		"no such file":       {[]string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, "none.yaml"},
		"unknown setting":    {[]string{"--config", write(t, "lisen: x\n")}, `"lisen"`},
		"file without names": {[]string{"--config", write(t, "- a\n")}, "mapping"},
		"setting twice":      {[]string{"--config", write(t, "limit: 1\nlimit: 2\n")}, "limit"},
		"nested setting":     {[]string{"--config", write(t, "limit: {a: 1}\n")}, "limit takes"},
		"bad value in file":  {[]string{"--config", write(t, "limit: many\n")}, "limit"},
		"setting for once":   {[]string{"--config", write(t, "once: x\n")}, `"once"`},
		"no network":         {[]string{"--net", "10.0.0.0/8,belfry"}, `--net: "belfry" is no network, as 10.0.0.0/8`},
		"empty list":         {[]string{"--net", ""}, "--net is empty: give it a value, or leave the flag out"},
		"empty list, joined": {[]string{"--set="}, "--set is empty"},
		"a zone":             {[]string{"--net", "fe80::1%eth0"}, `is no network`},
		"bad log level":      {[]string{"--log-level", "loud"}, "log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parse(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n\n") {
				t.Fatalf("err = %v; want one that names %s", err, test.want)
			}
		})
	}
}

// A variable that happens to be named like the version flag prints nothing and
// ends nothing.
func TestParseVersionInTheEnvironment(t *testing.T) {
	t.Setenv("BELL_VERSION", "1.2.3")
	if _, out, err := parse(t); err != nil || out != "" {
		t.Errorf("err = %v, output %q", err, out)
	}
}

func TestFailIsOneLine(t *testing.T) {
	var out bytes.Buffer
	if code := program.Fail(&out, "bell", errors.New("one\n  two\r\nthree")); code != 1 || out.String() != "bell: one;   two; three\n" {
		t.Errorf("status %d, %q", code, &out)
	}
	out.Reset()
	if program.Fail(
		&out, "bell", errors.New("a\u009b2J\u202e\x1b[0m\xffü\t'\""),
	); out.String() != `bell: a\u009b2J\u202e\x1b[0m`+"\ufffdü"+`\t'"`+"\n" {
		t.Errorf("a terminal gets %q", &out)
	}
}

func TestParseHelpAndVersion(t *testing.T) {
	_, out, err := parse(t, "--help")
	if !errors.Is(err, program.ErrDone) || !strings.Contains(out, "BELL_LISTEN") {
		t.Errorf("--help: err = %v, output %q; want the flags with their variables", err, out)
	}
	if !strings.Contains(out, "https on the tower") || strings.Contains(out, "${") {
		t.Errorf("--help does not name the listener: %s", out)
	}
	_, out, err = parse(t, "--version")
	if !errors.Is(err, program.ErrDone) || out != "bell "+release.Version+"\n" {
		t.Errorf("--version: err = %v, output %q", err, out)
	}
}

// A single address is a network, too.
func TestParseNetworks(t *testing.T) {
	f, _, err := parse(t, "--net", "10.0.0.1,10.1.0.0/16", "--net", "2001:db8::1")
	if err != nil || fmt.Sprint(f.Net) != "[10.0.0.1/32 10.1.0.0/16 2001:db8::1/128]" {
		t.Errorf("net = %v, err = %v", f.Net, err)
	}
}

// A misspelt variable is named, without its value; variables of other programs are not.
func TestWarnOfVariables(t *testing.T) {
	for name, warns := range map[string]bool{
		"BELL_LEASEMIN": true, "BELL_ONCE": true, "BELL_HELP": true, "BELL_SECRETS": true,
		"BELL_LEASE_MIN": false, "BELL_CONFIG": false, "BELL_LOG_LEVEL": false, "BELL_TOWER_TLS_CERT": false, "BELL_SECRET": false,
		"BELLS_LEASEMIN": false, "BELL_VERSION": false, "BELL_SERVICE_HOST": false, "BELL_SERVICE_PORT_HTTP": false,
		"BELL_PORT": false, "BELL_PORT_8080_TCP_ADDR": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "hush")
			var out bytes.Buffer
			program.WarnOfVariables(program.Logger(&out, program.NewLogLevel("warn")), "bell", &flags{}, "BELL_SECRET")
			if told := strings.Contains(out.String(), `"`+name+`"`); told != warns || out.Len() > 0 != warns || strings.Contains(out.String(), "hush") {
				t.Errorf("told %q; want it to be told of: %t", &out, warns)
			}
		})
	}
}
