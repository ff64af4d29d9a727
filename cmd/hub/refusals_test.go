package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
)

// Every refusal to start is one line on stderr that names what to change, and a
// status that is not 0.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse := t.TempDir()
	startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+inUse)

	for name, test := range map[string]struct{ args, want string }{
		"unknown flag":          {"--lisen=x", "--lisen"},
		"public port taken":     {"--listen=" + taken.Addr().String(), "--listen " + taken.Addr().String()},
		"admin port taken":      {"--admin=" + taken.Addr().String(), "--admin " + taken.Addr().String()},
		"no such address":       {"--listen=300.1.1.1:1", "--listen"},
		"url not absolute":      {"--url=/websub/", "--url"},
		"url not http":          {"--url=ftp://hub.example/", "--url"},
		"url with a query":      {"--url=http://hub.example/?a=b", "--url"},
		"no url to be known by": {"--listen=0.0.0.0:0", "--url"},
		"empty address":         {"--admin=", "--admin is empty"},
		"unknown engine":        {"--store=paper:x", "--store paper:x"},
		"no directory":          {"--store=pebble:", "--store pebble:"},
		"directory in use":      {"--store=pebble:" + inUse, "another process"},
		"not a network":         {"--allow-net=10.0.0.0/99", "allow-net"},
		"no network at all":     {"--allow-net=", "--allow-net is empty"},
		"leases out of line":    {"--lease-min=400h", "--lease-min"},
		"lease of nothing":      {"--lease-min=0s", "--lease-min"},
		"retries out of line":   {"--retry-first=2h", "--retry-first"},
		"no time to retry":      {"--retry-for=-1h", "--retry-for"},
		"keep for no time":      {"--keep-at-least=4s", "--keep-at-least must be 5s or more"},
		"keep out of line":      {"--keep-for=4m", "--keep-for (4m0s) must not be shorter than --keep-at-least (5m0s)"},
		"keep no bytes":         {"--keep-bytes=10QB", "--keep-bytes"},
		"keep too few bytes":    {"--keep-bytes=999KB", "--keep-bytes must be 0 (no bound) or 1MB or more, not 999000 bytes"},
		"keep less than none":   {"--keep-bytes=-1", "--keep-bytes: \"-1\" is negative: "},
		"keep for less than no": {"--keep-for=-1h", "--keep-for must be 0 (no bound by age) or more, not -1h"},
		"no time to deliver":    {"--delivery-timeout=0s", "--delivery-timeout"},
		"no topic check":        {"--topic-check-ttl=0s", "--topic-check-ttl"},
		"no time for names":     {"--dns-ttl=0s", "--dns-ttl"},
		"no body":               {"--max-body=0", "--max-body"},
		"no room to keep any":   {"--connection-bytes=999KB", "--connection-bytes must be 1MB or more, not 999000 bytes"},
		"unknown room to keep":  {"--connection-bytes=many", "--connection-bytes: \"many\" is not a number of bytes"},
		"unknown key exchange":  {"--key-exchange=rsa", "--key-exchange"},
		"unknown signature":     {"--signature=md5", "--signature"},
		"signature for nobody":  {"--signature-for=sha1", "--signature-for"},
		"signature of no kind":  {"--signature-for=a.example=md5", "must be sha1, sha256, sha384 or sha512, as in hub.example.org=sha1"},
		"no such file":          {"--config=none.yaml", "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir(), test.args}
			code := run(context.Background(), args, &stdout, &stderr)
			if code == 0 || stdout.Len() > 0 {
				t.Errorf("status %d, stdout %q; want a failure and nothing there", code, &stdout)
			}
			if line := stderr.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, test.want) {
				t.Errorf("stderr is %q; want one line that names %q", line, test.want)
			}
		})
	}
}

// Everything that a refused start opened is closed again: the next start finds port and directory
// free.
func TestARefusalLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	port, dir := freePort(t), t.TempDir()
	args := func(extra string) []string {
		return []string{"--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--admin", "127.0.0.1:0", "--store", "pebble:" + dir, extra}
	}
	var out bytes.Buffer
	if code := run(context.Background(), args("--url=ftp://x/"), &out, &out); code == 0 {
		t.Fatal("it started")
	}
	startHub(t, args("--log-level=warn")...)
}
