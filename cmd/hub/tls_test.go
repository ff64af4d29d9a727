package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
)

// ready asks a hub as its health check does, and returns the exit status with all that was
// printed.
func ready(args ...string) (int, string) {
	var out bytes.Buffer
	status := run(context.Background(), append([]string{"ready"}, args...), &out, &out)
	return status, out.String()
}

// Both listeners speak TLS. Changed files apply while the hub runs, and /readyz reports wrong ones.
// The health check trusts the certificate that it is given.
func TestTLS(t *testing.T) {
	t.Parallel() // it waits, mostly
	public, operator := selfSigned(t), selfSigned(t)
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(),
		"--tls-cert", public+".crt", "--tls-key", public+".key",
		"--admin-tls-cert", operator+".crt", "--admin-tls-key", operator+".key")
	if !strings.HasPrefix(p.ready["url"], "https://127.0.0.1:") {
		t.Errorf("the hub is at %s", p.ready["url"])
	}
	if status, _, err := answer(trusting(t, public+".crt").Get(p.ready["url"])); err != nil || status != http.StatusOK {
		t.Errorf("the page: %d %v", status, err)
	}
	if status, text, err := answer(http.Get("http://" + p.ready["admin"] + "/readyz")); err != nil || status != http.StatusBadRequest {
		t.Errorf("plain HTTP: %d %q %v", status, text, err)
	}
	eventually(t, "readiness", func() bool {
		status, _ := ready("--admin", p.ready["admin"], "--admin-tls-cert", operator+".crt")
		return status == 0
	})
	if status, text := ready(
		"--admin", p.ready["admin"], "--admin-tls-cert", public+".crt",
	); status == 0 || !strings.Contains(text, "another certificate") {
		t.Errorf("with another's certificate: %d %q", status, text)
	}

	fresh := selfSigned(t)
	move(t, fresh+".crt", public+".crt")
	stale := func() bool {
		status, text := ready("--admin", p.ready["admin"], "--admin-tls-cert", operator+".crt")
		return status == 0 && strings.Contains(text, "warning: --tls-cert "+public+".crt") && strings.Contains(text, "does not match")
	}
	eventually(t, "the warning of a certificate without its key", stale)
	move(t, fresh+".key", public+".key")
	client := trusting(t, public+".crt")
	eventually(t, "the new certificate", func() bool {
		client.CloseIdleConnections()
		status, _, err := answer(client.Get(p.ready["url"]))
		return err == nil && status == http.StatusOK
	})
	if stale() {
		t.Error("the warning stands although the files are good")
	}
}

// Both flags, or none.
func TestTLSWithoutKey(t *testing.T) {
	t.Parallel()
	files := selfSigned(t)
	for _, flags := range [][]string{{"--tls-cert", files + ".crt"}, {"--admin-tls-key", files + ".key"}} {
		var out bytes.Buffer
		args := append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir()}, flags...)
		if status := run(context.Background(), args, &out, &out); status == 0 || !strings.Contains(
			out.String(), flags[0]+" is given without",
		) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %d %q", flags, status, &out)
		}
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
