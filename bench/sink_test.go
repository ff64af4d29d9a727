package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// startSink starts a sink in this process.
func startSink(t *testing.T) (s *sink, address string) {
	t.Helper()
	listeners, err := listenHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listeners[0].Close() })
	s = &sink{}
	go accept(listeners[0], s.plain)
	return s, listeners[0].Addr().String()
}

// caller is one connection to a sink.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, address string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil { // a test that fails ends
		t.Fatal(err)
	}
	return &caller{t, conn, bufio.NewReader(conn)}
}

// write writes the text in pieces of so many bytes.
func (c *caller) write(text string, piece int) {
	c.t.Helper()
	for part := range slices.Chunk([]byte(text), piece) {
		if _, err := c.conn.Write(part); err != nil {
			c.t.Error(err) // it may run beside the test
			return
		}
	}
}

func (c *caller) want(status int, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != status || string(got) != body {
		c.t.Fatalf("answered %d %q, want %d %q", resp.StatusCode, got, status, body)
	}
}

func request(path string, bodyBytes int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: callback\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nX-Hub-Signature: sha256=00\r\n\r\n%s",
		path, bodyBytes, strings.Repeat("x", bodyBytes))
}

// A request that comes in pieces, in one with others, or larger than the buffer is counted once, and
// each is answered.
func TestSinkCounts(t *testing.T) {
	for _, bodyBytes := range []int{0, 1, stampSize - 1, 1024, connBuffer - 200, connBuffer, 5*connBuffer + 3} {
		for _, piece := range []int{7, 1000, connBuffer, 1 << 20} {
			t.Run(fmt.Sprintf("%d bytes by %d", bodyBytes, piece), func(t *testing.T) {
				t.Parallel()
				s, address := startSink(t)
				c := dial(t, address)
				one := request("/callback/1", bodyBytes)
				go c.write(strings.Repeat(one, 3)+"GET /count HTTP/1.1\r\nHost: callback\r\n\r\n"+one, piece)
				for range 3 {
					c.want(http.StatusNoContent, "")
				}
				c.want(http.StatusOK, "3")
				c.want(http.StatusNoContent, "")
				c.write(one, piece)
				c.want(http.StatusNoContent, "")
				if n := s.count.Load(); n != 5 {
					t.Errorf("counted %d of 5", n)
				}
			})
		}
	}
}

// chunked has no Content-Length: that is not a sender's quick way, and works all the same.
func TestSinkTakesChunks(t *testing.T) {
	s, address := startSink(t)
	c := dial(t, address)
	c.write("POST /callback/1 HTTP/1.1\r\nHost: callback\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+request("/callback/1", 10), 5)
	c.want(http.StatusNoContent, "")
	c.want(http.StatusNoContent, "")
	if n := s.count.Load(); n != 2 {
		t.Errorf("counted %d of 2", n)
	}
}

func TestSinkAnswers(t *testing.T) {
	s, address := startSink(t)
	c := dial(t, address)
	c.write("GET /callback/1?hub.challenge=abc HTTP/1.1\r\nHost: callback\r\n\r\n", 1000)
	c.want(http.StatusOK, "abc")
	c.write(request("/fail/1", 10), 1000)
	c.want(http.StatusInternalServerError, "")
	c.write("GET /nothing HTTP/1.1\r\nHost: callback\r\n\r\n", 1000)
	c.want(http.StatusNotFound, "")
	c.write("HEAD /topic/a HTTP/1.1\r\nHost: "+address+"\r\n\r\n", 1000)
	resp, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodHead})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if want := `<http://` + address + `/topic/a>; rel="self", <` + hubURL + `>; rel="hub"`; resp.Header.Get("Link") != want {
		t.Errorf("links %q, want %q", resp.Header.Get("Link"), want)
	}
	if n := s.count.Load(); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// A held request is answered by the release, and later ones at once.
func TestSinkHolds(t *testing.T) {
	s, address := startSink(t)
	held, other := dial(t, address), dial(t, address)
	other.write(request("/hold", 0), 1000)
	other.want(http.StatusNoContent, "")
	held.write(request("/held/1", 10), 1000)
	other.write(request("/callback/1", 10), 1000)
	other.want(http.StatusNoContent, "")
	if n := s.count.Load(); n != 1 {
		t.Errorf("counted %d while one was held, want 1", n)
	}
	other.write(request("/release", 0), 1000)
	other.want(http.StatusNoContent, "")
	held.want(http.StatusNoContent, "")
	held.write(request("/held/1", 10), 1000)
	held.want(http.StatusNoContent, "")
	if n := s.count.Load(); n != 3 {
		t.Errorf("counted %d, want 3", n)
	}
}

