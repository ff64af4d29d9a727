package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
)

// dial opens a connection to the hub and sends the head of a content publish.
func (w *town) dial(t *testing.T, lines ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	u, err := url.Parse(w.hubURL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := "POST " + u.Path + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: text/plain\r\n" +
		fmt.Sprintf("Link: <%s/good>; rel=self, <%s>; rel=hub\r\n", w.topicURL, w.hubURL) +
		strings.Join(lines, "\r\n") + "\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// TestExpectContinue: a body that is wanted is asked for.
func TestExpectContinue(t *testing.T) {
	w := newTown(t, nil)
	conn, in := w.dial(t, "Expect: 100-continue", "Content-Length: 5")
	line, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "Hello"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestBrokenBodies: a client that stops sending gets 408, one that hangs up in the
// middle has published nothing, and a chunked body is counted as it comes.
func TestBrokenBodies(t *testing.T) {
	w := newTown(t, func(c *hub.Config) { c.MaxBody, c.BodyIdle = 100, 50*time.Millisecond })
	_, in := w.dial(t, "Content-Length: 5")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("stopped: %v, %v", resp, err)
	}
	conn, in := w.dial(t, "Content-Length: 5")
	_, _ = io.WriteString(conn, "Hel")
	_ = conn.(*net.TCPConn).CloseWrite()
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("hung up: %v, %v", resp, err)
	}
	conn, in = w.dial(t, "Transfer-Encoding: chunked")
	_, _ = io.WriteString(conn, "65\r\n"+strings.Repeat("x", 0x65)+"\r\n0\r\n\r\n")
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too long in chunks: %v, %v", resp, err)
	}
	conn, in = w.dial(t, "Transfer-Encoding: chunked")
	_, _ = io.WriteString(conn, "nonsense\r\n")
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("broken chunks: %v, %v", resp, err)
	}
	conn, in = w.dial(t, "Transfer-Encoding: chunked")
	_, _ = io.WriteString(conn, "0\r\n\r\n")
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("empty in chunks: %v, %v", resp, err)
	}
	if n := len(w.publisher.all()); n != 0 {
		t.Errorf("%d were published", n)
	}
}

// TestUnwantedBody: a refusal that needs no body does not wait for one, though the
// client announced it; and a connection whose request was read whole stays open.
func TestUnwantedBody(t *testing.T) {
	w := newTown(t, nil)
	_, in := w.dial(t, "Content-Length: 5", "Content-Encoding: gzip")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusUnsupportedMediaType || !resp.Close {
		t.Errorf("%v, %v", resp, err)
	}
	conn, in := w.dial(t, "Content-Length: 1")
	_, _ = io.WriteString(conn, "x")
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 || resp.Close {
		t.Errorf("%v, %v", resp, err)
	}
	if _, header, _ := w.post(t, formType, "hub.mode=none"); header.Get("Connection") != "" {
		t.Errorf("%v", header)
	}
}

// TestRefusalIsReadable: a client that sends all of a long body before it reads
// gets the answer, and not a reset.
func TestRefusalIsReadable(t *testing.T) {
	w := newTown(t, func(c *hub.Config) { c.MaxBody = 8 << 20 })
	for _, tt := range []struct {
		header string
		size   int
		status int
	}{
		{"X: y", 16 << 20, 413},
		{"Content-Encoding: gzip", 16 << 20, 415},
		{"Content-Encoding: gzip", 100 << 10, 415},
	} {
		conn, in := w.dial(t, fmt.Sprintf("Content-Length: %d", tt.size), tt.header)
		piece := make([]byte, 64<<10)
		for sent := 0; sent < tt.size; sent += len(piece) {
			if _, err := conn.Write(piece[:min(len(piece), tt.size-sent)]); err != nil {
				t.Fatalf("%d: after %d bytes: %v", tt.status, sent, err)
			}
		}
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != tt.status {
			t.Errorf("%d: %v, %v", tt.status, resp, err)
		}
		_ = conn.Close()
	}
}

