package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// tlsHosts are the addresses of 127.0.0.0/8, each a host of its own with https: they share
// one listener, but none has the certificate of another.
type tlsHosts struct {
	port   string
	sink   *sink
	issuer tls.Certificate

	mu     sync.Mutex
	issued map[string]*tls.Certificate // by address
}

// newTLSHosts starts hosts whose callbacks are those of the sink: a callback's name there is
// its address. Processes that are started from then on trust them, and no others.
func newTLSHosts(t *testing.T, s *sink) *tlsHosts {
	t.Helper()
	files := selfSigned(t)
	h := &tlsHosts{sink: s, issued: map[string]*tls.Certificate{}}
	var err error
	if h.issuer, err = tls.LoadX509KeyPair(files+".crt", files+".key"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", files+".crt")
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, h.port, _ = net.SplitHostPort(ln.Addr().String())
	server := &http.Server{Handler: h, TLSConfig: &tls.Config{GetCertificate: h.certificate}, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(ln, "", "") })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return h
}

// address is that of a host by its number.
func (*tlsHosts) address(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250) }

func (h *tlsHosts) url(i int) string { return "https://" + h.address(i) + ":" + h.port + "/" }

func (h *tlsHosts) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ip := hello.Conn.LocalAddr().(*net.TCPAddr).IP
	if !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is not a host of this test", ip)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if made := h.issued[ip.String()]; made != nil {
		return made, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(h.issued) + 1)), IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, h.issuer.Leaf, h.issuer.Leaf.PublicKey, h.issuer.PrivateKey)
	if err != nil {
		return nil, err
	}
	made := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: h.issuer.PrivateKey}
	h.issued[ip.String()] = made
	return made, nil
}

// ServeHTTP answers as the callback of the sink that is named by the host's address.
func (h *tlsHosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := net.SplitHostPort(r.Host)
	r.SetPathValue("name", name)
	if r.Method == http.MethodGet {
		h.sink.confirm(w, r)
		return
	}
	h.sink.accept(w, r)
}

// A hub that may open few files delivers to more hosts by https than that, and no attempt
// fails: neither connections nor sessions of so many are kept.
func TestFewFilesManyTLSHosts(t *testing.T) {
	cases := map[int]int{256: 400, 1024: 1100}
	if slowness > 1 {
		delete(cases, 1024) // more hosts than that take long, and fewer show nothing
	}
	for files, n := range cases {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			s := newSink(t)
			hosts := newTLSHosts(t, s)
			each := func(done func(name string) bool) func() bool {
				return func() bool {
					for i := range n {
						if !done(hosts.address(i)) {
							return false
						}
					}
					return true
				}
			}
			topic := s.topicURL(fmt.Sprint("files", files))
			p := startHubBy(t, fewFiles(files), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
				"--store", "pebble:"+t.TempDir(), "--retry-first", "100ms", "--retry-max", "1s")
			hub := p.ready["url"]
			s.setHub(hub, 0)
			next := make(chan int)
			var subscribers sync.WaitGroup
			for range 8 {
				subscribers.Go(func() {
					for i := range next {
						persist(t, "subscribing", func() (int, string, error) {
							return subscribe(hub, topic, hosts.url(i), nil)
						}, http.StatusAccepted)
					}
				})
			}
			for i := range n {
				next <- i
			}
			close(next)
			subscribers.Wait()
			s.await(t, "the verifications", each(func(name string) bool { return s.verified[name] > 0 }))
			for round := range 2 {
				body := fmt.Sprintf("round %d of %d files", round, files)
				persist(t, "publishing", func() (int, string, error) { return publish(hub, topic, "text/plain", body) }, http.StatusOK)
				s.await(t, body, each(func(name string) bool { return s.has(name, body) }))
			}
			eventually(t, "the count of what was delivered", func() bool {
				_, text := look(p.ready["admin"], "/metrics")
				return strings.Contains(text, fmt.Sprintf("carillon_delivery_attempts_total{class=\"delivered\"} %d\n", 2*n))
			})
			_, text := look(p.ready["admin"], "/metrics")
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "carillon_delivery_attempts_total{") &&
					!strings.Contains(line, `"delivered"`) && !strings.HasSuffix(line, " 0\n") {
					t.Error("an attempt failed:", line)
				}
			}
			if err := p.stop(t); err != nil {
				t.Errorf("it ended with %v\n%s", err, p.log)
			}
		})
	}
}
