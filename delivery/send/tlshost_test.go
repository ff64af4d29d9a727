package send_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/internal/egress"
)

// authority signs the certificates of a test's hosts.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// chain leads from what the authority signs to the root, both excluded.
	chain [][]byte
}

// never is later than any test's clock.
var never = time.Now().AddDate(20, 0, 0)

func newAuthority(t testing.TB) *authority {
	t.Helper()
	return new(authority).intermediate(t, "the root", never)
}

// intermediate returns an authority that a signed and that expires at until. The zero
// authority makes a root.
func (a *authority) intermediate(t testing.TB, name string, until time.Time) *authority {
	t.Helper()
	key := newKey(t)
	der := a.sign(t, key, key.Public(), &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	made := &authority{cert: cert, key: key}
	if a.cert != nil {
		made.chain = append([][]byte{der}, a.chain...)
	}
	return made
}

// issue returns a certificate for names and addresses, with the chain to the root.
func (a *authority) issue(t testing.TB, until time.Time, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.issueFor(t, template)
}

// issueNamed returns a certificate for names, also where they look like addresses.
func (a *authority) issueNamed(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	return a.issueFor(t, &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotAfter: never})
}

func (a *authority) issueFor(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der := a.sign(t, key, key.Public(), template)
	return tls.Certificate{Certificate: append([][]byte{der}, a.chain...), PrivateKey: key}
}

// sign returns the certificate of a public key. The zero authority signs with own.
func (a *authority) sign(t testing.TB, own *ecdsa.PrivateKey, public any, template *x509.Certificate) []byte {
	t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	parent, key := a.cert, a.key
	if parent == nil {
		parent, key = template, own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tlsHost is a server of https callbacks. It serves each connection by the function and
// the configuration that are set when the connection comes in.
type tlsHost struct {
	address, port string

	mu     sync.Mutex // guards everything below, and the fields of visits
	cfg    *tls.Config
	serve  func(*visit)
	visits []*visit
}

// visit is one connection to a tlsHost. It reads and writes below TLS, its field tls above.
type visit struct {
	net.Conn
	config *tls.Config
	tls    *tls.Conn
	in     *bufio.Reader // of tls
	shaken chan struct{} // closed when the handshake has succeeded or failed
	over   chan struct{} // closed when the host is done with the connection
	mu     *sync.Mutex
	// Guarded by mu:
	failed   error
	resumed  bool
	requests int
}

// newTLSHost starts a host that answers every delivery with 204.
func newTLSHost(t testing.TB, cfg *tls.Config) *tlsHost {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &tlsHost{address: ln.Addr().String(), cfg: cfg, serve: (*visit).answer}
	_, h.port, _ = net.SplitHostPort(h.address)
	var ending sync.WaitGroup
	ending.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			v := h.admit(nc)
			serve := h.serving()
			ending.Go(func() {
				defer close(v.over)
				defer nc.Close()
				serve(v)
				v.settle(io.ErrUnexpectedEOF)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		for _, v := range h.all() {
			_ = v.Close()
		}
		ending.Wait()
	})
	return h
}

func (h *tlsHost) admit(nc net.Conn) *visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &visit{
		Conn: nc, config: h.cfg, mu: &h.mu,
		shaken: make(chan struct{}), over: make(chan struct{}),
	}
	v.secure(nc, h.cfg)
	h.visits = append(h.visits, v)
	return v
}

func (h *tlsHost) serving() func(*visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.serve
}

func (h *tlsHost) all() []*visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*visit(nil), h.visits...)
}

// change has the host serve later connections in another way. Nil leaves what is set.
func (h *tlsHost) change(cfg *tls.Config, serve func(*visit)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cfg != nil {
		h.cfg = cfg
	}
	if serve != nil {
		h.serve = serve
	}
}

// history lists the connections in the order of their arrival: "full 2" completed a full
// handshake and carried two requests, "resumed 1" resumed a session, "refused" completed no
// handshake and so carried nothing.
func (h *tlsHost) history() string {
	var list []string
	for _, v := range h.all() {
		<-v.shaken
		h.mu.Lock()
		switch {
		case v.failed != nil:
			list = append(list, "refused")
		case v.resumed:
			list = append(list, fmt.Sprint("resumed ", v.requests))
		default:
			list = append(list, fmt.Sprint("full ", v.requests))
		}
		h.mu.Unlock()
	}
	return strings.Join(list, ", ")
}

// requests is how many requests came in all.
func (h *tlsHost) requests() (n int) {
	for _, v := range h.all() {
		h.mu.Lock()
		n += v.requests
		h.mu.Unlock()
	}
	return n
}

// empty waits until the hub has closed every connection.
func (h *tlsHost) empty() {
	for _, v := range h.all() {
		<-v.over
	}
}

// url is a callback at the host by a name.
func (h *tlsHost) url(name string) string { return "https://" + net.JoinHostPort(name, h.port) + "/cb" }

// secure has the visit speak TLS over a connection.
func (v *visit) secure(nc net.Conn, cfg *tls.Config) {
	v.tls = tls.Server(nc, cfg)
	v.in = bufio.NewReader(v.tls)
}

// handshake completes the handshake, or reads on until the client has closed: so no alert
// of either side is lost by a reset.
func (v *visit) handshake() bool {
	err := v.tls.Handshake()
	v.settle(err)
	if err != nil {
		v.drain()
	}
	return err == nil
}

