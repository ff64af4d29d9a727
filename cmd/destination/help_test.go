package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The help is whole: nothing in it stands for a text that was to be put in its place.
func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if status := run(
		context.Background(), []string{"--help"}, &out, &out,
	); status != 0 || !strings.Contains(out.String(), "--tls-cert") || strings.Contains(out.String(), "${") {
		t.Errorf("status %d:\n%s", status, &out)
	}
}

// config check looks at what a start would, and says all of it.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--topic http://a.test/x":               "destination: the configuration is good\n",
		"":                                      "missing flags: --topic=URL",
		"--topic ftp://a.test/x --lease 1500ms": "--topic: ",
		"--topic http://a.test/x --listen :1 --tls-key k.pem":   "--tls-key is given without --tls-cert: both are needed, or none\ndestination: --listen :1 is every address",
		"follow --topic http://a.test/x":                        "destination: the configuration is good\n",
		"follow --topic http://a.test/x --exec x --mirror y":    "--mirror takes the changes itself",
		"follow --topic http://a.test/x --listen :1":            "--listen :1 is every address",
		"follow --topic http://a.test/x --trust-host http://a/": "--trust-host: ",
		"follow --topic http://a.test/x --mirror help_test.go":  "--mirror: ",
		"follow":                 "--topic or --source must say whom to follow",
		"baseline --mirror copy": `--source must say whose`,
		"baseline --source http://a.test/ --mirror copy":                       "destination: the configuration is good\n",
		"incremental --source http://a.test/ --mirror copy --since yesterday":  "--since: ",
		"audit --source http://a.test/ --mirror help_test.go --trust-host a:b": "--trust-host: ",
	} {
		var out bytes.Buffer
		args := append([]string{"config", "check"}, strings.Fields(line)...)
		status := run(context.Background(), append(args, "--data", t.TempDir()+"/data"), &out, &out)
		if (status == 0) != strings.Contains(out.String(), "is good") || !strings.Contains(out.String(), want) {
			t.Errorf("%q: %d\n%s\nwant %s", line, status, &out, want)
		}
	}
}
