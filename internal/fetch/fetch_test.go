package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/fetch"
)

// roundTrip is a Transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// site redirects each address to the next of the map, and answers others with 200.
func site(leads map[string]string, asked *[]string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.URL.String())
		resp := httptest.NewRecorder()
		if to, ok := leads[r.URL.String()]; ok {
			resp.Header().Set("Location", to)
			resp.WriteHeader(http.StatusFound)
		}
		return resp.Result(), nil
	}
}

func request(ctx context.Context, t *testing.T, method, uri string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("If-None-Match", `"1"`)
	return r
}

// A redirect is followed as far as the number, the form of its address and Lead allow.
func TestRedirects(t *testing.T) {
	errOther := errors.New("other")
	other := func(_, to *url.URL) error {
		if to.Path == "/no" {
			return errOther
		}
		to.Host = strings.Replace(to.Host, "old", "new", 1)
		return nil
	}
	for _, tt := range []struct {
		name, method, from, to string
		lead                   func(from, to *url.URL) error
		last                   string // empty: it is refused
		err                    error
	}{
		{"relative", "GET", "http://a.test/x/y", "../z?q#f", nil, "http://a.test/z?q", nil},
		{"HEAD", "HEAD", "http://a.test/1", "/2", nil, "http://a.test/2", nil},
		{"a redirect is wanted", "GET", "http://a.test/none", "/2", nil, "http://a.test/none", nil},
		{"POST", "POST", "http://a.test/1", "/2", nil, "http://a.test/1", nil},
		{"anywhere", "GET", "https://a.test/", "http://b.test/", nil, "http://b.test/", nil},
		{"white space", "GET", "http://a.test/1", " /2 ", nil, "http://a.test/2", nil},
		{"round and round", "GET", "http://a.test/1", "/1", nil, "", fetch.ErrRedirects},
		{"a file", "GET", "http://a.test/1", "file:///etc/passwd", nil, "", nil},
		{"a user name", "GET", "http://a.test/1", "http://u:p@a.test/2", nil, "", nil},
		{"no host", "GET", "http://a.test/1", "http:///2", nil, "", nil},
		{"no address", "GET", "http://a.test/1", "http://a.test/%zz", nil, "", nil},
		{"refused", "GET", "http://a.test/1", "/no", other, "", errOther},
		{"changed", "GET", "http://a.test/1", "http://old.test/", other, "http://new.test/", nil},
		{"to the server", "GET", "http://a.test/1", "http://A.test.:80/2", fetch.StayAtServer, "http://A.test.:80/2", nil},
		{"away", "GET", "http://a.test/1", "http://b.test/2", fetch.StayAtServer, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			c := fetch.Client{Transport: site(map[string]string{tt.from: tt.to}, &asked), Redirects: 3, Lead: tt.lead}
			if strings.HasSuffix(tt.from, "/none") {
				c.Redirects = 0
			}
			resp, err := c.Do(request(t.Context(), t, tt.method, tt.from))
			if tt.last == "" {
				trouble, is := errors.AsType[*fetch.Trouble](err)
				if !is || trouble.Kind != fetch.Refused || trouble.OfHost() || tt.err != nil && !errors.Is(err, tt.err) {
					t.Fatalf("%v", err)
				}
				if want := map[bool]int{true: 4, false: 1}[tt.from == "http://a.test"+tt.to]; len(asked) != want {
					t.Errorf("asked for %q", asked)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if last := asked[len(asked)-1]; last != tt.last || resp.Request.URL.String() != tt.last || resp.Request.Header.Get("If-None-Match") == "" {
				t.Errorf("asked for %q, at last for %s", asked, resp.Request.URL)
			}
		})
	}
}

// trickle gives so many bytes after each pause, until its request ends.
type trickle struct {
	ctx   context.Context
	pause time.Duration
	bytes int
}

func (s trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return min(s.bytes, len(p)), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (s trickle) Close() error { return nil }

// A slow or long answer ends at the limit, and nothing waits longer.
func TestLimits(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for _, tt := range []struct {
		name   string
		client fetch.Client
		header time.Duration // until there is a response
		body   trickle
		ends   time.Duration // of the caller's context
		took   time.Duration
		kind   fetch.Kind
	}{
		{"no response", fetch.Client{Window: minute}, time.Hour, trickle{}, time.Hour, minute, fetch.Slow},
		{"silence", fetch.Client{Window: minute}, 0, trickle{pause: time.Hour}, time.Hour, minute, fetch.Slow},
		{"a byte now and then", fetch.Client{Window: minute, Timeout: 10 * minute}, second, trickle{pause: 50 * second, bytes: 1}, time.Hour, 10 * minute, fetch.TooLong},
		{"less than the rate", fetch.Client{Window: minute, Least: 100}, second, trickle{pause: 10 * second, bytes: 10}, time.Hour, minute, fetch.Slow},
		{"the rate", fetch.Client{Window: minute, Least: 50}, 0, trickle{pause: 10 * second, bytes: 10}, 600 * second, 600 * second, ""},
		{"the caller goes", fetch.Client{Window: minute, Timeout: minute}, 0, trickle{pause: time.Hour}, second, second, ""},
		{"the caller goes before", fetch.Client{Window: minute}, time.Hour, trickle{}, second, second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.ends)
				defer cancel()
				tt.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(tt.header):
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					tt.body.ctx = r.Context()
					return &http.Response{StatusCode: http.StatusOK, Body: tt.body}, nil
				})
				begun := time.Now()
				resp, err := tt.client.Do(request(ctx, t, http.MethodGet, "http://a.test/"))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
				}
				trouble, is := errors.AsType[*fetch.Trouble](err)
				if took := time.Since(begun); took != tt.took || is != (tt.kind != "") || is && trouble.Kind != tt.kind || !is && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// The rest of a response is read up to a bound, of bytes and of time.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		name string
		body trickle
		took time.Duration
	}{
		{"a long one", trickle{bytes: 1 << 20}, 0},
		{"a slow one", trickle{pause: 100 * time.Millisecond, bytes: 1}, time.Second},
		{"a silent one", trickle{pause: time.Hour}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fetch.Client{Window: time.Minute, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					tt.body.ctx = r.Context()
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: tt.body}, nil
				})}
				resp, err := c.Do(request(t.Context(), t, http.MethodGet, "http://a.test/"))
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if err := resp.Body.Close(); err != nil || time.Since(begun) != tt.took {
					t.Errorf("closed after %s, want %s: %v", time.Since(begun), tt.took, err)
				}
				if tt.body.ctx.Err() == nil {
					t.Error("the request has not ended")
				}
			})
		})
	}
}

