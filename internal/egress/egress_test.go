package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
	"carillon/internal/h1"
)

func newDialer(t *testing.T, cfg egress.Config) *egress.Dialer {
	t.Helper()
	d, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func prefixes(cidrs ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, c := range cidrs {
		ps = append(ps, netip.MustParsePrefix(c))
	}
	return ps
}

// Each refused address is really dialed; the refusal comes before a packet leaves.
func TestDialRefuses(t *testing.T) {
	addresses := map[string]string{
		"loopback":               "127.0.0.1:80",
		"loopback, other":        "127.255.255.254:80",
		"loopback, IPv6":         "[::1]:80",
		"IPv4-mapped loopback":   "[::ffff:127.0.0.1]:80",
		"IPv4-mapped private":    "[::ffff:10.0.0.1]:80",
		"IPv4-compatible":        "[::127.0.0.1]:80",
		"unspecified":            "0.0.0.0:80",
		"unspecified, IPv6":      "[::]:80",
		"private, class A":       "10.1.2.3:80",
		"private, class B":       "172.31.0.1:443",
		"private, class C":       "192.168.1.1:8080",
		"shared address space":   "100.64.0.1:80",
		"link-local, metadata":   "169.254.169.254:80",
		"link-local, IPv6":       "[fe80::1]:80",
		"unique local":           "[fd00::1]:80",
		"multicast":              "224.0.0.1:80",
		"multicast, IPv6":        "[ff02::1]:80",
		"reserved":               "240.0.0.1:80",
		"broadcast":              "255.255.255.255:80",
		"documentation":          "192.0.2.1:80",
		"documentation, second":  "198.51.100.1:80",
		"documentation, third":   "203.0.113.1:80",
		"documentation, IPv6":    "[2001:db8::1]:80",
		"benchmarking":           "198.18.0.1:80",
		"NAT64 of loopback":      "[64:ff9b::7f00:1]:80",
		"NAT64, local":           "[64:ff9b:1::a00:1]:80",
		"6to4 of private":        "[2002:a00:1::]:80",
		"Teredo":                 "[2001::1]:80",
		"site-local, deprecated": "[fec0::1]:80",
	}
	d := newDialer(t, egress.Config{})
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			for _, network := range []string{"tcp", "tcp4", "tcp6"} {
				conn, err := d.DialContext(t.Context(), network, address)
				if err == nil {
					conn.Close()
					t.Fatalf("%s %s was dialed", network, address)
				}
				// An address of the other family fails before anyone is asked.
				var wrongFamily *net.AddrError
				if !errors.Is(err, egress.ErrForbidden) && (network == "tcp" || !errors.As(err, &wrongFamily)) {
					t.Errorf("%s %s: %v, want ErrForbidden", network, address, err)
				}
			}
		})
	}
}

func TestDialAllows(t *testing.T) {
	tests := []struct {
		name    string
		cfg     egress.Config
		address string
		allowed bool
	}{
		{"loopback", egress.Config{AllowLoopback: true}, "127.0.0.1", true},
		{"loopback elsewhere in its net", egress.Config{AllowLoopback: true}, "127.1.2.3", true},
		{"loopback, IPv6", egress.Config{AllowLoopback: true}, "::1", true},
		{"loopback, IPv4-mapped", egress.Config{AllowLoopback: true}, "::ffff:127.0.0.1", true},
		{"loopback only", egress.Config{AllowLoopback: true}, "10.0.0.1", false},
		{"loopback is not the unspecified", egress.Config{AllowLoopback: true}, "0.0.0.0", false},
		{"a network", egress.Config{AllowNets: prefixes("127.0.0.0/30")}, "127.0.0.1", true},
		{"a network's neighbour", egress.Config{AllowNets: prefixes("127.0.0.0/30")}, "127.0.0.4", false},
		{"a network not masked", egress.Config{AllowNets: prefixes("127.0.0.3/30")}, "127.0.0.1", true},
		{"a network, IPv4-mapped", egress.Config{AllowNets: prefixes("::ffff:127.0.0.0/104")}, "127.0.0.1", true},
		{"a network, IPv6", egress.Config{AllowNets: prefixes("::1/128")}, "::1", true},
		{"several networks", egress.Config{AllowNets: prefixes("10.0.0.0/8", "127.0.0.0/8")}, "127.0.0.1", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDialer(t, tt.cfg)
			// Nothing listens on port 1024: a dial that may be made is refused by
			// the machine, not by us.
			conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(tt.address, "1024"))
			if err == nil {
				conn.Close()
			}
			if forbidden := errors.Is(err, egress.ErrForbidden); forbidden == tt.allowed {
				t.Errorf("dialing %s: %v; want allowed %v", tt.address, err, tt.allowed)
			}
		})
	}
}