// settle records the outcome of the handshake. Only the first call counts.
func (v *visit) settle(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.shaken:
		return
	default:
	}
	v.failed = err
	v.resumed = err == nil && v.tls.ConnectionState().DidResume
	close(v.shaken)
}

// drain reads below TLS until the client has closed.
func (v *visit) drain() { _, _ = io.Copy(io.Discard, v.Conn) }

// take reads a request.
func (v *visit) take() bool {
	if !v.handshake() {
		return false
	}
	req, err := http.ReadRequest(v.in)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	v.mu.Lock()
	v.requests++
	v.mu.Unlock()
	return true
}

// say writes text above TLS.
func (v *visit) say(text string) { _, _ = io.WriteString(v.tls, text) }

const (
	ok204   = "HTTP/1.1 204 No Content\r\n\r\n"
	gone410 = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
)

// answer answers each request.
func (v *visit) answer() {
	for v.take() {
		v.say(ok204)
	}
}

// closeTLS closes with the farewell of TLS, closeTCP without it.
func (v *visit) closeTLS() { _ = v.tls.Close() }
func (v *visit) closeTCP() { _ = v.Close() }

// reset breaks the connection off.
func (v *visit) reset() {
	_ = v.Conn.(*net.TCPConn).SetLinger(0)
	_ = v.Close()
}

// write writes bytes below TLS.
func (v *visit) write(b []byte) { _, _ = v.Write(b) }

// readRecord reads a record of TLS, such as the one that begins a handshake.
func (v *visit) readRecord() {
	header := make([]byte, 5)
	if _, err := io.ReadFull(v.Conn, header); err == nil {
		_, _ = io.CopyN(io.Discard, v.Conn, int64(header[3])<<8|int64(header[4]))
	}
}

// record is a record of TLS before there is encryption.
func record(kind byte, data ...byte) []byte {
	return append([]byte{kind, 3, 3, byte(len(data) >> 8), byte(len(data))}, data...)
}

// hello12 is how a server begins TLS 1.2, in a record.
func hello12(suite uint16, extensions string) []byte {
	hello := append([]byte{3, 3}, make([]byte, 32)...)
	hello = append(hello, 0, byte(suite>>8), byte(suite), 0, byte(len(extensions)>>8), byte(len(extensions)))
	hello = append(hello, extensions...)
	return record(22, append([]byte{2, 0, byte(len(hello) >> 8), byte(len(hello))}, hello...)...)
}

// world is a host, and a sender that reaches it by every name and trusts its authority.
type world struct {
	*tlsHost
	authority *authority
	sender    *send.HTTPSender
	// clock is how far the sender's and the host's time is ahead. It is set between requests.
	clock  atomic.Int64                // nanoseconds
	dialed atomic.Pointer[net.TCPConn] // by the sender, last
	dead   chan bool                   // the sender dials a dead host
}

// deadName begins the names of hosts that do not answer at all.
const deadName = "dead"

// worldConfig is what differs from one world to another. Its zero value is a good setting.
type worldConfig struct {
	host   *tls.Config   // the world sets the time, and a missing certificate
	within time.Duration // what an attempt may take
	// handshake is what dialing, and the handshake after it, may take each.
	handshake time.Duration
}

// newWorld returns a world whose host has a certificate for names.
func newWorld(t testing.TB, cfg worldConfig, names ...string) *world {
	t.Helper()
	w := &world{authority: newAuthority(t), dead: make(chan bool)}
	host := cfg.host
	if host == nil {
		host = &tls.Config{}
	}
	host.Time = w.now
	host.Certificates = []tls.Certificate{w.authority.issue(t, never, names...)}
	w.tlsHost = newTLSHost(t, host)
	dialer := outletOf(t, egress.Config{
		AllowLoopback: true, DialTimeout: cfg.handshake,
		TLS: &tls.Config{RootCAs: w.authority.roots(), Time: w.now},
	})
	limits := send.Limits{HandshakeTimeout: cfg.handshake}
	w.sender = newSender(t, send.Config{
		DeliveryTimeout: cfg.within, Limits: limits,
	}, dialing{dialer, func(ctx context.Context, address string) (net.Conn, error) {
		name, port, _ := net.SplitHostPort(address)
		if strings.HasPrefix(name, deadName) {
			w.dead <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if net.ParseIP(name) == nil {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		nc, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			w.dialed.Store(nc.(*net.TCPConn))
		}
		return nc, err
	}})
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) }

// deliver makes an attempt on a callback at the host by a name.
func (w *world) deliver(t testing.TB, name string) send.Outcome {
	t.Helper()
	return w.sender.Send(t.Context(), attemptOn(w.url(name), "s3cret"))
}

// expect makes an attempt and compares the class of its outcome.
func (w *world) expect(t testing.TB, what, name string, want delivery.Class) {
	t.Helper()
	if out := w.deliver(t, name); out.Class != want || (out.Err == nil) != (want == delivery.ClassDelivered) {
		t.Errorf("%s: got %s (%d, %v), want %s", what, out.Class, out.Status, out.Err, want)
	}
}

// reconnect has the sender open a new connection for its next request.
func (w *world) reconnect() { w.sender.CloseIdleConnections() }

// recovers checks that the host can be delivered to after what came before. Where an attempt
// has little time, a busy machine may need several.
func (w *world) recovers(t testing.TB, name string) {
	t.Helper()
	w.change(nil, (*visit).answer)
	out := w.deliver(t, name)
	for range 20 {
		if out.Class == delivery.ClassTimeout {
			out = w.deliver(t, name)
		}
	}
	equal(t, "class afterwards", out.Class, delivery.ClassDelivered)
}
