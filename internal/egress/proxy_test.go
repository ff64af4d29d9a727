package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http/httpproxy"

	"carillon/internal/egress"
	"carillon/internal/h1"
)

// proxy is one that answers CONNECT by making the connection to the address that its
// table has for the one that was asked for.
type proxy struct {
	*httptest.Server

	mu       sync.Mutex
	to       map[string]string
	asked    []string
	auth     string              // what it wants of Proxy-Authorization
	instead  func(conn net.Conn) // answers in its place
	requests []*http.Request
}

func newTestProxy(t *testing.T, secure bool) *proxy {
	p := &proxy{to: map[string]string{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	to, known := p.to[r.Host]
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.requests = append(p.requests, r)
	auth, instead := p.auth, p.instead
	p.mu.Unlock()
	switch {
	case instead != nil:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			instead(conn)
		}
	case auth != r.Header.Get("Proxy-Authorization"):
		w.Header().Set("Proxy-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
	case !known:
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "that is <b>forbidden</b>")
	default:
		p.join(w, to)
	}
}

// join makes the connection and carries what goes through.
func (p *proxy) join(w http.ResponseWriter, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	// Hijacked before the client has a reason to send more: nothing is read ahead.
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		out.Close()
		return
	}
	_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	go func() { _, _ = io.Copy(in, out); in.Close() }()
}

func (p *proxy) takeAsked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// dialerBy is a Dialer by the proxy, which trusts its certificate and asks no name server.
func dialerBy(t *testing.T, p *proxy, cfg egress.Config) *egress.Dialer {
	t.Helper()
	var err error
	if cfg.Proxy == nil {
		if cfg.Proxy, err = egress.NewProxy(p.URL); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.Names == nil {
		cfg.Names = newNameServer(t, zone{}.answer).names(t)
	}
	cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	if cert := p.Certificate(); cert != nil {
		cfg.TLS.RootCAs.AddCert(cert)
	}
	return newDialer(t, cfg)
}

// Both kinds of requests of a hub go by the proxy, to http and to https, by a proxy of http
// and of https, over one connection. The names are the proxy's to resolve.
func TestProxyCarriesAll(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %t %s", r.Host, r.URL, r.TLS != nil, body)
	})
	plain, secured := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secured.Close()
	for _, secureProxy := range []bool{false, true} {
		p := newTestProxy(t, secureProxy)
		// example.com is whom the certificate of httptest is for.
		p.to["example.com:80"], p.to["example.com:443"] = plain.Listener.Addr().String(), secured.Listener.Addr().String()
		server := newNameServer(t, zone{}.answer)
		d := dialerBy(t, p, egress.Config{Names: server.names(t)})
		d.TLSConfig().RootCAs.AddCert(secured.Certificate())
		for _, scheme := range []string{"http", "https"} {
			c := over(t, d)
			resp, err := (&http.Client{Transport: c}).Get(scheme + "://example.com/a?b")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := fmt.Sprintf("example.com /a?b %t ", scheme == "https"); string(body) != want {
				t.Errorf("%s: %q, want %q", scheme, body, want)
			}
			postTwice(t, c, scheme == "https")
			port := map[string]string{"http": "80", "https": "443"}[scheme]
			if asked := strings.Join(p.takeAsked(), ", "); asked != "CONNECT example.com:"+port {
				t.Errorf("the proxy was asked for %s", asked)
			}
		}
		if n := server.all(); n != 0 {
			t.Errorf("%d questions about names that are the proxy's to resolve", n)
		}
		for _, r := range p.requests {
			if r.Header.Get("User-Agent") != "" || r.Header.Get("Proxy-Authorization") != "" || len(r.Header) > 0 {
				t.Errorf("the proxy was told %v", r.Header)
			}
		}
	}
}

