package send_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/subscription"
	"carillon/topic"
)

const hubURL = "https://hub.example/websub/"

// outlet goes out as a hub does, and to this machine.
func outlet(t testing.TB) *egress.Dialer {
	t.Helper()
	return outletOf(t, egress.Config{AllowLoopback: true})
}

func outletOf(t testing.TB, cfg egress.Config) *egress.Dialer {
	t.Helper()
	d, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dialing is an outlet that dials in its own way.
type dialing struct {
	*egress.Dialer
	dial func(ctx context.Context, address string) (net.Conn, error)
}

func (d dialing) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return d.dial(ctx, address)
}

func newSender(t testing.TB, cfg send.Config, out send.Outlet) *send.HTTPSender {
	t.Helper()
	if cfg.Hub == "" {
		cfg.Hub = hubURL
	}
	s, err := send.NewHTTPSender(cfg, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdleConnections)
	return s
}

// notification is what the tests deliver: a body that is no text.
var notification = &delivery.Notification{
	Publication: delivery.Publication{
		Topic: topic.Parse(topicURL), ContentType: "application/xml; charset=x",
		Links: []string{`<https://example.com/caps.xml>; rel="resourcesync"`, `<https://example.com/about>; rel="about"`},
		Body:  []byte("\xff\xfe\x00<urlset/>\r\n"),
	},
	ID: uuid.MustParse("0197a0b2-5a55-7c3e-8f00-0123456789ab"), Seq: 7,
}

func attemptOn(callback string, secret subscription.Secret) *send.Attempt {
	return &send.Attempt{Callback: callback, Secret: secret, Notification: notification, Number: 1}
}

// rawServer answers each connection with what handle writes, and gives what
// the first request looked like on the wire.
func rawServer(t *testing.T, handle func(net.Conn)) (addr string, request <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	requests := make(chan string, 16)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := bufio.NewReader(c)
				var seen bytes.Buffer
				req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(buf, &seen)))
				if err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
				}
				requests <- seen.String()
				handle(c)
			}()
		}
	}()
	return ln.Addr().String(), requests
}

// The bytes on the wire: WebSub §7 and §7.1.
func TestDeliveryOnTheWire(t *testing.T) {
	addr, requests := rawServer(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: <x>; rel=preload\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
	})
	s := newSender(t, send.Config{Version: "1.2.3"}, outlet(t))
	out := s.Send(t.Context(), attemptOn("http://"+addr+"/a?x=%31&y", "s3cret"))
	equal(t, "class", out.Class, delivery.ClassDelivered)
	equal(t, "status", out.Status, 204)
	head, body, _ := strings.Cut(<-requests, "\r\n\r\n")
	equal(t, "body", body, string(notification.Body))
	line, head, _ := strings.Cut(head, "\r\n")
	equal(t, "request line", line, "POST /a?x=%31&y HTTP/1.1")
	got := strings.Split(head, "\r\n")
	slices.Sort(got)
	want := []string{
		"Content-Length: 14",
		"Content-Type: application/xml; charset=x",
		"Host: " + addr,
		`Link: <https://hub.example/websub/>; rel="hub", <https://example.com/change/>; rel="self", ` +
			`<https://example.com/caps.xml>; rel="resourcesync", <https://example.com/about>; rel="about"`,
		"User-Agent: Carillon/1.2.3 (+https://hub.example/websub/)",
		"X-Hub-Notification-Id: 0197a0b2-5a55-7c3e-8f00-0123456789ab",
		"X-Hub-Signature: sha256=" + hmacOf(t, "sha256", "s3cret", notification.Body),
	}
	if !slices.Equal(got, want) {
		t.Errorf("headers:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s.Send(t.Context(), attemptOn("http://"+addr, ""))
	if r := <-requests; strings.Contains(r, "Signature") || !strings.HasPrefix(r, "POST / HTTP/1.1\r\n") {
		t.Errorf("without a secret there is no signature: %q", r)
	}
}

// TestOneSelf: whatever the topic holds, a delivery names one rel=self (WebSub §7).
func TestOneSelf(t *testing.T) {
	n := &delivery.Notification{Publication: delivery.Publication{
		Topic: topic.Parse("http://h.example/~x/%3E>;rel=self,\"<http://x.example/>;\r\n rel=hub"),
	}}
	link := headerOf(t, send.Config{}, &send.Attempt{Notification: n}).Values("Link")
	want := `<` + hubURL + `>; rel="hub", <http://h.example/~x/%3E%3E;rel=self,%22%3Chttp://x.example/%3E;%0D%0A%20rel=hub>; rel="self"`
	if len(link) != 1 || link[0] != want {
		t.Errorf("got  %q\nwant %q", link, want)
	}
}

// headerOf makes an attempt and returns the header that arrived.
func headerOf(t *testing.T, cfg send.Config, a *send.Attempt) (header http.Header) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	defer srv.Close()
	s := newSender(t, cfg, outlet(t))
	a.Callback = srv.URL
	equal(t, "class", s.Send(t.Context(), a).Class, delivery.ClassDelivered)
	s.CloseIdleConnections()
	return header
}

