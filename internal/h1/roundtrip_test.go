package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// asking makes a request, without a header of its own but for User-Agent.
func asking(ctx context.Context, t testing.TB, method string, u *url.URL) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://unused.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL, r.Host = u, u.Host
	r.Header.Set("User-Agent", "test")
	return r
}

// url is that of the root of the server.
func (s *server) url() *url.URL {
	u := &url.URL{Scheme: "http", Host: s.addr, Path: "/"}
	if s.way.secure {
		u.Scheme = "https"
	}
	return u
}

// get makes a round trip to the root of the server.
func (s *server) get(ctx context.Context, t testing.TB, c *h1.Client, method string) (*http.Response, error) {
	t.Helper()
	return c.RoundTrip(asking(ctx, t, method, s.url()))
}

// body makes a round trip that is answered, and returns the body of the answer.
func (s *server) body(t testing.TB, c *h1.Client) string {
	t.Helper()
	resp, err := s.get(t.Context(), t, c, http.MethodGet)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The bytes of a request are those of net/http's Transport, whatever its URL.
func TestRoundTripOnTheWire(t *testing.T) {
	for name, u := range map[string]url.URL{
		"plain":                {Path: "/a/b", RawQuery: "c=d"},
		"no path":              {},
		"no path, a query":     {RawQuery: "c"},
		"an empty query":       {Path: "/a", ForceQuery: true},
		"opaque":               {Opaque: "/%7euser/a%2fb/../c;d"},
		"opaque, a query":      {Opaque: "/a b", RawQuery: "hub.topic=http%3a%2F%2Ft/&x=%zz"},
		"opaque, absolute":     {Opaque: "//h.example//a/%41"},
		"two slashes":          {Path: "//a"},
		"a raw path":           {Path: "/a/b", RawPath: "/a%2Fb"},
		"not ASCII":            {Path: "/b\u00fccher", RawQuery: "b\u00fccher"},
		"a control":            {Opaque: "/a\nb"},
		"a control in a query": {Path: "/", RawQuery: "a\r\nb"},
		"a space in a query":   {Path: "/", RawQuery: "a b"},
		"a fragment":           {Path: "/", Fragment: "f"},
		"a user":               {Path: "/", User: url.UserPassword("a", "b")},
		"a port":               {Host: "h.example:8080", Path: "/"},
		"the port of http":     {Host: "h.example:80", Path: "/"},
		"an empty port":        {Host: "h.example:", Path: "/"},
		"in capitals":          {Host: "H.Example", Path: "/"},
		"IPv6":                 {Host: "[2001:db8::1]:81", Path: "/"},
		"IPv6, a zone":         {Host: "[fe80::1%eth0]", Path: "/"},
		"another script":       {Host: "b\u00fccher.example:81", Path: "/"},
	} {
		for variant, change := range map[string]func(*http.Request){
			"GET":        func(*http.Request) {},
			"HEAD":       func(r *http.Request) { r.Method = http.MethodHead },
			"no method":  func(r *http.Request) { r.Method = "" },
			"other host": func(r *http.Request) { r.Host = "other.example:9" },
			"other header": func(r *http.Request) {
				r.Header = http.Header{"Accept-Encoding": {"identity"}, "X-B": {" 1", "2\t"}, "X-A": {""}}
			},
			"no header": func(r *http.Request) { r.Header = http.Header{"User-Agent": {""}} },
			"closing":   func(r *http.Request) { r.Close = true },
			"bad name":  func(r *http.Request) { r.Header["A b"] = []string{"c"} },
			"bad value": func(r *http.Request) { r.Header.Set("A", "b\r\nc: d") },
		} {
			if u.Scheme = "http"; u.Host == "" {
				u.Host = "h.example"
			}
			want := recorded(t, u, change, func(d dialFunc) http.RoundTripper {
				return &http.Transport{DialContext: d, DisableCompression: true}
			})
			got := recorded(t, u, change, func(d dialFunc) http.RoundTripper {
				cfg := config()
				cfg.Dial = d
				return newClient(t, cfg)
			})
			equal(t, name+", "+variant, got, want)
		}
	}
}

type dialFunc = func(context.Context, string, string) (net.Conn, error)

// recorded returns what a RoundTripper dials and sends, empty where it sends nothing.
func recorded(t *testing.T, u url.URL, change func(*http.Request), by func(dialFunc) http.RoundTripper) string {
	t.Helper()
	r := asking(t.Context(), t, http.MethodGet, &u)
	change(r)
	var sent bytes.Buffer
	dialed, done := "", make(chan bool)
	resp, err := by(func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = address
		client, server := net.Pipe()
		go func() {
			defer close(done)
			defer server.Close()
			_, _ = http.ReadRequest(bufio.NewReader(io.TeeReader(server, &sent)))
			_, _ = io.WriteString(server, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		}()
		return client, nil
	}).RoundTrip(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	if dialed != "" {
		<-done
	}
	equal(t, "answered", err == nil, sent.Len() > 0)
	if err != nil {
		return ""
	}
	return dialed + "\n" + sent.String()
}

// Anything but GET or HEAD without a body is refused before anything is dialed, and its body closed.
func TestRoundTripRefuses(t *testing.T) {
	cfg := config()
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.ErrClosedPipe
	}
	client := newClient(t, cfg)
	for name, change := range map[string]func(*http.Request){
		"POST":        func(r *http.Request) { r.Method = http.MethodPost },
		"a bad verb":  func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nX:" },
		"a body":      func(*http.Request) {},
		"no URL":      func(r *http.Request) { r.Body, r.URL = nil, nil },
		"no scheme":   func(r *http.Request) { r.Body, r.URL.Scheme = nil, "" },
		"ftp":         func(r *http.Request) { r.Body, r.URL.Scheme = nil, "ftp" },
		"no host":     func(r *http.Request) { r.Body, r.URL.Host, r.Host = nil, "", "" },
		"a port only": func(r *http.Request) { r.Body, r.URL.Host = nil, ":80" },
		"a bad host":  func(r *http.Request) { r.Body, r.URL.Host = nil, "h.example/a b" },
		"a bad value": func(r *http.Request) { r.Body, r.Header["A"] = nil, []string{"b\nc"} },
	} {
		r := asking(t.Context(), t, http.MethodGet, &url.URL{Scheme: "http", Host: "h.example"})
		body := &closing{Reader: strings.NewReader("x")}
		r.Body = body
		change(r)
		if resp, err := client.RoundTrip(r); err == nil {
			resp.Body.Close()
			t.Errorf("%s: sent", name)
		}
		equal(t, name+": body closed", body.closed, r.Body != nil)
	}
	equal(t, "left", held(client), h1.Stats{})
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// Round trips and Posts use the same connections, in either order: over TLS there is
// one handshake.
func TestRoundTripSharesWithPost(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for name, first := range map[string]string{
			"a round trip first": http.MethodGet, "HEAD first": http.MethodHead, "a Post first": http.MethodPost,
		} {
			t.Run(name, func(t *testing.T) {
				s := w.serve(t, answering(ok204))
				client := newClient(t, w.cfg)
				for _, method := range []string{first, http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPost} {
					if method == http.MethodPost {
						equal(t, "status", s.status(t, client, "x"), 204)
						continue
					}
					resp, err := s.get(t.Context(), t, client, method)
					if err != nil {
						t.Fatal(err)
					}
					equal(t, "status", resp.StatusCode, 204)
					_ = resp.Body.Close()
				}
				equal(t, "connections", s.connections(), 1)
				equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
			})
		}
	})
}

