package send_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/internal/egress"
)

// A sender shows the connections that it keeps, what they take of what they may, and by which
// handshakes they were made.
func TestConnectionsAreShown(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	secure, plain := httptest.NewTLSServer(answers), httptest.NewServer(answers)
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	trusted := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	s := newSender(t, send.Config{Limits: send.Limits{MaxConns: 1, IdleBytes: 1 << 20, SessionBytes: 1 << 19}},
		outletOf(t, egress.Config{AllowLoopback: true, TLS: &tls.Config{RootCAs: trusted}}))
	post := func(to *httptest.Server) {
		t.Helper()
		if out := s.Send(t.Context(), attemptOn(to.URL+"/", "")); out.Class != delivery.ClassDelivered {
			t.Fatalf("%s: %+v", to.URL, out)
		}
	}
	limits := send.Connections{MaxOpen: 1, MaxIdleBytes: 1 << 20, MaxSessionBytes: 1 << 19}
	shows := func(when string, want send.Connections) {
		t.Helper()
		got := s.Connections()
		if (got.IdleBytes > 0) != (want.Idle > 0) || (got.SessionBytes > 0) != (want.Full > 0) {
			t.Errorf("%s: idle connections take %d bytes, sessions %d", when, got.IdleBytes, got.SessionBytes)
		}
		want.MaxOpen, want.MaxIdleBytes, want.MaxSessionBytes = limits.MaxOpen, limits.MaxIdleBytes, limits.MaxSessionBytes
		want.IdleBytes, want.SessionBytes = got.IdleBytes, got.SessionBytes
		if got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	shows("at first", send.Connections{})
	post(secure)
	post(secure)
	shows("after two deliveries by TLS", send.Connections{Open: 1, Idle: 1, Hosts: 1, Full: 1})
	post(plain)
	shows("after one to another host", send.Connections{Open: 1, Idle: 1, Hosts: 1, RememberedHosts: 1, Plain: 1, Full: 1, Dropped: 1})
	post(secure)
	shows("back by TLS", send.Connections{Open: 1, Idle: 1, Hosts: 1, Plain: 1, Full: 1, Resumed: 1, Dropped: 2})

	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(s); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_delivery_connections Connections to callbacks and topics: in use, which includes those being opened, and idle, kept for the next request.
# TYPE carillon_delivery_connections gauge
carillon_delivery_connections{state="idle"} 1
carillon_delivery_connections{state="in_use"} 0
# HELP carillon_delivery_connection_limit How many connections may be open, for want of files: where there are more, idle ones are closed.
# TYPE carillon_delivery_connection_limit gauge
carillon_delivery_connection_limit 1
# HELP carillon_delivery_connections_dropped_total Idle connections that were closed for want of files or memory.
# TYPE carillon_delivery_connections_dropped_total counter
carillon_delivery_connections_dropped_total 2
# HELP carillon_delivery_connections_opened_total Connections that were opened, by TLS handshake: full, of a resumed session, or none.
# TYPE carillon_delivery_connections_opened_total counter
carillon_delivery_connections_opened_total{handshake="full"} 1
carillon_delivery_connections_opened_total{handshake="none"} 1
carillon_delivery_connections_opened_total{handshake="resumed"} 1
# HELP carillon_delivery_hosts Hosts with connections (connected), and others whose TLS session is kept (remembered).
# TYPE carillon_delivery_hosts gauge
carillon_delivery_hosts{state="connected"} 1
carillon_delivery_hosts{state="remembered"} 0
# HELP carillon_delivery_idle_connection_limit_bytes What idle connections may take in memory.
# TYPE carillon_delivery_idle_connection_limit_bytes gauge
carillon_delivery_idle_connection_limit_bytes 1.048576e+06
# HELP carillon_delivery_tls_session_limit_bytes What TLS sessions may take in memory.
# TYPE carillon_delivery_tls_session_limit_bytes gauge
carillon_delivery_tls_session_limit_bytes 524288
`), "carillon_delivery_connections", "carillon_delivery_connection_limit", "carillon_delivery_connections_dropped_total",
		"carillon_delivery_connections_opened_total", "carillon_delivery_hosts", "carillon_delivery_idle_connection_limit_bytes",
		"carillon_delivery_tls_session_limit_bytes"); err != nil {
		t.Error(err)
	}
}

// A header of 64 KiB is the most that a callback may answer with.
func TestAnswersHeaderIsBounded(t *testing.T) {
	for size, want := range map[int]delivery.Class{60 << 10: delivery.ClassDelivered, 65 << 10: delivery.ClassProtocol} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
		}))
		t.Cleanup(server.Close)
		out := newSender(t, send.Config{}, outlet(t)).Send(t.Context(), attemptOn(server.URL, ""))
		if out.Class != want {
			t.Errorf("a header of %d bytes: %+v, want %s", size, out, want)
		}
	}
}

// What Limits leave out is bounded by the defaults.
func TestDefaultLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		dials := make(chan string, 100)
		s := newSender(t, send.Config{}, dialing{outlet(t), func(ctx context.Context, address string) (net.Conn, error) {
			dials <- address
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		var sending sync.WaitGroup
		for range cap(dials) {
			sending.Go(func() { s.Send(ctx, attemptOn("http://host.example/", "")) })
		}
		synctest.Wait()
		if n := len(dials); n != 64 {
			t.Errorf("%d connections to one host, want 64", n)
		}
		cancel()
		sending.Wait()
		c := s.Connections()
		if c.MaxOpen != 1024 || c.MaxIdleBytes != 256<<20 || c.MaxSessionBytes != 64<<20 {
			t.Errorf("%+v, want 1,024 connections, 256 MiB idle and 64 MiB of sessions", c)
		}
	})
}