func postTwice(t *testing.T, c *h1.Client, secure bool) {
	t.Helper()
	message, err := h1.NewMessage([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		answer, err := c.Post(t.Context(), &h1.Request{Secure: secure, Authority: "example.com", Target: "/a", Message: message})
		if err != nil || answer.Status != http.StatusOK {
			t.Errorf("a Post: %+v, %v", answer, err)
		}
	}
}

// A request that can be judged before its name is resolved is judged, and the proxy never hears of it.
func TestProxyHearsOfNothingForbidden(t *testing.T) {
	p := newTestProxy(t, false)
	d := dialerBy(t, p, egress.Config{})
	for _, address := range []string{
		"127.0.0.1:80", "127.0.0.1.:80", "10.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "169.254.169.254:80", "[fe80::1%lo]:80",
		"localhost:80", "LOCALHOST.:80", "a.localhost:80", "127.1:80", "2130706433:80", "0x7f.1:80", "0177.0.0.1:80",
		"\uff11\uff12\uff17.0.0.1:80", "host.example:25", "host.example:6379", "host.example:0", ":80",
		"host.example\r\nX-Evil: y:80", "host.example /:80", "user@host.example:80",
	} {
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if conn != nil {
			conn.Close()
		}
		var noAddress *net.AddrError
		if !errors.Is(err, egress.ErrForbidden) && !errors.As(err, &noAddress) {
			t.Errorf("%q: %v, want ErrForbidden", address, err)
		}
	}
	if asked := p.takeAsked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

// In a trial loopback is this machine's, and not the proxy's.
func TestProxyDoesNotCarryLoopback(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	p := newTestProxy(t, false)
	d := dialerBy(t, p, egress.Config{AllowLoopback: true})
	resp, err := client(t, d).Get(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if asked := p.takeAsked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

// What NO_PROXY excepts is dialed and judged here.
func TestProxyExceptions(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	_, port, _ := net.SplitHostPort(target.Listener.Addr().String())
	p := newTestProxy(t, false)
	byEnvironment, err := egress.NewProxyFrom(
		&httpproxy.Config{HTTPProxy: p.Listener.Addr().String(), NoProxy: "inside.example, .other.example,10.0.0.0/8"},
	)
	if err != nil {
		t.Fatal(err)
	}
	server := newNameServer(t, zone{
		"a.inside.example.": {typeA: addresses(60, "127.0.0.1")},
		"b.other.example.":  {typeA: addresses(60, "127.0.0.2")},
	}.answer)
	d := dialerBy(t, p, egress.Config{Proxy: byEnvironment, Names: server.names(t), AllowNets: prefixes("127.0.0.1/32")})
	resp, err := client(t, d).Get("http://a.inside.example:" + port)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, address := range []string{"b.other.example:80", "10.1.2.3:80"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, egress.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if asked := p.takeAsked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
	if _, err := d.DialContext(t.Context(), "tcp", "outside.example:80"); !errors.Is(err, egress.ErrForbidden) || len(p.takeAsked()) != 1 {
		t.Errorf("what is not excepted: %v", err)
	}
}

func TestProxyCredentials(t *testing.T) {
	p := newTestProxy(t, false)
	p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte("user:s3cret/@"))
	p.to["host.example:80"] = p.Listener.Addr().String()
	for raw, works := range map[string]bool{"user:s3cret%2F%40@": true, "user:s3cret-wrong@": false, "": false} {
		named, err := egress.NewProxy(strings.Replace(p.URL, "://", "://"+raw, 1))
		if err != nil {
			t.Fatal(err)
		}
		d := dialerBy(t, p, egress.Config{Proxy: named})
		conn, err := d.DialContext(t.Context(), "tcp", "host.example:80")
		if conn != nil {
			conn.Close()
		}
		if (err == nil) != works {
			t.Errorf("%s: %v", raw, err)
		}
		if err != nil && (!errors.Is(err, egress.ErrProxy) || errors.Is(err, egress.ErrForbidden) || !strings.Contains(err.Error(), "407")) {
			t.Errorf("%s: %v, want ErrProxy that says 407", raw, err)
		}
		if text := fmt.Sprint(err, named, fmt.Sprintf("%s %v", named, named)); strings.Contains(text, "s3cret") || strings.Contains(text, "user") {
			t.Errorf("credentials are told: %s", text)
		}
	}
}

// Each way in which a proxy makes no connection, and what counts it.
func TestProxyMakesNoConnection(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			defer conn.Close()
			_, _ = io.WriteString(conn, text)
		}
	}
	for name, tt := range map[string]struct {
		instead   func(net.Conn)
		result    string
		forbidden bool
	}{
		"403":                         {says("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), "forbidden", true},
		"407 without a challenge":     {says("HTTP/1.1 407 Request rejected by proxy\r\n\r\n"), "forbidden", true},
		"407 with one":                {says("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n"), "credentials", false},
		"502":                         {says("HTTP/1.1 502 Bad Gateway\r\n\r\nwho is <b>s3cret</b>"), "refused", false},
		"302 to elsewhere":            {says("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n"), "refused", false},
		"an interim answer":           {says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), "refused", false},
		"something behind the answer": {says("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "refused", false},
		"no HTTP":                     {says("SSH-2.0-x\r\n\r\n"), "away", false},
		"nothing":                     {says(""), "away", false},
		"half a header":               {says("HTTP/1.1 200 OK\r\nX:"), "away", false},
		"a header without an end":     {endlessHeader, "away", false},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			metrics, err := egress.NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			p := newTestProxy(t, false)
			p.instead = tt.instead
			d := dialerBy(t, p, egress.Config{Metrics: metrics})
			conn, err := d.DialContext(t.Context(), "tcp", "host.example:80")
			if conn != nil {
				conn.Close()
			}
			var opErr *net.OpError
			if !errors.Is(err, egress.ErrProxy) || !errors.As(err, &opErr) || errors.Is(err, egress.ErrForbidden) != tt.forbidden {
				t.Errorf("%v; want ErrProxy, forbidden %t", err, tt.forbidden)
			}
			if strings.Contains(fmt.Sprint(err), "s3cret") {
				t.Errorf("what the proxy wrote is repeated: %v", err)
			}
			var want strings.Builder
			want.WriteString(
				"# HELP carillon_egress_proxy_connects_total Connections that the proxy was asked for, by result: connected, not allowed (forbidden), it wants other credentials, it could not make one (refused), it is away.\n# TYPE carillon_egress_proxy_connects_total counter\n",
			)
			for _, result := range []string{"away", "connected", "credentials", "forbidden", "refused"} {
				n := 0
				if result == tt.result {
					n = 1
				}
				fmt.Fprintf(&want, "carillon_egress_proxy_connects_total{result=%q} %d\n", result, n)
			}
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String()), "carillon_egress_proxy_connects_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

func endlessHeader(conn net.Conn) {
	defer conn.Close()
	w := bufio.NewWriter(conn)
	_, err := w.WriteString("HTTP/1.1 200 OK\r\n")
	for err == nil {
		_, err = w.WriteString("X-Long: " + strings.Repeat("x", 1000) + "\r\n")
	}
}

// A proxy that hangs, before TLS or before its answer, is given up in time, and when its
// asker gives up. The connection is closed then.
func TestProxyHangs(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		ln, accepted, closed := hangingServer(t)
		named, err := egress.NewProxy(scheme + "://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		patient := newDialer(t, egress.Config{Proxy: named, DialTimeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-accepted; cancel() }()
		if _, err := patient.DialContext(ctx, "tcp", "host.example:80"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the asker's own end", scheme, err)
		}
		<-closed
		hasty := newDialer(t, egress.Config{Proxy: named, DialTimeout: 50 * time.Millisecond})
		if _, err := hasty.DialContext(t.Context(), "tcp", "host.example:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a deadline", scheme, err)
		}
	}
}

// hangingServer accepts connections and answers nothing. It reports each that came, and that the other
// side closed.
func hangingServer(t *testing.T) (ln net.Listener, accepted, closed chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, closed = make(chan struct{}, 8), make(chan struct{}, 8)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
			closed <- struct{}{}
		}
	}()
	return ln, accepted, closed
}

func TestProxyAway(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	named, err := egress.NewProxy("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := newDialer(t, egress.Config{Proxy: named})
	if _, err := d.DialContext(t.Context(), "tcp", "host.example:80"); !errors.Is(err, egress.ErrProxy) || errors.Is(err, egress.ErrForbidden) {
		t.Errorf("%v, want ErrProxy", err)
	}
}

// A proxy that is away, or wants other credentials, is logged, once in a while, and as a warning until
// it works again. Its refusals are no trouble of its own, and neither is an abandoned connection.
func TestProxyTrouble(t *testing.T) {
	p := newTestProxy(t, false)
	p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte("user:s3cret"))
	p.to["host.example:80"] = p.Listener.Addr().String()
	named, err := egress.NewProxy(strings.Replace(p.URL, "://", "://user:s3cret-wrong@", 1))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	named.Log(slog.New(slog.NewTextHandler(&log, nil)))
	d := dialerBy(t, p, egress.Config{Proxy: named})
	dial := func(ctx context.Context) {
		t.Helper()
		if conn, _ := d.DialContext(ctx, "tcp", "host.example:80"); conn != nil {
			conn.Close()
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	dial(gone)
	for range 2 {
		dial(t.Context())
	}
	if named.Warning() != "" || log.Len() > 0 {
		t.Errorf("told of after two: %q, %s", named.Warning(), &log)
	}
	for range 3 {
		dial(t.Context())
	}
	if told := named.Warning(); !strings.Contains(told, "the last 5 connections") || !strings.Contains(told, "credentials") {
		t.Errorf("the warning is %q", told)
	}
	if strings.Count(log.String(), "level=WARN") != 1 || strings.Contains(log.String()+named.Warning(), "s3cret") {
		t.Errorf("the log has\n%s", &log)
	}
	p.mu.Lock()
	p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte("user:s3cret-wrong"))
	p.mu.Unlock()
	dial(t.Context())
	if told := named.Warning(); told != "" {
		t.Errorf("the warning stands: %q", told)
	}
	var none *egress.Proxy
	if none.Log(slog.Default()); none.Warning() != "" {
		t.Error("no proxy, and a warning")
	}
}

// A proxy of https must show a certificate for its name.
func TestProxyCertificate(t *testing.T) {
	p := newTestProxy(t, true)
	named, err := egress.NewProxy(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	d := newDialer(t, egress.Config{Proxy: named})
	var invalid *tls.CertificateVerificationError
	if _, err := d.DialContext(t.Context(), "tcp", "host.example:80"); !errors.As(err, &invalid) {
		t.Errorf("%v, want that its certificate is of nobody", err)
	}
	if asked := p.takeAsked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

func TestNewProxy(t *testing.T) {
	for raw, want := range map[string]string{
		"http://proxy.example":               "http://proxy.example:80",
		"HTTPS://proxy.example/":             "https://proxy.example:443",
		"http://user:s3cret@10.0.0.1:3128":   "http://10.0.0.1:3128",
		"http://user@[fd00::1]:3128":         "http://[fd00::1]:3128",
		"http://localhost:8888":              "http://localhost:8888",
		"":                                   "",
		"proxy.example:3128":                 "",
		"socks5://s3cret@proxy.example":      "",
		"http://":                            "",
		"http://user:s3cret@":                "",
		"http://user:s3%cret@proxy.example/": "",
		"http://user:s3cret@proxy.example:0": "",
		"http://user:s3cret@127.1:80":        "",
		"http://s3cret@proxy.example/path":   "",
		"http://s3cret@proxy.example?a":      "",
		"http://s3cret@proxy.example#a":      "",
		"http://user:s3cret@proxy ex:80":     "",
	} {
		p, err := egress.NewProxy(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was taken", raw)
		case want == "" && strings.Contains(err.Error(), "cret"):
			t.Errorf("%q: the error tells the password: %v", raw, err)
		case want != "" && (err != nil || p.String() != want):
			t.Errorf("%q: %v, %v, want %s", raw, p, err, want)
		}
	}
}

func TestNewProxyFrom(t *testing.T) {
	for name, tt := range map[string]struct {
		env  httpproxy.Config
		want string
	}{
		"both, the same": {httpproxy.Config{HTTPProxy: "http://p.example:1", HTTPSProxy: "http://p.example:1"}, "http://p.example:1"},
		"one":            {httpproxy.Config{HTTPProxy: "p.example:3128"}, "http://p.example:3128"},
		"the other":      {httpproxy.Config{HTTPSProxy: "https://p.example"}, "https://p.example:443"},
		"two":            {httpproxy.Config{HTTPProxy: "http://p.example:1", HTTPSProxy: "http://q.example:1"}, ""},
		"none":           {httpproxy.Config{NoProxy: "*"}, ""},
	} {
		p, err := egress.NewProxyFrom(&tt.env)
		if (err == nil) != (tt.want != "") || err == nil && p.String() != tt.want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}