// Wherever a request is cut, it is counted and timed once, when it is whole.
func TestQuickPieces(t *testing.T) {
	body := string(stamped(time.Now(), 3, 0)) + "x"
	one := fmt.Sprintf("POST /callback/1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for cut := range len(one) {
		s := &tally{}
		q := &quick{tally: s, buf: make([]byte, connBuffer)}
		for i, part := range []string{one[:cut], one[cut:]} {
			q.w += copy(q.buf[q.w:], part)
			if q.use() {
				t.Fatalf("cut at %d: not taken for a notification", cut)
			}
			if n := s.count.Load(); int(n) != i {
				t.Fatalf("cut at %d: counted %d after part %d", cut, n, i)
			}
		}
		if string(q.out) != noContent || len(s.ways) != 1 || s.ways[0].Burst != 3 {
			t.Errorf("cut at %d: answered %q, timed %+v", cut, q.out, s.ways)
		}
	}
}

func TestSinkTimes(t *testing.T) {
	_, address := startSink(t)
	c := dial(t, address)
	at := time.Now()
	body := string(stamped(at, 17, 0)) + strings.Repeat("x", 100)
	if len(body) != stampSize+100 {
		t.Fatalf("the stamp has %d bytes, not %d", len(body)-100, stampSize)
	}
	one := fmt.Sprintf("POST /callback/1 HTTP/1.1\r\nHost: callback\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	c.write(one, 1)
	c.want(http.StatusNoContent, "")
	c.write(request("/callback/1", 100), 1000) // bears no stamp
	c.want(http.StatusNoContent, "")
	most := time.Since(at).Nanoseconds()
	ways, err := (&town{hosts: []string{address}, client: newClient()}).ways()
	if err != nil {
		t.Fatal(err)
	}
	if len(ways) != 1 || ways[0].Burst != 17 || ways[0].Took <= 0 || ways[0].Took > most {
		t.Errorf("noted %+v within %d", ways, most)
	}
}

// A check finds what is lost, doubled, out of order or badly signed, and what it
// does not look at is counted only.
func TestSinkChecks(t *testing.T) {
	const callbacks = 2
	for name, c := range map[string]struct {
		numbers []int // as they come to the second callback
		secret  string
		fault   string
	}{
		"all":          {[]int{0, 1, 2}, "secret-1", ""},
		"lost":         {[]int{0, 2}, "secret-1", "notification 2 came where 1 was due"},
		"lost at last": {[]int{0, 1}, "secret-1", "had 2 notifications, not 3"},
		"doubled":      {[]int{0, 1, 1, 2}, "secret-1", "notification 1 came where 2 was due"},
		"out of order": {[]int{1, 0, 2}, "secret-1", "notification 1 came where 0 was due"},
		"after it":     {[]int{0, 1, 2, 3}, "secret-1", "had 4 notifications, not 3"},
		"badly signed": {[]int{0, 1, 2}, "secret-0", "notification 0 is signed"},
		"nothing":      {nil, "secret-1", "1 callbacks had notifications, not 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s, address := startSink(t)
			town := &town{hosts: []string{address}, client: newClient()}
			if err := town.order("/check"); err != nil {
				t.Fatal(err)
			}
			conn := dial(t, address)
			for _, n := range []int{0, 1, 2} {
				conn.write(signed("/callback/0", n, "secret-0"), 1000)
				conn.want(http.StatusNoContent, "")
			}
			for _, n := range c.numbers {
				conn.write(signed("/callback/1", n, c.secret), 1000)
				conn.want(http.StatusNoContent, "")
			}
			err := town.checked(callbacks, 3)
			if got := fmt.Sprint(err); c.fault == "" && err != nil || !strings.Contains(got, c.fault) {
				t.Errorf("found %q, want %q", got, c.fault)
			}
			conn.write(request("/callback/0", 10), 1000)
			conn.want(http.StatusNoContent, "")
			if n, want := s.count.Load(), int64(4+len(c.numbers)); n != want {
				t.Errorf("counted %d, want %d", n, want)
			}
		})
	}
}

// signed is the request of a notification with this number.
func signed(path string, number int, secret string) string {
	body := stamped(time.Now(), number, 0)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: callback\r\nContent-Length: %d\r\nX-Hub-Signature: sha256=%x\r\n\r\n%s",
		path, len(body), mac.Sum(nil), body)
}