// A short unread response leaves its connection for the next request, as a read one does.
func TestConnection(t *testing.T) {
	var from []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.RemoteAddr)
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, strings.Repeat("x", 10_000))
	}))
	defer server.Close()
	c := fetch.Client{Transport: fetch.NewTransport(1), Redirects: 1}
	defer c.CloseIdleConnections()
	for range 2 {
		resp, err := c.Do(request(t.Context(), t, http.MethodGet, server.URL+"/old"))
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(from) != 4 || from[0] != from[3] {
		t.Errorf("requests came from %q, want one connection", from)
	}
}

// The header of a response is bounded, and what is sent is not unpacked.
func TestTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			w.Header().Set("X-Long", strings.Repeat("x", 100<<10))
		}
		if coding := r.Header.Get("Accept-Encoding"); coding != "" {
			t.Errorf("asked for the coding %q", coding)
		}
	}))
	defer server.Close()
	c := fetch.Client{Transport: fetch.NewTransport(1)}
	defer c.CloseIdleConnections()
	for path, bad := range map[string]bool{"/header": true, "/": false} {
		if err := get(c, request(t.Context(), t, http.MethodGet, server.URL+path)); (err != nil) != bad {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A server that changes the protocol, and then is silent, holds up nothing.
func TestOtherProtocol(t *testing.T) {
	left := make(chan error)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			left <- err
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, err = io.Copy(io.Discard, conn)
		left <- err
	}))
	defer server.Close()
	c := fetch.Client{Transport: fetch.NewTransport(1), Timeout: time.Minute, Window: time.Minute}
	defer c.CloseIdleConnections()
	err := get(c, request(t.Context(), t, http.MethodGet, server.URL))
	if trouble, is := errors.AsType[*fetch.Trouble](err); !is || trouble.Kind != fetch.Refused {
		t.Errorf("%v", err)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// Every failure says whose trouble it is.
func TestTrouble(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server http.HandlerFunc
		kind   fetch.Kind
		host   bool
		after  time.Duration
		text   string
	}{
		{"404", status(404, ""), fetch.Missing, false, 0, "its server answers 404 Not Found"},
		{"410", status(410, ""), fetch.Missing, false, 0, "its server answers 410 Gone"},
		{"403", status(403, "5"), fetch.Refused, false, 0, "its server answers 403 Forbidden"},
		{"204", status(204, ""), fetch.Refused, false, 0, "its server answers 204 No Content"},
		{"299", status(299, ""), fetch.Refused, false, 0, "its server answers 299"},
		{"304", status(304, ""), fetch.Refused, false, 0, "its server answers 304 Not Modified"},
		{"408", status(408, ""), fetch.Busy, true, 0, "its server answers 408 Request Timeout"},
		{"425", status(425, ""), fetch.Busy, true, 0, "its server answers 425 Too Early"},
		{"429", status(429, "7"), fetch.Busy, true, 7 * time.Second, "its server answers 429 Too Many Requests"},
		{"503", status(503, "90"), fetch.Busy, true, 90 * time.Second, "its server answers 503 Service Unavailable"},
		{"no response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fetch.Unreachable, true, 0, "its server cannot be asked: EOF"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, fetch.Broken, false, 0, "its server broke off: unexpected EOF"},
		{"good", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all") }, "", false, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.server)
			defer server.Close()
			c := fetch.Client{Transport: server.Client().Transport, Timeout: time.Hour, Window: time.Hour}
			err := get(c, request(t.Context(), t, http.MethodGet, server.URL))
			trouble, is := errors.AsType[*fetch.Trouble](err)
			switch {
			case tt.kind == "":
				if err != nil {
					t.Error(err)
				}
			case !is || trouble.Kind != tt.kind || trouble.OfHost() != tt.host || trouble.After != tt.after || err.Error() != tt.text:
				t.Errorf("%q, %+v", err, trouble)
			}
		})
	}
}