// Answers come as http.ReadResponse reads them, and a connection is kept where nothing
// about its answer is odd.
func TestRoundTripAnswers(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 10<<10)
	for name, c := range map[string]struct {
		method, answer string
		status         int
		body           string
		kept           bool
	}{
		"a length":             {"GET", ok200, 200, "ok", true},
		"no body":              {"GET", ok204, 204, "", true},
		"not modified":         {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "", true},
		"an empty body":        {"GET", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, "", true},
		"chunks":               {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n4;x=y\r\n now\r\n0\r\n\r\n", 200, "ok now", true},
		"chunks, a trailer":    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", 200, "ok", true},
		"large":                {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 163840\r\n\r\n" + large, 200, large, true},
		"HEAD":                 {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 163840\r\n\r\n", 200, "", true},
		"HEAD, chunked":        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", true},
		"HEAD with a body":     {"HEAD", ok200, 200, "", false},
		"interim answers":      {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + ok200, 200, "ok", true},
		"another protocol":     {"GET", "HTTP/1.1 101 Switching Protocols\r\n\r\n", 101, "", false},
		"a redirect":           {"GET", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nok", 307, "ok", true},
		"compressed, as it is": {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
		"the server closes":    {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
		"HTTP/1.0":             {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
		"more than was asked":  {"GET", ok200 + ok200, 200, "ok", false},
		"behind the end":       {"GET", ok204 + "x", 204, "", false},
		"lines without CR":     {"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", true},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				s := w.serve(t, answering(c.answer))
				client := newClient(t, w.cfg)
				for range 2 {
					resp, err := s.get(t.Context(), t, client, c.method)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Fatal(err)
					}
					equal(t, "status", resp.StatusCode, c.status)
					equal(t, "body arrived", string(body) == c.body, true)
					equal(t, "under way after the end", client.Stats().UnderWay, 0)
					if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
						t.Errorf("a read after the end: %d, %v", n, err)
					}
					equal(t, "closing", resp.Body.Close(), nil)
					equal(t, "closing again", resp.Body.Close(), nil)
				}
				if c.kept {
					equal(t, "connections", s.connections(), 1)
					equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
				} else {
					equal(t, "connections", s.connections(), 2)
					equal(t, "left", held(client), h1.Stats{})
				}
			})
		})
	}
}

