package program_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"carillon/cmd/internal/program"
)

// memory is a listener without a network, for tests that own the time.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// dial connects from an address.
func (m *memory) dial(from string) net.Conn {
	client, server := net.Pipe()
	m.conns <- fromAddress{server, &net.TCPAddr{IP: net.ParseIP(from), Port: 1024}}
	return client
}

// fromAddress is a connection from an address.
type fromAddress struct {
	net.Conn
	remote net.Addr
}

func (c fromAddress) RemoteAddr() net.Addr { return c.remote }

// serving serves a handler on a memory until the test calls stop.
type serving struct {
	*memory
	listener *program.Listener
	log      *lines
	stop     func()
}

func serve(
	t *testing.T, e program.Endpoint, most, perClient int, handler http.HandlerFunc,
	prepare ...func(*program.Listener, *slog.Logger),
) *serving {
	t.Helper()
	s := &serving{memory: newMemory(), log: &lines{}}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	e.Flag, e.Logger = "listen", logger
	var err error
	if s.listener, err = program.Over(s.memory, e, most, perClient); err != nil {
		t.Fatal(err)
	}
	for _, do := range prepare {
		do(s.listener, logger)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- program.Serve(ctx, s.listener, handler, logger) }()
	s.stop = func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	return s
}

// lines is a log that may be read meanwhile.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// hello answers with a word, when it has read the body.
func hello(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	_, _ = io.WriteString(w, "hello")
}

// certificate is a certificate with its key, as PEM.
type certificate struct{ cert, key []byte }

// newCertificate makes one that began an hour ago.
func newCertificate(t *testing.T, until time.Time) certificate {
	t.Helper()
	return newCertificateFrom(t, time.Now().Add(-time.Hour), until)
}

// newCertificateFrom makes one for localhost.
func newCertificateFrom(t *testing.T, from, until time.Time) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: from, NotAfter: until,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// put writes both files into the directory.
func (c certificate) put(t *testing.T, dir string) program.TLS {
	t.Helper()
	files := program.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	putFile(t, files.Cert, c.cert)
	putFile(t, files.Key, c.key)
	return files
}

func putFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
