package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Flags that do not go together are refused in one line, at the start and by config check.
func TestPublishFlags(t *testing.T) {
	t.Parallel()
	const intake, as = "http://127.0.0.1:8091/sets/agg/events", "https://mirror.example/files/"
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	mirrored := []string{"--mirror", filepath.Join(dir, "copies")}
	with := func(more ...string) []string { return append(append([]string(nil), mirrored...), more...) }
	for name, tc := range map[string]struct {
		args []string
		want string // empty: it is good
	}{
		"good":              {with("--publish", intake, "--as", as), ""},
		"behind a prefix":   {with("--publish", "https://n.example/intake/sets/agg/events", "--as", "http://m.example/"), ""},
		"no mirror":         {[]string{"--publish", intake, "--as", as}, "--publish needs --mirror"},
		"no address":        {with("--publish", intake), "--as: is missing; give the address at which the directory of --mirror is served"},
		"no intake":         {with("--as", as), "--as is for --publish"},
		"no intake for TLS": {with("--publish-tls-cert", text), "--publish-tls-cert is for --publish"},
		"HOST:PORT": {
			with("--publish", "127.0.0.1:8091", "--as", as),
			`--publish: "127.0.0.1:8091" is not where a notifier takes the events of a set; give http://HOST:PORT/sets/NAME/events`,
		},
		"no set":           {with("--publish", "http://127.0.0.1:8091/events", "--as", as), "--publish: "},
		"a name of no set": {with("--publish", "http://127.0.0.1:8091/sets//events", "--as", as), "--publish: "},
		"resources":        {with("--publish", "http://127.0.0.1:8091/sets/agg/resources", "--as", as), "--publish: "},
		"a query":          {with("--publish", intake+"?x", "--as", as), "--publish: "},
		"a user":           {with("--publish", "http://u@127.0.0.1:8091/sets/agg/events", "--as", as), "--publish: "},
		"another scheme": {with(
			"--publish", intake, "--as", "ftp://mirror.example/",
		), `--as: "ftp://mirror.example/" is not an absolute http or https URL`},
		"a query of --as": {with("--publish", intake, "--as", as+"?x=/"), "--as: "},
		"a fragment":      {with("--publish", intake, "--as", as+"#/"), "--as: "},
		"no slash": {
			with("--publish", intake, "--as", "https://mirror.example/files"),
			`--as: "https://mirror.example/files" does not end in a slash, so that paths cannot follow it; give "https://mirror.example/files/"`,
		},
		"no path":            {with("--publish", intake, "--as", "https://mirror.example"), "does not end in a slash"},
		"a space":            {with("--publish", intake, "--as", "https://mirror.example/my files/"), "--as: "},
		"no certificate":     {with("--publish", intake, "--as", as, "--publish-tls-cert", text), "--publish-tls-cert: "},
		"both addresses bad": {with("--publish", "x", "--as", "y"), "--as: "},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(
				[]string{"--topic", "http://source.example/change/", "--url", "http://127.0.0.1:8092/", "--data", filepath.Join(dir, "data")},
				tc.args...,
			)
			var stdout, stderr bytes.Buffer
			status := run(t.Context(), append([]string{"config", "check", "follow"}, args...), &stdout, &stderr)
			said := stdout.String() + stderr.String()
			if good := tc.want == ""; good != (status == 0) || !strings.Contains(said, tc.want) {
				t.Errorf("config check: status %d\n%s", status, said)
			}
			if tc.want == "" || strings.HasPrefix(name, "no certificate") { // which is looked at when all else is found
				return
			}
			stdout.Reset()
			stderr.Reset()
			if status := run(
				t.Context(), append([]string{"follow"}, args...), &stdout, &stderr,
			); status == 0 || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("follow: status %d\n%s", status, &stderr)
			}
			if lines, bad := strings.Count(strings.TrimSpace(stderr.String()), "\n")+1, 1+strings.Count(name, "both"); lines > bad {
				t.Errorf("%d lines:\n%s", lines, &stderr)
			}
		})
	}
}