// A request that says that its connection will close is the last on it.
func TestRoundTripCloses(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, answering(ok204))
		client := newClient(t, w.cfg)
		r := asking(t.Context(), t, http.MethodGet, s.url())
		r.Close = true
		equal(t, "error", whole(client, r), nil)
		equal(t, "left", held(client), h1.Stats{})
	})
}

// A body that ends with its connection is read to that end.
func TestRoundTripToTheEnd(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nto the end")
		})
		client := newClient(t, w.cfg)
		equal(t, "body", s.body(t, client), "to the end")
		equal(t, "left", held(client), h1.Stats{})
	})
}

// An invalid answer is an error, and leaves nothing.
func TestRoundTripFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   error // nil: any
	}{
		"nothing":        {"", io.EOF},
		"garbage":        {"220 mail.example ESMTP\r\n\r\n", nil},
		"half a head":    {"HTTP/1.1 200 OK\r\nX:", io.ErrUnexpectedEOF},
		"two lengths":    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", nil},
		"a large header": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 64<<10) + "\r\n\r\n", h1.ErrHeaderTooLarge},
		"large interim ones": {strings.Repeat(
			"HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("y", 15<<10)+"\r\n\r\n", 5,
		) + ok200, h1.ErrHeaderTooLarge},
		"many interim ones":   {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 6) + ok200, nil},
		"half a body":         {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", io.ErrUnexpectedEOF},
		"half a chunk":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf", io.ErrUnexpectedEOF},
		"a bad chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf", nil},
		"an endless trailer":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 1<<10), nil},
		"an endless 1xx line": {"HTTP/1.1 100 " + strings.Repeat("y", 70<<10), h1.ErrHeaderTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				s := w.serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
					take(r)
					_, _ = io.WriteString(conn, c.answer)
				})
				client := newClient(t, w.cfg)
				resp, err := s.get(t.Context(), t, client, http.MethodGet)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_, again := resp.Body.Read(make([]byte, 1))
					equal(t, "the same error again", again, err)
					_ = resp.Body.Close()
				}
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				equal(t, "left", held(client), h1.Stats{})
				equal(t, "connections", s.connections(), 1)
			})
		})
	}
}

