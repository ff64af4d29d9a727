package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The help of every command is whole: nothing in it stands for a text that was to be put
// in its place.
func TestHelp(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		var out, stderr bytes.Buffer
		if status := run(context.Background(), append(strings.Fields(node.Path()), "--help"), &out, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s --help: %d %s", node.Path(), status, &stderr)
		}
		if text := out.String(); !strings.Contains(text, "--log-level") || strings.Contains(text, "${") {
			t.Errorf("%s --help:\n%s", node.Path(), text)
		}
		seen++
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	if seen < 12 {
		t.Errorf("there are %d commands", seen)
	}
}

// A missing or wrong value is one line that names the command.
func TestErrorsOfCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"source add": "missing flags: --topic-prefix=URL (hub source add --help",
		"source add --topic-prefix https://a.test/": `expected "<name>" (hub source add --help`,
		"source add a --topic-prefix x":             "(hub source add --help",
		"source rotate":                             `expected "<name>" (hub source rotate --help`,
		"backup":                                    "missing flags: --output=FILE (hub backup --help",
		"--trusted-proxy proxy.test":                `--trusted-proxy: "proxy.test" is no network, as 10.0.0.0/8 and fd00::/8 are, and no address (hub --help`,
		"--lease-min x":                             "(hub --help",
	} {
		var out bytes.Buffer
		if status := run(
			context.Background(), strings.Fields(line), &out, &out,
		); status == 0 || !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("hub %s: %d %q; want %s", line, status, &out, want)
		}
	}
}

// A refused value is reported in the units of its flag, by a start and, once, by config check.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--max-body 0":                "--max-body must be from 1 to 1GiB, not 0",
		"--max-body 2GiB":             "--max-body must be from 1 to 1GiB, not 2GiB",
		"--keep-for 1s":               "--keep-for (1s) must not be shorter than --keep-at-least (5m0s); 0 is no bound by age",
		"--keep-bytes 10":             "--keep-bytes must be 0 (no bound) or 1MB or more, not 10 bytes; sizes may have units, like 10GiB",
		"--change-memory-bytes 20GiB": "--change-memory-bytes (20GiB) must not be more than --keep-bytes (10GiB)",
		"--connection-bytes 1":        "--connection-bytes must be 1MB or more, not 1 bytes; sizes may have units, like 256MiB",
		"--publishers somebody":       `--publishers must be one of "open","registered" but got "somebody"`,
		"--key-exchange oldest":       "--key-exchange must be one of",
		"--signature md5":             "--signature must be one of",
		"--lease-min 0s":              "--lease-min must be more than 0, not 0s",
		"--redis-replicas 101":        "--redis-replicas must be from 0 to 100, not 101",
		"--retry-first 2h":            "--retry-first (2h0m0s) must not be longer than --retry-max (1h0m0s)",
		"--trusted-proxy ::/200":      "--trusted-proxy",
	} {
		var out bytes.Buffer
		if status := run(context.Background(), strings.Fields(line), &out, &out); status == 0 || !strings.Contains(out.String(), want) {
			t.Errorf("hub %s: %d %q; want %s", line, status, &out, want)
		}
		out.Reset()
		args := strings.Fields("config check --url http://127.0.0.1:1/ --store pebble:" + t.TempDir() + " " + line)
		if status := run(context.Background(), args, &out, &out); status == 0 || !strings.Contains(out.String(), want) ||
			strings.Count(out.String(), "hub: "+strings.Fields(line)[0]) != 1 {
			t.Errorf("hub config check %s: %d %q; want %s, once", line, status, &out, want)
		}
	}
}

// A trusted network that any client may be in gets a warning.
func TestTrustingEverybody(t *testing.T) {
	t.Parallel()
	for network, warns := range map[string]bool{"0.0.0.0/0": true, "128.0.0.0/1": true, "::/0": true, "10.0.0.1": false, "10.0.0.0/8": false} {
		ended, end := context.WithCancel(t.Context())
		end()
		var out logText // it may be written to a little later
		args := []string{"--trusted-proxy", network, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir()}
		if status := run(ended, args, io.Discard, &out); status != 0 || strings.Contains(out.String(), "takes in everybody") != warns {
			t.Errorf("%s: %d %s; want a warning: %t", network, status, &out, warns)
		}
	}
}

// A variable that is no setting's is named at the start, and one that is read is not.
func TestMisspeltVariables(t *testing.T) {
	t.Setenv("HUB_PUBLISHER", "registered")
	t.Setenv(passwordVariable, "s3cret")
	t.Setenv("HUB_PUBLISHERS", "registered")
	var out bytes.Buffer
	status := run(context.Background(), []string{"--listen", "none", "--store", "pebble:" + t.TempDir()}, &out, &out)
	if text := out.String(); status == 0 || !strings.Contains(text, `"variables":"HUB_PUBLISHER"`) || strings.Contains(text, "s3cret") {
		t.Errorf("%d %s", status, text)
	}
}