// A server's text in place of a response does nothing to the readers of the log.
func TestTextOfStrangers(t *testing.T) {
	c := fetch.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("malformed: \x1b[31m%s", strings.Repeat("x", 100_000))
	})}
	_, err := c.Do(request(t.Context(), t, http.MethodGet, "http://a.test/"))
	if text := fmt.Sprint(err); len(text) > 1000 || !strings.HasPrefix(text, "its server cannot be asked: malformed: ?[31mxxx") {
		t.Errorf("%.100q, %d bytes", text, len(text))
	}
}

func status(code int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	}
}

// get reads a resource that is answered with 200.
func get(c fetch.Client, r *http.Request) error {
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if t := fetch.Judge(resp, http.StatusOK); t != nil {
		return t
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// TestAddresses checks what is an address to ask at, and which are of one server.
func TestAddresses(t *testing.T) {
	parse := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for raw, want := range map[string]string{
		"http://A.test.:80/x": "a.test:", "https://a.test:443": "a.test:", "https://a.test:80": "a.test:80", "http://[::1]:8080/": "[::1]:8080",
		"ftp://a.test/": "", "http:a": "", "http://": "", "//a.test/": "", "https://u@a.test/": "",
	} {
		u := parse(raw)
		if fetch.Web(u) != (want != "") {
			t.Errorf("%s is an address: %t", raw, fetch.Web(u))
		}
		if want != "" && fetch.Authority(u) != want {
			t.Errorf("%s is at %s, want %s", raw, fetch.Authority(u), want)
		}
	}
	for _, tt := range []struct {
		from, to string
		same     bool
	}{
		{"http://a.test/1", "http://A.test.:80/2", true},
		{"http://a.test/", "https://a.test/", true},
		{"https://a.test/", "http://a.test/", false},
		{"http://a.test:8080/", "https://a.test:8080/", false},
		{"http://a.test/", "http://a.test:8080/", false},
		{"http://a.test/", "http://b.test/", false},
		{"http://i.test/", "http://\u0130.test/", false}, // DNS has it as xn--i-nib.test
		{"http://k.test/", "http://\u212a.test/", false},
	} {
		if got := fetch.SameServer(parse(tt.from), parse(tt.to)); got != tt.same {
			t.Errorf("%s and %s: %t", tt.from, tt.to, got)
		}
	}
}