// Of a body that is closed early a small rest is read, and the connection used again. A
// large one is not.
func TestRoundTripClosedEarly(t *testing.T) {
	large := strings.Repeat("x", 200<<10)
	for name, c := range map[string]struct {
		answer string
		kept   bool
	}{
		"a little":      {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\na body here", true},
		"a few chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\nabc\r\n0\r\n\r\n", true},
		"much":          {"HTTP/1.1 200 OK\r\nContent-Length: 204800\r\n\r\n" + large, false},
		"a large chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n32000\r\n" + large + "\r\n0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, w way) {
				s := w.serve(t, answering(c.answer))
				client := newClient(t, w.cfg)
				resp, err := s.get(t.Context(), t, client, http.MethodGet)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				equal(t, "closing", resp.Body.Close(), nil)
				if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Errorf("a read after closing: %v", err)
				}
				if c.kept {
					equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
				} else {
					equal(t, "left", held(client), h1.Stats{})
				}
			})
		})
	}
}

// The rest of a body is not waited for: not for long where it drips, and not at all where
// it is known to be large.
func TestRoundTripClosedWhileItDrips(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want time.Duration
	}{
		"a length":       {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", time.Second},
		"chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n", time.Second},
		"a large length": {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 0},
		"to the end":     {"HTTP/1.1 200 OK\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Dial = piped(func(conn net.Conn, r *bufio.Reader) {
					take(r)
					_, _ = io.WriteString(conn, c.head)
					time.Sleep(100 * time.Millisecond)
					drips(conn, strings.Repeat("x", 40))
				})
				client := newClient(t, cfg)
				resp, err := client.RoundTrip(asking(t.Context(), t, http.MethodGet, pipedURL))
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				_ = resp.Body.Close()
				equal(t, "it took", time.Since(begun), c.want)
				equal(t, "left", held(client), h1.Stats{})
				time.Sleep(time.Minute) // its server ends
			})
		})
	}
}

// pipedURL is a URL for servers of piped, that of request.
var pipedURL = &url.URL{Scheme: "http", Host: "h.example", Path: "/"}

// A kept connection that turns out to be closed costs a repetition, on a new one; one
// that was new, or had begun to answer, does not. As for Post.
func TestRoundTripOverStaleConnection(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for name, c := range map[string]struct {
			second string // what the first connection says to the second request
			all    bool   // and all others to their first
			failed bool
			conns  int
		}{
			"kept, silent":             {"", false, false, 2},
			"kept, began to answer":    {"HTTP/1.1 2", false, true, 1},
			"kept, then new, silent":   {"", true, true, 2},
			"kept, answers and closes": {ok204, false, false, 1},
		} {
			t.Run(name, func(t *testing.T) {
				s := w.serve(t, func(n int, conn net.Conn, r *bufio.Reader) {
					take(r)
					if n > 1 && c.all {
						return
					}
					_, _ = io.WriteString(conn, ok204)
					if n == 1 {
						take(r)
						_, _ = io.WriteString(conn, c.second)
					}
				})
				client := newClient(t, w.cfg)
				equal(t, "status", s.status(t, client, "one"), 204)
				resp, err := s.get(t.Context(), t, client, http.MethodGet)
				equal(t, "failed", err != nil, c.failed)
				if err == nil {
					_ = resp.Body.Close()
				}
				equal(t, "connections", s.connections(), c.conns)
			})
		}
	})
}

// An answer that comes before anything was read counts, also where the server closes at
// once; its connection is not used again.
func TestRoundTripEarlyAnswer(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, func(_ int, c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy")
			<-t.Context().Done() // it never reads
		})
		client := newClient(t, w.cfg)
		equal(t, "body", s.body(t, client), "busy")
		equal(t, "left", held(client), h1.Stats{})
	})
}