// over returns the client that the hub's requests are made by, over the dialer.
func over(t *testing.T, d *egress.Dialer) *h1.Client {
	t.Helper()
	c, err := h1.New(h1.Config{
		Dial: d.DialContext, TLS: d.TLSConfig(), Timeout: time.Minute, MaxHeaderBytes: 4 << 10,
		MaxConnsPerHost: 2, IdlePerHost: 2, MaxConns: 2, IdleBytes: 1 << 20, SessionBytes: 1 << 20, IdleTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// client is an http.Client over the dialer.
func client(t *testing.T, d *egress.Dialer) *http.Client {
	t.Helper()
	return &http.Client{Transport: over(t, d), Timeout: time.Minute}
}

func TestForbiddenThroughClient(t *testing.T) {
	client := client(t, newDialer(t, egress.Config{}))
	resp, err := client.Get("http://127.0.0.1/")
	if err == nil {
		resp.Body.Close()
	}
	var urlError *url.Error
	if !errors.Is(err, egress.ErrForbidden) || !errors.As(err, &urlError) {
		t.Errorf("%v, want ErrForbidden in a *url.Error", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]egress.Config{
		"invalid network": {AllowNets: []netip.Prefix{{}}},
		"negative limit":  {DialTimeout: -1},
		"no port":         {AllowPorts: []egress.PortRange{{}}},
		"ports backwards": {AllowPorts: []egress.PortRange{{First: 2, Last: 1}}},
	} {
		if _, err := egress.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestClientFollowsNoRedirect(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Error("the redirect was followed")
		}
		if enc := r.Header.Get("Accept-Encoding"); enc != "" {
			t.Errorf("compression was asked for: %s", enc)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	d := newDialer(t, egress.Config{AllowLoopback: true})
	req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := over(t, d).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || resp.Header.Get("Location") != "/elsewhere" {
		t.Errorf("got %s, want the redirect itself", resp.Status)
	}
}

// A proxy of the environment would be dialed in our place.
func TestClientUsesNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy was asked for %s", r.URL)
	}))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	server := newNameServer(t, zone{}.answer)
	client := client(t, newDialer(t, egress.Config{AllowLoopback: true, Names: server.names(t)}))
	for _, scheme := range []string{"http", "https"} {
		if _, err := client.Get(scheme + "://" + scheme + ".example/"); err == nil {
			t.Errorf("%s: an answer", scheme)
		}
		if server.questions(scheme+".example.", typeA) == 0 {
			t.Errorf("%s: the target was not dialed", scheme)
		}
	}
}

// Nothing but HTTP/1.1 is offered, and what is compressed stays so.
func TestClientSpeaksHTTP1Only(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, r.Proto)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	resp, err := client(t, newDialer(t, egress.Config{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}})).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "HTTP/1.1" || resp.Uncompressed {
		t.Errorf("%q, %v", body, err)
	}
}

func TestClientVerifiesCertificates(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	client := client(t, newDialer(t, egress.Config{AllowLoopback: true}))
	if resp, err := client.Get(srv.URL); err == nil {
		resp.Body.Close()
		t.Error("a certificate of an unknown authority was taken")
	}
}

// A server may present sixteen certificates, and what the caller verifies is verified too.
func TestClientBoundsCertificates(t *testing.T) {
	errOwn := errors.New("not this one")
	one := httptest.NewTLSServer(nil)
	defer one.Close()
	for _, c := range []struct {
		n      int
		verify func(tls.ConnectionState) error
		want   string
	}{
		{16, nil, ""},
		{17, nil, "17 certificates"},
		{16, func(tls.ConnectionState) error { return errOwn }, errOwn.Error()},
	} {
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		own := one.TLS.Certificates[0]
		own.Certificate = slices.Repeat(own.Certificate, c.n)
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
		srv.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		client := client(t, newDialer(t, egress.Config{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots, VerifyConnection: c.verify}}))
		resp, err := client.Get(srv.URL)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d certificates: %v", c.n, err)
		}
		client.CloseIdleConnections()
		srv.Close()
	}
}

func TestClientBoundsHeader(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 8<<10))
	}))
	defer srv.Close()
	client := client(t, newDialer(t, egress.Config{AllowLoopback: true}))
	if resp, err := client.Get(srv.URL); err == nil {
		resp.Body.Close()
		t.Error("a header beyond the limit was taken")
	}
}

// A name that pointed at an allowed address when it was looked at, and points
// at a forbidden one when it is dialed again, is refused.
func TestRebinding(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())

	answers := make(chan [4]byte, 1)
	d := newDialer(t, egress.Config{
		AllowNets: prefixes("127.0.0.1/32"),
		Names:     newNames(t, egress.NamesConfig{Resolver: fakeResolver(t, answers)}),
	})
	get := func() error {
		client := client(t, d)
		defer client.CloseIdleConnections()
		resp, err := client.Get("http://rebind.example:" + port + "/")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}

	answers <- [4]byte{127, 0, 0, 1}
	if err := get(); err != nil {
		t.Fatalf("the allowed address: %v", err)
	}
	<-answers
	answers <- [4]byte{127, 0, 0, 2}
	if err := get(); !errors.Is(err, egress.ErrForbidden) {
		t.Fatalf("the name now points at a forbidden address: %v, want ErrForbidden", err)
	}
}

// fakeResolver answers every question for an IPv4 address with the value that
// lies in answers, and has no IPv6 addresses.
func fakeResolver(t *testing.T, answers chan [4]byte) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			a := <-answers
			answers <- a
			if reply, err := dnsReply(buf[:n], a); err == nil {
				_, _ = pc.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp4", pc.LocalAddr().String())
		},
	}
}

func dnsReply(query []byte, a [4]byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeSuccess, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: a},
		}}
	}
	return m.Pack()
}
