package hub_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery/send"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
)

func newVerifier(t *testing.T, transport http.RoundTripper) *hub.Verifier {
	t.Helper()
	v, err := hub.NewVerifier(hub.Config{URL: hubURL, VerifyTimeout: 10 * time.Second}, transport, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func loopback(t *testing.T) http.RoundTripper {
	t.Helper()
	dialer, err := egress.New(egress.Config{AllowLoopback: true, AllowPorts: []egress.PortRange{{First: 1, Last: 65535}}})
	if err != nil {
		t.Fatal(err)
	}
	return wayOut(t, dialer).Transport()
}

// wayOut returns what a hub makes its requests by.
func wayOut(t testing.TB, out send.Outlet) *send.HTTPSender {
	t.Helper()
	sender, err := send.NewHTTPSender(send.Config{Hub: hubURL}, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.CloseIdleConnections)
	return sender
}

// listen takes one request on a raw connection, gives its first line and header,
// and answers with the bytes given.
func listen(t *testing.T, answer string) (address string, requests <-chan []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	seen := make(chan []string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			var lines []string
			for {
				line, err := in.ReadString('\n')
				if line = strings.TrimSpace(line); err != nil || line == "" {
					break
				}
				lines = append(lines, line)
			}
			seen <- lines
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String(), seen
}

// TestVerificationRequest checks the bytes on the wire, for callbacks of all kinds: the callback as it
// was given, and the parameters behind it (WebSub §5.1.1, §5.3).
func TestVerificationRequest(t *testing.T) {
	address, requests := listen(t, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
	v := newVerifier(t, loopback(t))
	const topic = "http://t.example/%7Ea?b=c&d=+"
	params := "hub.mode=subscribe&hub.topic=http://t.example/%257Ea?b=c%26d=%2B&hub.challenge=abc&hub.lease_seconds=864000"
	for suffix, want := range map[string]string{
		"":                            "/?",
		"/":                           "/?",
		"/?":                          "/?",
		"/cb?a=b":                     "/cb?a=b&",
		"/cb?a=b&":                    "/cb?a=b&",
		"/cb?x=%2f%2F%7e+%20&y":       "/cb?x=%2f%2F%7e+%20&y&",
		"/cb?hub.mode=mine&a=1;b=2":   "/cb?hub.mode=mine&a=1;b=2&",
		"/%7Ea%2fb;c/..//d?%zz='<|\"": "/%7Ea%2fb;c/..//d?%zz='<|\"&",
		"/cb?back=http://x/?y#"[:20]:  "/cb?back=http://x/?y&",
		"//double/slash":              "//double/slash?",
		"/a{b}%2Fc":                   "/a{b}%2Fc?",
		"/[x]^`|\"<>/%zz":             "/[x]^`|\"<>/%zz?",
		"/\u00e9/%2f?\u00e9=\u00fc":   "/%C3%A9/%2f?%C3%A9=%C3%BC&",
	} {
		err := v.Confirm(t.Context(), subscription.Request{
			Mode: "subscribe", Topic: topic, Callback: address + suffix, Lease: 864000 * time.Second,
		}, "abc")
		if err != nil {
			t.Errorf("%s: %v", suffix, err)
			continue
		}
		lines := <-requests
		if got, want := lines[0], "GET "+want+params+" HTTP/1.1"; got != want {
			t.Errorf("%s:\n%s, want\n%s", suffix, got, want)
		}
		header := strings.Join(lines[1:], "\n")
		for _, line := range []string{"User-Agent: Carillon/dev (+" + hubURL + ")", "Accept-Encoding: identity"} {
			if !strings.Contains(header, line) {
				t.Errorf("no %q in\n%s", line, header)
			}
		}
	}
}

// TestVerifyTokenIsSentBack: a subscriber by PuSH 0.3 gets its token back with both kinds of
// verification, byte for byte; one that gave none gets no such parameter.
func TestVerifyTokenIsSentBack(t *testing.T) {
	address, requests := listen(t, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
	v := newVerifier(t, loopback(t))
	for _, mode := range []subscription.Mode{subscription.ModeSubscribe, subscription.ModeUnsubscribe} {
		for token, want := range map[subscription.Secret]string{
			"": "", "0123456789abcdef": "0123456789abcdef", "a&b=c+d %#\u20ac": "a&b=c+d %#\u20ac",
		} {
			r := subscription.Request{Mode: mode, Topic: "http://t.example/", Callback: address + "/cb?a=b", VerifyToken: token, Lease: time.Hour}
			if err := v.Confirm(t.Context(), r, "abc"); err != nil {
				t.Fatal(err)
			}
			_, target, _ := strings.Cut(strings.TrimSuffix((<-requests)[0], " HTTP/1.1"), " ")
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			if q := u.Query(); q.Get("hub.verify_token") != want || q.Has("hub.verify_token") != (want != "") {
				t.Errorf("%s with token %q: asked %s", mode, want, target)
			}
		}
	}
}

// TestTopicRequest: a topic is asked and fetched at its address byte for byte, as it
// names itself.
func TestTopicRequest(t *testing.T) {
	for _, path := range []string{"/a{b}%2Fc", "/%7Ex/..//y?%zz&a=;", "//double?", ""} {
		address, requests := listen(t, "HTTP/1.1 204 No Content\r\n\r\n")
		want := " " + path + " HTTP/1.1"
		if path == "" {
			want = " / HTTP/1.1"
		}
		transport := loopback(t)
		s := newStage(t, hub.Config{URL: hubURL}, transport, anywhere{})
		_ = s.checker.Validate(t.Context(), address+path)
		for _, method := range []string{"HEAD", "GET"} {
			if got := (<-requests)[0]; got != method+want {
				t.Errorf("%s: checked with %s", path, got)
			}
		}
		stop := s.running(t)
		s.ping(t, address+path)
		if got := (<-requests)[0]; got != "GET"+want {
			t.Errorf("%s: fetched with %s", path, got)
		}
		stop()
	}
}

func TestVerificationAnswers(t *testing.T) {
	noIntent, noAnswer := subscription.ErrNoIntent, subscription.ErrNoAnswer
	ok := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	tests := []struct {
		name, answer string
		want         error
	}{
		{"the challenge", ok("abc"), nil},
		{"another 2xx", "HTTP/1.1 299 Fine\r\nContent-Length: 3\r\n\r\nabc", nil},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", nil},
		{"to the end of the connection", "HTTP/1.0 200 OK\r\n\r\nabc", nil},
		{"line break after it", ok("abc\n"), noIntent},
		{"quoted", ok(`"abc"`), noIntent},
		{"its beginning", ok("ab"), noIntent},
		{"other case", ok("ABC"), noIntent},
		{"endless", "HTTP/1.0 200 OK\r\n\r\nabc" + strings.Repeat("x", 1<<20), noIntent},
		{"empty", ok(""), noIntent},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", noIntent},
		{"challenge with 404", "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc", noIntent},
		{"redirect", "HTTP/1.1 302 Found\r\nLocation: /yes\r\nContent-Length: 3\r\n\r\nabc", noIntent},
		{"broken redirect", "HTTP/1.1 302 Found\r\nLocation: http://[bad%zz\r\nContent-Length: 3\r\n\r\nabc", noIntent},
		{"server error", "HTTP/1.1 503 Away\r\nContent-Length: 3\r\n\r\nabc", noIntent},
		{
			"compressed",
			"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 27\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03KLJ\x06\x00\xc2A\x245\x03\x00\x00\x00\x00\x00\x00\x00",
			noIntent,
		},
		{"closed without a word", "", noAnswer},
		{"broken off", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", noAnswer},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n", noAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, _ := listen(t, tt.answer)
			v := newVerifier(t, loopback(t))
			err := v.Confirm(t.Context(), subscription.Request{Mode: "unsubscribe", Topic: topicURL, Callback: address}, "abc")
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerificationWithoutConnection expects no answer from a dead server. A forbidden address never
// gives an answer, so nothing is tried again.
func TestVerificationWithoutConnection(t *testing.T) {
	v := newVerifier(t, loopback(t))
	r := subscription.Request{Mode: "subscribe", Topic: topicURL, Callback: "http://127.0.0.1:1/"}
	if err := v.Confirm(t.Context(), r, "abc"); !errors.Is(err, subscription.ErrNoAnswer) {
		t.Errorf("nobody there: %v", err)
	}
	if err := v.Deny(t.Context(), topicURL, r.Callback, ""); !errors.Is(err, subscription.ErrNoAnswer) {
		t.Errorf("denied to nobody: %v", err)
	}
	r.Callback = "http://10.0.0.1/"
	if err := v.Confirm(t.Context(), r, "abc"); !errors.Is(err, subscription.ErrNoIntent) || !errors.Is(err, egress.ErrForbidden) {
		t.Errorf("forbidden: %v", err)
	}
	if err := v.Deny(t.Context(), topicURL, r.Callback, ""); err != nil {
		t.Errorf("denied to a forbidden address: %v", err)
	}
}

func TestVerificationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, doFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		start := time.Now()
		err := v.Confirm(context.WithoutCancel(t.Context()), subscription.Request{Callback: "http://c.example/"}, "abc")
		if !errors.Is(err, subscription.ErrNoAnswer) || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestDenied: hub.mode=denied with the topic as given, the reason, and no challenge
// (WebSub §5.2). Any answer will do.
func TestDenied(t *testing.T) {
	queries := make(chan url.Values, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries <- r.URL.Query()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	v := newVerifier(t, loopback(t))
	if err := v.Deny(t.Context(), "http://t.example/%7E", server.URL+"/?mine=1", "it is gone & over"); err != nil {
		t.Fatal(err)
	}
	want := url.Values{"mine": {"1"}, "hub.mode": {"denied"}, "hub.topic": {"http://t.example/%7E"}, "hub.reason": {"it is gone & over"}}
	if got := <-queries; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A callback that hangs holds up no other of its host: each has a connection of its own.
func TestVerificationBesideOneThatHangs(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan bool, 3), make(chan bool)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hangs" {
					asked <- true
					<-release
				}
				_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			}))
			start(server)
			defer server.Close()
			cfg := egress.Config{AllowLoopback: true, AllowPorts: []egress.PortRange{{First: 1, Last: 65535}}}
			if server.Certificate() != nil {
				cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
				cfg.TLS.RootCAs.AddCert(server.Certificate())
			}
			dialer, err := egress.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			v := newVerifier(t, wayOut(t, dialer).Transport())
			request := subscription.Request{Mode: subscription.ModeUnsubscribe, Topic: "http://t.example/", Callback: server.URL + "/hangs"}
			var hanging sync.WaitGroup
			for range cap(asked) {
				hanging.Go(func() {
					if err := v.Confirm(t.Context(), request, "challenge"); err != nil {
						t.Errorf("one that hung: %v", err)
					}
				})
			}
			for range cap(asked) {
				<-asked
			}
			other := request
			other.Callback = server.URL + "/answers"
			if err := v.Confirm(t.Context(), other, "challenge"); err != nil {
				t.Errorf("the other: %v", err)
			}
			close(release)
			hanging.Wait()
		})
	}
}