// holdUps are servers that hold a round trip up, each in another stage.
var holdUps = map[string]func(c net.Conn, r *bufio.Reader){ // nil: dialing hangs
	"dialing hangs":   nil,
	"nothing is read": func(net.Conn, *bufio.Reader) { time.Sleep(time.Hour) },
	"nothing is said": func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) },
	"a dripping head": func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 1000))
	},
	"interim answers": func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000))
	},
	"a dripping body": func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, "HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 1000))
	},
	"half of a body": func(c net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(c, ok200[:len(ok200)-1])
		time.Sleep(time.Hour)
	},
	"a body in chunks": func(c net.Conn, r *bufio.Reader) {
		take(r)
		drips(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"+strings.Repeat("x", 1000))
	},
}

// whole makes a round trip and reads its body.
func whole(client *h1.Client, r *http.Request) error {
	resp, err := client.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// The context alone bounds a round trip, in all stages, and its end is the error.
func TestRoundTripDeadline(t *testing.T) {
	cause := errors.New("the reason")
	for name, handle := range holdUps {
		for what, limit := range map[string]struct {
			context func(context.Context) (context.Context, context.CancelFunc)
			want    error
		}{
			"a timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 40*time.Second)
			}, context.DeadlineExceeded},
			"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(40*time.Second, cancel)
				return ctx, cancel
			}, context.Canceled},
			"with a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(40*time.Second, func() { cancel(cause) })
				return ctx, func() { cancel(nil) }
			}, cause},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := config()
					cfg.Timeout, cfg.Dial = 5*time.Second, piped(handle)
					client := newClient(t, cfg)
					ctx, cancel := limit.context(t.Context())
					defer cancel()
					begun := time.Now()
					err := whole(client, asking(ctx, t, http.MethodGet, pipedURL))
					if !errors.Is(err, limit.want) {
						t.Errorf("got %v", err)
					}
					equal(t, "it took", time.Since(begun), 40*time.Second)
					equal(t, "left", held(client), h1.Stats{})
					if err := whole(client, asking(ctx, t, http.MethodGet, pipedURL)); !errors.Is(err, limit.want) {
						t.Errorf("begun after the end: %v", err)
					}
					synctest.Wait()
					time.Sleep(2 * time.Hour) // its server ends
					ticking, watches := client.Watching()
					equal(t, "the clock runs", ticking, false)
					equal(t, "contexts watched", watches, 0)
				})
			})
		}
	}
}

// The same on real sockets.
func TestRoundTripCancelOnSockets(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		for name, answer := range map[string]string{
			"silent":      "",
			"half a head": "HTTP/1.1 200 OK\r\n",
			"half a body": ok200[:len(ok200)-1],
		} {
			t.Run(name, func(t *testing.T) {
				asked := make(chan bool, 1)
				s := w.serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
					take(r)
					_, _ = io.WriteString(conn, answer)
					asked <- true
					_, _ = io.Copy(io.Discard, conn)
				})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-asked; cancel() }()
				client := newClient(t, w.cfg)
				if err := whole(client, asking(ctx, t, http.MethodGet, s.url())); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				equal(t, "left", held(client), h1.Stats{})
			})
		}
	})
}

// A context that ends behind the answer takes nothing from it, and breaks nothing off
// that another request does by then.
func TestRoundTripCancelledAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
			for {
				if _, ok := take(r); !ok {
					return
				}
				time.Sleep(time.Second)
				_, _ = io.WriteString(c, ok200)
			}
		})
		client := newClient(t, cfg)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			if err := whole(client, asking(ctx, t, http.MethodGet, pipedURL)); err != nil {
				t.Fatal(err)
			}
			go cancel()
			if a, err := client.Post(t.Context(), request(t, "")); err != nil || a.Status != 200 {
				t.Fatalf("%v, %v", a, err)
			}
		}
		equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		client.CloseIdleConnections()
	})
}

