package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// The callback may be https, by the destination's own means.
func TestTLS(t *testing.T) {
	t.Parallel()
	var topic string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "<"+topic+">; rel=self, <"+topic+"hub>; rel=hub")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	topic = server.URL + "/"

	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer trusted.Close()
	pair := trusted.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--topic", topic, "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--tls-cert", cert, "--tls-key", key)
	ready := p.line()
	var address, base string
	if _, err := fmt.Sscanf(ready, "destination ready listen=%s url=%s", &address, &base); err != nil || base != "https://"+address+"/" {
		t.Errorf("the first line is %q: %v", ready, err)
	}
	resp, err := trusted.Client().Get(base)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("what is no callback: %s", resp.Status)
	}
	p.end()
}
