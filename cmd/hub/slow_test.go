package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowEach is how many slow clients of each kind there are at a time: 500.
const slowEach = 500 / slowness

// maxPerSlow bounds what the hub holds for a slow client, bytes: the stack of its
// goroutine, the buffers of net/http and of TLS, and the least part of a body; and what the race
// detector has beside them.
const maxPerSlow = slowness * (128 << 10)

// slowKinds are what slow clients send at first, and then a byte now and then.
var slowKinds = []struct {
	name, first string
	handshake   bool // the bytes come before TLS
	reads       bool // it takes a byte of the answers now and then, in place of sending one
}{
	{"trickle the header", "GET /websub/ HTTP/1.1\r\nHost: localhost\r\nX: ", false, false},
	{"trickle the body", post + "Content-Length: 100000\r\n\r\n", false, false},
	{"hardly read the answer", strings.Repeat("GET /websub/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 50), false, true},
	{"keep the connection", "", false, true}, // and have had an answer
	{"trickle the handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", true, false},
}

// A publication and a subscription go through while 2,500 clients are slow at the same time,
// over TLS, and what they cost is given back when they are gone.
func TestSlowClientsBesideHealthyOnes(t *testing.T) {
	t.Parallel()
	files := selfSigned(t)
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(),
		"--tls-cert", files+".crt", "--tls-key", files+".key")
	client := trusting(t, files+".crt")
	hosts := newSink(t)
	hosts.setHub(p.ready["url"], 0)
	healthy := func(round int) {
		t.Helper()
		began := time.Now()
		name := fmt.Sprint("healthy", round)
		form := "hub.mode=subscribe&hub.topic=" + hosts.topicURL(name) + "&hub.callback=" + hosts.callbackURL(name)
		status, text, err := answer(client.Post(p.ready["url"], "application/x-www-form-urlencoded", strings.NewReader(form)))
		if err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %q %v", status, text, err)
		}
		hosts.await(t, "the verification", func() bool { return hosts.verified[name] > 0 })
		eventually(t, "the delivery", func() bool {
			req, _ := http.NewRequest(http.MethodPost, p.ready["url"], strings.NewReader(name))
			req.Header.Set("Content-Type", "text/plain")
			req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, hosts.topicURL(name), p.ready["url"]))
			if status, text, err := answer(client.Do(req)); err != nil || status != http.StatusOK {
				t.Fatalf("publishing: %d %q %v", status, text, err)
			}
			return hosts.count(name) > 0
		})
		t.Logf("round %d: subscribed, published and delivered in %s", round, time.Since(began).Round(time.Millisecond))
	}
	healthy(0)
	before := p.gauges(t)
	conns := slowClients(t, p.ready["listen"])
	for round := 1; round <= 3; round++ {
		for _, c := range conns {
			c.step()
		}
		healthy(round)
	}
	during := p.gauges(t)
	each := (during["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]) / float64(len(conns))
	t.Logf("%d slow clients: %.0f goroutines, %.0f KiB of memory for each", len(conns), during["go_goroutines"]-before["go_goroutines"], each/1024)
	if each > maxPerSlow {
		t.Errorf("a slow client costs %.0f bytes; at most %d are right", each, maxPerSlow)
	}
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "the end of the slow clients", func() bool {
		after := p.gauges(t)
		return after["go_goroutines"] < before["go_goroutines"]+50 && after[`carillon_server_connections{listener="public"}`] < 10
	})
	if strings.Count(p.log.String(), "\n") > 20 {
		t.Errorf("they fill the log:\n%s", p.log)
	}
}

// slowClient is one slow client.
type slowClient struct {
	net.Conn
	reads bool
}

// step has it send or take a byte. Whether the hub still wants it does not matter.
func (c slowClient) step() {
	if c.reads {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Microsecond))
		_, _ = c.Read(make([]byte, 1))
		return
	}
	_, _ = c.Write([]byte("x"))
}

// slowClients connects slowEach clients of each kind.
func slowClients(t *testing.T, address string) []slowClient {
	t.Helper()
	all := make([]slowClient, slowEach*len(slowKinds))
	var group sync.WaitGroup
	few := make(chan struct{}, 50) // as many as may connect at a time
	for i := range all {
		kind := slowKinds[i%len(slowKinds)]
		few <- struct{}{}
		group.Go(func() {
			defer func() { <-few }()
			raw, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = slowClient{raw, kind.reads}
			if !kind.handshake {
				all[i].Conn = tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
			}
			first := kind.first
			if kind.name == "keep the connection" {
				first = "HEAD /websub/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
			}
			if _, err := io.WriteString(all[i], first); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return all
}

// gauges reads the metrics without labels, and those of the public listener.
func (p *process) gauges(t *testing.T) map[string]float64 {
	t.Helper()
	_, text := look(p.ready["admin"], "/metrics")
	all := map[string]float64{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

// selfSigned makes a certificate for 127.0.0.1; its files are the name and .crt and .key.
func selfSigned(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "tls")
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: cert},
		name + ".key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// trusting is a client that trusts the certificate in the file.
func trusting(t *testing.T, file string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in " + file)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}