// Nothing waits for the end of the context of a round trip that is over.
func TestRoundTripForgetsContext(t *testing.T) {
	w := way{cfg: config(), listen: listenPlain}
	for name, answer := range map[string]string{"no body": ok204, "a body": ok200, "none": ""} {
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, answer)
		})
		ctx := &hooked{Context: context.Background(), done: make(chan struct{})}
		err := whole(newClient(t, w.cfg), asking(ctx, t, http.MethodGet, s.url()))
		equal(t, name+": failed", err != nil, answer == "")
		equal(t, name+": hooked to the context", ctx.hooks, 0)
		equal(t, name+": was hooked", ctx.all > 0, true)
	}
}

// hooked is a context that counts what waits for its end.
type hooked struct {
	context.Context
	done       chan struct{}
	hooks, all int // of the goroutine of the round trip
}

func (h *hooked) Done() <-chan struct{} { return h.done }

func (h *hooked) AfterFunc(func()) (stop func() bool) {
	h.hooks++
	h.all++
	return func() bool { h.hooks--; return true }
}

// Round trips count among the connections of a host, wait for one and hand theirs on,
// when the body ends.
func TestRoundTripWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.MaxConnsPerHost = 1
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) { answering(ok200)(1, c, r) })
		client := newClient(t, cfg)
		first, err := client.RoundTrip(asking(t.Context(), t, http.MethodGet, pipedURL))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := whole(client, asking(ctx, t, http.MethodGet, pipedURL)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that waits too long: %v", err)
		}
		equal(t, "under way", held(client), h1.Stats{Hosts: 1, Conns: 1, UnderWay: 1})
		errs := make(chan error, 2)
		go func() { errs <- whole(client, asking(t.Context(), t, http.MethodGet, pipedURL)) }()
		synctest.Wait()
		go func() {
			_, err := client.Post(t.Context(), request(t, ""))
			errs <- err
		}()
		synctest.Wait()
		equal(t, "under way", held(client), h1.Stats{Hosts: 1, Conns: 1, UnderWay: 3})
		_ = first.Body.Close()
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		equal(t, "left", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		client.CloseIdleConnections()
	})
}

// Connections that carried round trips alone end after IdleTimeout, too.
func TestRoundTripIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		ended := make(chan time.Time, 1)
		cfg.Dial = piped(func(c net.Conn, r *bufio.Reader) {
			take(r)
			time.Sleep(10 * time.Second)
			_, _ = io.WriteString(c, ok200)
			take(r)
			ended <- time.Now()
		})
		client := newClient(t, cfg)
		if err := whole(client, asking(t.Context(), t, http.MethodGet, pipedURL)); err != nil {
			t.Fatal(err)
		}
		last := time.Now()
		equal(t, "idle", held(client), h1.Stats{Hosts: 1, Conns: 1, Idle: 1})
		if took := (<-ended).Sub(last); took < cfg.IdleTimeout-200*time.Millisecond || took > cfg.IdleTimeout+200*time.Millisecond {
			t.Errorf("closed after %s", took)
		}
		equal(t, "left", held(client), h1.Stats{})
	})
}

// Many at a time, and each gets its own answer.
func TestRoundTripConcurrently(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				resp := &http.Response{
					StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Request: req,
					TransferEncoding: []string{"chunked"},
					Body:             io.NopCloser(strings.NewReader(req.URL.RawQuery)),
				}
				if resp.Write(c) != nil {
					return
				}
			}
		})
		client := newClient(t, w.cfg)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 20 {
					u := s.url()
					u.RawQuery = strings.Repeat("x", 1000*i+j+1)
					if j%4 == 3 {
						s.status(t, client, u.RawQuery)
						continue
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					resp, err := client.RoundTrip(asking(ctx, t, http.MethodGet, u))
					if err != nil {
						t.Error(err)
					} else if b, err := io.ReadAll(resp.Body); err != nil || string(b) != u.RawQuery {
						t.Errorf("%d bytes instead of %d, %v", len(b), len(u.RawQuery), err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if n := client.Stats().Conns; n > w.cfg.MaxConnsPerHost {
			t.Errorf("%d connections", n)
		}
		equal(t, "under way", client.Stats().UnderWay, 0)
	})
}
