package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testCertificate writes a certificate for 127.0.0.1 and its key to files, and returns a
// client that trusts it.
func testCertificate(t *testing.T) (cert, key string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, server.Client()
}

// Both listeners speak TLS, and the topic has an https address. Requests that a browser's page could
// be made to send to the intake are refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := testCertificate(t)
	hub := httptest.NewServer(&moodyHub{calm: true})
	defer hub.Close()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- runWith(ctx, []string{
			"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", t.TempDir(), "--hub", hub.URL,
			"--tls-cert", cert, "--tls-key", key, "--intake-tls-cert", cert, "--intake-tls-key", key,
		}, nil, in, &log)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	var listen, intake, url string
	if _, scan := fmt.Sscanf(line, "notifier ready listen=%s intake=%s url=%s", &listen, &intake, &url); scan != nil || url != "https://"+listen+"/" {
		t.Fatalf("the ready line is %q: %v\n%s", line, err, &log)
	}
	resp, err := client.Get(url + "default/change/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if link := resp.Header.Get("Link"); resp.StatusCode != http.StatusOK || !strings.Contains(link, "<"+url+"default/change/>; rel=\"self\"") {
		t.Errorf("the topic: %s, Link %s", resp.Status, link)
	}
	for origin, want := range map[string]int{"": http.StatusAccepted, "https://evil.example": http.StatusForbidden} {
		req, _ := http.NewRequest(
			http.MethodPost, "https://"+intake+"/sets/default/events",
			strings.NewReader(`{"loc": "http://a.example/", "change": "created"}`),
		)
		req.Header.Set("Content-Type", "application/json")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if resp, err = client.Do(req); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("events from %q: %s; want %d", origin, resp.Status, want)
		}
	}
	client.CloseIdleConnections()
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("status %d\n%s", status, &log)
	}
}
