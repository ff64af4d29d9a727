package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// docs/configuration.md has what the code says of every flag: go generate ./cmd/... writes it.
func TestConfigurationReference(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	if status := run(t.Context(), []string{"config", "reference"}, &out, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), out.String()) {
		t.Error("docs/configuration.md is not what the flags are: run go generate ./cmd/...")
	}
}

// The ranges in the reference are those that a start checks.
func TestRanges(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, flag := range parser.Model.DefaultCmd.Flags {
		span := flag.Tag.Get("range")
		if span == "" {
			continue
		}
		seen++
		good, bad := edges(t, flag.Target.Interface(), span)
		for _, value := range good {
			if problem := problemOf(t, flag.Name, value); problem != "" {
				t.Errorf("--%s=%s is in %q, and refused: %s", flag.Name, value, span, problem)
			}
		}
		for _, value := range bad {
			if problemOf(t, flag.Name, value) == "" {
				t.Errorf("--%s=%s is not in %q, and taken", flag.Name, value, span)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d flags have a range", seen)
	}
}

// problemOf is what config check says of one flag.
func problemOf(t *testing.T, flag, value string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	run(t.Context(), []string{"config", "check", "--store", "pebble:" + t.TempDir(), "--" + flag + "=" + value}, &out, &stderr)
	for _, line := range strings.Split(stderr.String(), "\n") {
		if strings.HasPrefix(line, "hub: --"+flag+" ") || strings.HasPrefix(line, "hub: --"+flag+":") {
			return line
		}
	}
	return ""
}

// edges are values on the edges of a range, and such beyond.
func edges(t *testing.T, of any, span string) (good, bad []string) {
	t.Helper()
	step := func(text string, by int64) string {
		var size byteSize
		if d, err := time.ParseDuration(text); err == nil && text != "0" {
			return (d + time.Duration(by)).String()
		} else if err := size.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("a range of %T: %q", of, text)
		}
		return strconv.FormatInt(int64(size)+by, 10)
	}
	unit := ""
	switch of.(type) {
	case time.Duration, *time.Duration:
		unit = "s"
	}
	least, most, bounded := strings.Cut(span, " to ")
	atLeast, open := strings.CutSuffix(strings.TrimPrefix(span, "0, or "), " or more")
	switch {
	case span == "more than 0":
		bad = []string{"0" + unit, "-1" + unit}
	case bounded:
		good, bad = []string{least, most}, []string{step(least, -1), step(most, 1)}
	case open && !strings.HasPrefix(atLeast, "--"):
		good, bad = []string{atLeast}, []string{step(atLeast, -1)}
	}
	if strings.HasPrefix(span, "0, or ") {
		good, bad = append(good, "0"+unit), append(bad, "-1"+unit)
	}
	return good, bad
}

// config check says all that a start would refuse, shows no password, and makes nothing.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	store, token := t.TempDir()+"/store", t.TempDir()+"/token"
	for line, want := range map[string][]string{
		"": {"hub: the configuration is good\n"},
		"--listen :0 --url ftp://x/ --lease-min 0s --retry-first 2h": {"hub: --lease-min must be", "hub: --retry-first (2h0m0s) must not", "hub: --url: "},
		"--listen :8080": {"every address of this machine: give --url"},
		"--admin 0.0.0.0:1 --admin-token-file " + token:                   {"--admin-plain where the network is your own"},
		"--admin 0.0.0.0:1 --admin-plain":                                 {"give --admin-token-file FILE"},
		"--admin-token-file " + token + "/none/token":                     {"hub: --admin-token-file: " + token + "/none/token is not there and cannot be made: "},
		"--admin-token-file /dev/null/token":                              {"hub: --admin-token-file: "},
		"--store redis://u:s3cret@127.0.0.1:1/0 --effective":              {"redis://u:xxxxx@127.0.0.1:1/0"},
		"--proxy http://u:s3cret@p.test:1 --proxy-filters --effective":    {"http://p.test:1 "},
		"--admin-tls-cert a --tls-key b":                                  {"--admin-tls-cert is given without", "--tls-key is given without"},
		"--redis-password-file /none --store redis://127.0.0.1:1/0":       {"--redis-password-file: open /none"},
		"--store pebble:/dev/null/store":                                  {"--store pebble:/dev/null/store: "},
		"--trusted-proxy 0.0.0.0/0 --admin [::1]:0 --listen localhost:99": {"warning: --trusted-proxy takes in everybody", "is good"},
	} {
		var out bytes.Buffer
		args := append([]string{"config", "check"}, strings.Fields(line)...)
		if !strings.Contains(line, "--store") {
			args = append(args, "--store", "pebble:"+store)
		}
		status := run(t.Context(), args, &out, &out)
		bad := strings.Contains(out.String(), "would not start")
		if (status != 0) != bad || strings.Contains(out.String(), "s3cret") {
			t.Errorf("%q: %d\n%s", line, status, &out)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q does not say %s:\n%s", line, part, &out)
			}
		}
	}
	for _, name := range []string{store, token} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}