// hmacOf gets a signature by way of a delivery.
func hmacOf(t *testing.T, method, secret string, body []byte) string {
	t.Helper()
	n := &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse(topicURL), Body: body}}
	header := headerOf(t, send.Config{Signature: method}, &send.Attempt{Secret: subscription.Secret(secret), Notification: n})
	named, digest, _ := strings.Cut(header.Get("X-Hub-Signature"), "=")
	equal(t, "method", named, method)
	return digest
}

// The vectors of RFC 2202 and RFC 4231, test case 2.
func TestSignatures(t *testing.T) {
	for method, want := range map[string]string{
		"sha1":   "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
		"sha256": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		"sha384": "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
		"sha512": "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
	} {
		equal(t, method, hmacOf(t, method, "Jefe", []byte("what do ya want for nothing?")), want)
	}
}

func TestSenderConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  send.Config
		want string
	}{
		{send.Config{}, "Hub"},
		{send.Config{Hub: "https://hub>"}, "Hub"},
		{send.Config{Hub: hubURL, Signature: "md5"}, "Signature"},
		{send.Config{Hub: hubURL, DeliveryTimeout: -1}, "DeliveryTimeout"},
		{send.Config{Hub: hubURL, Limits: send.Limits{MaxConns: -1}}, "limit"},
		{send.Config{Hub: hubURL, Limits: send.Limits{HandshakeTimeout: -1}}, "limit"},
	} {
		if _, err := send.NewHTTPSender(c.cfg, outlet(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s named", c.cfg, err, c.want)
		}
	}
}