// TestBodiesAtOnce fills the bounded memory for bodies: a further publisher is asked to come again.
func TestBodiesAtOnce(t *testing.T) {
	w := newTown(t, func(c *hub.Config) { c.MaxBody, c.MaxForm, c.MaxBodiesBytes = 100, 100, 150 })
	first, in := w.dial(t, "Expect: 100-continue", "Content-Length: 100")
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	_, second := w.dial(t, "Expect: 100-continue", "Content-Length: 51")
	resp, err := http.ReadResponse(second, nil)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%v, %v", resp, err)
	}
	_ = first.Close()
}

// TestShutdown: from the end of Run on nothing is taken in.
func TestShutdown(t *testing.T) {
	w := newTown(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.hub.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	status, header, _ := w.post(t, formType, form("hub.mode", "publish", "hub.url", aTopic))
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, header)
	}
}

// TestLongHeader: net/http refuses what is too long before the hub sees it.
func TestLongHeader(t *testing.T) {
	w := newTown(t, nil)
	_, in := w.dial(t, "X-Long: "+strings.Repeat("x", 1<<20+8<<10), "Content-Length: 0")
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestShutdownBesideHanging: topics that hang in checks and in fetches do not hold up the end.
func TestShutdownBesideHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := newStage(t, hub.Config{URL: hubURL}, c, anywhere{})
		stop := s.running(t)
		for i := range 20 {
			s.ping(t, fmt.Sprintf("http://h%d.example/", i))
		}
		publish := s.upload("text/plain", 1, true, upload{})
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
		if s.pings.waiting() != 20 {
			t.Errorf("%d pings wait for the next start", s.pings.waiting())
		}
		if status := publish.status(); status != http.StatusBadGateway {
			t.Errorf("a publish whose topic hangs: %d", status)
		}
	})
}

// TestPaths: the endpoint is the path of the URL and nothing else.
func TestPaths(t *testing.T) {
	for hubURL, paths := range map[string]map[string]int{
		"https://hub.example":               {"/": 200, "/x": 404},
		"https://hub.example/":              {"/": 200, "//": 404},
		"https://hub.example/websub":        {"/websub": 200, "/websub/": 200, "/": 404, "/websub/x": 404, "/websub//": 404, "//websub/": 404, "/WebSub/": 404, "/x/../websub/": 404},
		"https://hub.example/a%2Fb/%7Bc%7D": {"/a%2Fb/%7Bc%7D": 200, "/a%2Fb/%7Bc%7D/": 200, "/a/b/%7Bc%7D": 404},
	} {
		s := newStage(t, hub.Config{URL: hubURL}, doFunc(nil), anywhere{})
		for path, want := range paths {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "https://hub.example"+path, nil)
			s.hub.Handler().ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("hub %s, path %s: %d, want %d", hubURL, path, w.Code, want)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]hub.Config{
		"is not an absolute":   {URL: "/websub/"},
		"cannot be parsed":     {URL: "http://h/%zz"},
		"a query":              {URL: "http://h/?a"},
		"or a fragment":        {URL: "http://h/#"},
		"has userinfo":         {URL: "http://u:p@h/"},
		"must be escaped":      {URL: "http://h/ä"},
		"that must be escaped": {URL: "http://h/{a}"},
		"version":              {URL: "http://h/", Version: "1 2"},
		"MaxURL is negative":   {URL: "http://h/", MaxURL: -1},
		"less than MaxBody":    {URL: "http://h/", MaxBody: 10, MaxBodiesBytes: 9},
		"BodyIdle is negative": {URL: "http://h/", BodyIdle: -1},
		"FetchRetryMax":        {URL: "http://h/", FetchRetryFirst: 2, FetchRetryMax: 1},
	} {
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the password is in %q", err)
		}
		if _, err := hub.NewChecker(cfg, doFunc(nil), nil, nil); err == nil {
			t.Errorf("%q: NewChecker takes it", name)
		}
		if _, err := hub.NewVerifier(cfg, doFunc(nil), nil); err == nil {
			t.Errorf("%q: NewVerifier takes it", name)
		}
	}
	if err := (hub.Config{URL: "http://h/"}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (hub.Config{URL: "http://h/", MaxBody: 1 << 40}).Validate(); err != nil {
		t.Errorf("a large MaxBody alone: %v", err)
	}
	if _, err := hub.New(hub.Config{URL: "http://h/"}, hub.Parts{}, nil, nil); err == nil {
		t.Error("New takes no parts")
	}
}