// The callback's path and query go out as they were given (WebSub §5.1.1, §8.3).
func TestCallbackByteForByte(t *testing.T) {
	addr, requests := rawServer(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") })
	s := newSender(t, send.Config{}, outlet(t))
	for given, want := range map[string]string{
		"":                         "/",
		"/":                        "/",
		"?":                        "/?",
		"?q":                       "/?q",
		"/?":                       "/?",
		"/a%2Fb/%7euser":           "/a%2Fb/%7euser",
		"/a/../b/./c//d":           "/a/../b/./c//d",
		"/p;v=1,2'(x)!*:@&=+$":     "/p;v=1,2'(x)!*:@&=+$",
		"/[x]|{y}^`\"":             "/[x]|{y}^`\"",
		"/x?a=1&a=1&&b=%zz+%20;c":  "/x?a=1&a=1&&b=%zz+%20;c",
		"/x?a?b#frag":              "/x?a?b",
		"/%e2%82%AC?%e2%82%AC=%41": "/%e2%82%AC?%e2%82%AC=%41",
		"//two/slashes?x":          "//two/slashes?x",
		"//two/{slashes}?x":        "http://" + addr + "//two/{slashes}?x",
		"/a b\r\nX: y?é":           "/a%20b%0D%0AX:%20y?%C3%A9",
	} {
		if out := s.Send(t.Context(), attemptOn("http://"+addr+given, "")); out.Class != delivery.ClassDelivered {
			t.Errorf("%q: %+v", given, out)
			continue
		}
		line, _, _ := strings.Cut(<-requests, "\r\n")
		equal(t, given, line, "POST "+want+" HTTP/1.1")
	}
	for _, bad := range []string{"", "ftp://x/", "http://", "http:///x", "https://user@host/", "http://[::1", "mailto:x"} {
		if out := s.Send(t.Context(), attemptOn(bad, "")); out.Class != delivery.ClassProtocol || out.Err == nil {
			t.Errorf("%q: %+v", bad, out)
		}
	}
}

func TestOutcomesOfAnswers(t *testing.T) {
	for _, c := range []struct {
		answer string
		class  delivery.Class
		status int
		after  time.Duration
	}{
		{"200 OK\r\nContent-Length: 2\r\n\r\nok", delivery.ClassDelivered, 200, 0},
		{"202 Accepted\r\n\r\n", delivery.ClassDelivered, 202, 0},
		{"299 Odd\r\n\r\n", delivery.ClassDelivered, 299, 0},
		{"200 OK\r\nContent-Length: 99999999\r\n\r\nshort", delivery.ClassDelivered, 200, 0},
		{"200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip", delivery.ClassDelivered, 200, 0},
		{"301 Moved\r\nLocation: http://127.0.0.1:1/\r\n\r\n", delivery.ClassRedirect, 301, 0},
		{"304 Same\r\n\r\n", delivery.ClassRedirect, 304, 0},
		{"307 Moved\r\nLocation: /elsewhere\r\n\r\n", delivery.ClassRedirect, 307, 0},
		{"404 Not Found\r\n\r\n", delivery.ClassClientError, 404, 0},
		{"410 Gone\r\n\r\n", delivery.ClassGone, 410, 0},
		{"429 Slow\r\nRetry-After: 120\r\n\r\n", delivery.ClassClientError, 429, 2 * time.Minute},
		{"503 Busy\r\nRetry-After: Fri, 01 Jan 2100 00:00:00 GMT\r\n\r\n", delivery.ClassServerError, 503, -1},
		{"503 Busy\r\nRetry-After: Fri, 01 Jan 2010 00:00:00 GMT\r\n\r\n", delivery.ClassServerError, 503, 0},
		{"503 Busy\r\nRetry-After: 99999999999999999999999\r\n\r\n", delivery.ClassServerError, 503, -1},
		{"503 Busy\r\nRetry-After: soon\r\n\r\n", delivery.ClassServerError, 503, 0},
		{"503 Busy\r\nRetry-After: -5\r\n\r\n", delivery.ClassServerError, 503, 0},
		{"101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", delivery.ClassProtocol, 101, 0},
		{"600 Odd\r\n\r\n", delivery.ClassProtocol, 600, 0},
	} {
		t.Run(c.answer[:3]+" "+c.class.String(), func(t *testing.T) {
			addr, requests := rawServer(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 "+c.answer) })
			out := newSender(t, send.Config{}, outlet(t)).Send(t.Context(), attemptOn("http://"+addr+"/", ""))
			equal(t, "class", out.Class, c.class)
			equal(t, "status", out.Status, c.status)
			if c.after >= 0 && out.RetryAfter != c.after || c.after < 0 && out.RetryAfter < 24*time.Hour {
				t.Errorf("Retry-After: got %s, want %s", out.RetryAfter, c.after)
			}
			<-requests
			equal(t, "requests besides the first", len(requests), 0)
		})
	}
}

func TestOutcomesWithoutAnswers(t *testing.T) {
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	untrusted.Config.ErrorLog = nil
	trusting := outletOf(t, egress.Config{
		AllowLoopback: true,
		TLS:           &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13},
	})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	fails := func(err error) send.Outlet {
		return dialing{outlet(t), func(context.Context, string) (net.Conn, error) { return nil, err }}
	}
	raw := func(answer string) string {
		addr, _ := rawServer(t, func(c net.Conn) { _, _ = io.WriteString(c, answer) })
		return addr
	}
	hangs, _ := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for name, c := range map[string]struct {
		callback string
		out      send.Outlet
		want     delivery.Class
	}{
		"nobody listens":      {"http://" + closed.Addr().String(), outlet(t), delivery.ClassRefused},
		"closed at once":      {"http://" + raw(""), outlet(t), delivery.ClassRefused},
		"never answers":       {"http://" + hangs, outlet(t), delivery.ClassTimeout},
		"not HTTP":            {"http://" + raw("SSH-2.0-OpenSSH\r\n\r\n"), outlet(t), delivery.ClassProtocol},
		"broken header":       {"http://" + raw("HTTP/1.1 200 OK\r\nbroken\r\n\r\n"), outlet(t), delivery.ClassProtocol},
		"unknown authority":   {untrusted.URL, trusting, delivery.ClassTLS},
		"not TLS":             {"https://" + raw("HTTP/1.1 200 OK\r\n\r\n"), outlet(t), delivery.ClassTLS},
		"no such name":        {callback, fails(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), delivery.ClassDNS},
		"forbidden address":   {untrusted.URL, outletOf(t, egress.Config{}), delivery.ClassForbidden},
		"forbidden":           {callback, fails(fmt.Errorf("dial: %w", egress.ErrForbidden)), delivery.ClassForbidden},
		"handshake too slow":  {callback, fails(fmt.Errorf("x: %w", timeoutError{})), delivery.ClassTimeout},
		"reset":               {callback, fails(&net.OpError{Op: "read", Err: errors.New("reset")}), delivery.ClassRefused},
		"refused by an alert": {callback, fails(&net.OpError{Op: "remote error", Err: errors.New("alert")}), delivery.ClassTLS},
		"something else":      {callback, fails(errOdd), delivery.ClassProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t, send.Config{DeliveryTimeout: 500 * time.Millisecond}, c.out)
			out := s.Send(t.Context(), attemptOn(c.callback, ""))
			equal(t, "class", out.Class, c.want)
			equal(t, "status", out.Status, 0)
			if out.Err == nil {
				t.Error("no error says why")
			}
		})
	}
	t.Run("broken off", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		addr, requests := rawServer(t, func(c net.Conn) { cancel(); _, _ = io.Copy(io.Discard, c) })
		_ = requests
		out := newSender(t, send.Config{}, outlet(t)).Send(ctx, attemptOn("http://"+addr, ""))
		equal(t, "class", out.Class, delivery.ClassNone)
	})
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "too slow" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// A connection is used again where the answer was small, and an answer without end holds nothing up.
func TestAnswersAreNotReadForEver(t *testing.T) {
	var conns []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns = append(conns, r.RemoteAddr)
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/small":
			_, _ = w.Write(make([]byte, 4<<10))
		case "/huge":
			for _, err := w.Write(make([]byte, 64<<10)); err == nil; _, err = w.Write(make([]byte, 64<<10)) {
			}
		case "/drips":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	s := newSender(t, send.Config{}, outlet(t))
	for _, path := range []string{"/small", "/small", "/huge", "/drips", "/small"} {
		begun := time.Now()
		out := s.Send(t.Context(), attemptOn(srv.URL+path, ""))
		equal(t, path, out.Class, delivery.ClassDelivered)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %s", path, took)
		}
	}
	if conns[0] != conns[1] || conns[2] != conns[1] || conns[3] == conns[2] || conns[4] == conns[3] {
		t.Errorf("connections: %v", conns)
	}
}

// A kept connection that the callback closed meanwhile is no failure.
func TestClosedConnection(t *testing.T) {
	var seen atomic.Int64
	addr, requests := rawServer(t, func(c net.Conn) {
		first := seen.Add(1) == 1
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if first {
			// It looks kept, takes the next request and closes.
			_, _ = http.ReadRequest(bufio.NewReader(c))
		}
	})
	s := newSender(t, send.Config{}, outlet(t))
	for range 2 {
		equal(t, "class", s.Send(t.Context(), attemptOn("http://"+addr+"/", "")).Class, delivery.ClassDelivered)
		<-requests
	}
}
