package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// villains are servers that answer by tricks, each with several addresses. /TRICK/NAME plays the trick
// on a POST, /topic/TRICK on a GET of a topic, /ask/TRICK on a question for intent. Every other
// request gets an honest answer, so that the subscriptions become active.
type villains struct {
	listeners []net.Listener // each an origin; the last one speaks TLS
	bomb      []byte         // gzip of a great many zeros
	hub       atomic.Pointer[string]
	armed     atomic.Bool // from when on there is no honest TLS any more

	posts  atomic.Int64    // deliveries that came
	asked  atomic.Int64    // verifications and topic checks that were answered by tricks
	most   [2]atomic.Int64 // bytes that one connection took of a trick, by what for
	bodies atomic.Int64    // bytes of deliveries that were read
	gone   chan struct{}
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	byPath map[string]int // deliveries to each callback
	good   *sink          // takes what comes to /good/NAME
	ending sync.WaitGroup
}

// The purposes of a connection to a villain, as far as they are counted. The fetch of a topic after a
// ping is bounded by --max-body.
const (
	delivered = iota
	asked
	fetched
)

// villain is one connection to them.
type villain struct {
	net.Conn
	of      *villains
	purpose int
	out     int64
}

func (v *villain) Write(p []byte) (int, error) {
	n, err := v.Conn.Write(p)
	if v.out += int64(n); v.purpose != fetched {
		counted := &v.of.most[v.purpose]
		for most := counted.Load(); v.out > most && !counted.CompareAndSwap(most, v.out); {
			most = counted.Load()
		}
	}
	return n, err
}

// say writes a text, forever repeats it until the reader stops.
func (v *villain) say(text string)     { _, _ = io.WriteString(v, text) }
func (v *villain) forever(text string) { v.flood([]byte(strings.Repeat(text, 1+4096/len(text)))) }

func (v *villain) flood(piece []byte) {
	for {
		if _, err := v.Write(piece); err != nil {
			return
		}
	}
}

// trickle writes a text byte by byte.
func (v *villain) trickle(text string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(text) {
		select {
		case <-v.of.gone:
			return
		case <-tick.C:
		}
		if _, err := io.WriteString(v, text[i:i+1]); err != nil {
			return
		}
	}
}

// hang says nothing and reads nothing.
func (v *villain) hang() {
	<-v.of.gone
}

const plain = "HTTP/1.1 200 OK\r\n"

// tricks are the ways to answer badly. Those that begin with a whole header of 2xx
// count as delivered, the others fail.
var tricks = map[string]func(v *villain){
	"endless-header":    func(v *villain) { v.say(plain); v.forever("X-Filler: filler\r\n") },
	"endless-line":      func(v *villain) { v.say(plain + "X-Filler: "); v.forever("filler") },
	"endless-status":    func(v *villain) { v.say("HTTP/1.1 200 "); v.forever("OK") },
	"endless-body":      func(v *villain) { v.say(plain + "\r\n"); v.forever("filler") },
	"endless-chunks":    func(v *villain) { v.say(plain + chunked); v.forever("6\r\nfiller\r\n") },
	"tiny-chunks":       func(v *villain) { v.say(plain + chunked); v.forever("1;" + strings.Repeat("x", 500) + "\r\nf\r\n") },
	"endless-extension": func(v *villain) { v.say(plain + chunked + "1;"); v.forever("x") },
	"endless-trailer":   func(v *villain) { v.say(plain + chunked + "0\r\n"); v.forever("X-Filler: filler\r\n") },
	"huge-chunk":        func(v *villain) { v.say(plain + chunked + "7FFFFFFFFFFFFFFF\r\n"); v.forever("filler") },
	"absurd-chunk":      func(v *villain) { v.say(plain + chunked + "FFFFFFFFFFFFFFFFFFFF\r\n"); v.forever("filler") },
	"gigabyte":          func(v *villain) { v.say(plain + "Content-Length: 1073741824\r\n\r\n"); v.forever("filler") },
	"negative-length":   func(v *villain) { v.say(plain + "Content-Length: -1\r\n\r\n"); v.forever("filler") },
	"two-lengths": func(v *villain) {
		v.say(plain + "Content-Length: 1\r\nContent-Length: 900000000\r\n\r\n")
		v.forever("filler")
	},
	"gzip-bomb": func(v *villain) {
		v.say(fmt.Sprintf(plain+"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(v.of.bomb)))
		_, _ = v.Write(v.of.bomb)
		v.hang()
	},
	"endless-gzip": func(v *villain) { v.say(plain + "Content-Encoding: gzip\r\n\r\n"); v.flood(v.of.bomb) },
	"interim":      func(v *villain) { v.forever("HTTP/1.1 100 Continue\r\n\r\n") },
	"early-hints": func(v *villain) {
		v.forever("HTTP/1.1 103 Early Hints\r\nX-Filler: " + strings.Repeat("filler", 100) + "\r\n\r\n")
	},
	"switches":       func(v *villain) { v.say("HTTP/1.1 101 Switching Protocols\r\n\r\n"); v.forever("filler") },
	"second-answer":  func(v *villain) { v.forever(plain + "Content-Length: 0\r\n\r\n") },
	"trickle-header": func(v *villain) { v.trickle(plain + "X-Filler: fillerfillerfillerfillerfiller") },
	"trickle-body": func(v *villain) {
		v.say(plain + "Content-Length: 9000\r\n\r\n")
		v.trickle("filler")
	},
	"trickle-chunks": func(v *villain) { v.say(plain + chunked); v.trickle("1\r\nf\r\n") },
	"silent":         func(v *villain) { v.hang() },
	"half-header":    func(v *villain) { v.say(plain + "X-Filler"); v.hang() },
	"half-close": func(v *villain) {
		v.say(plain + "X-Filler: f")
		if half, ok := v.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		v.hang()
	},
	"resets": func(v *villain) { v.reset() },
	"resets-later": func(v *villain) {
		v.say(plain + "X-Filler: filler")
		v.reset()
	},
	"closes":    func(*villain) {},
	"garbage":   func(v *villain) { v.flood(noise()) },
	"redirects": func(v *villain) { v.say("HTTP/1.1 302 Found\r\nLocation: /redirects/x\r\n\r\n"); v.forever("filler") },
	"never-again": func(v *villain) {
		v.say("HTTP/1.1 503 Later\r\nRetry-After: 999999999999\r\n\r\n")
		v.forever("filler")
	},
}

const chunked = "Transfer-Encoding: chunked\r\n\r\n"

// trickNames are the names of all tricks, in a fixed order.
func trickNames() (names []string) {
	for name := range tricks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (v *villain) reset() {
	if tcp, ok := v.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func noise() []byte {
	b := make([]byte, 8<<10)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// newVillains starts servers on several addresses of this machine, and one that
// speaks TLS. Its certificate is trusted by processes that are started from then on.
func newVillains(t *testing.T, good *sink, addresses ...string) *villains {
	t.Helper()
	vs := &villains{good: good, gone: make(chan struct{}), conns: map[net.Conn]struct{}{}, byPath: map[string]int{}}
	empty := ""
	vs.hub.Store(&empty)
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = zip.Write(make([]byte, 1<<20))
	}
	_ = zip.Close()
	vs.bomb = bomb.Bytes()
	t.Cleanup(vs.close)
	for _, address := range addresses {
		ln, err := net.Listen("tcp", address+":0")
		if err != nil {
			t.Fatal(err)
		}
		vs.listeners = append(vs.listeners, ln)
		vs.ending.Go(func() { vs.serve(ln, nil) })
	}
	secure := httptest.NewUnstartedServer(nil)
	secure.StartTLS()
	certificate := secure.TLS
	trustServer(t, secure.Certificate())
	secure.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vs.listeners = append(vs.listeners, ln)
	vs.ending.Go(func() { vs.serve(ln, &tls.Config{Certificates: certificate.Certificates}) })
	return vs
}

func (vs *villains) close() {
	close(vs.gone)
	for _, ln := range vs.listeners {
		_ = ln.Close()
	}
	vs.mu.Lock()
	for conn := range vs.conns {
		_ = conn.Close()
	}
	vs.mu.Unlock()
	vs.ending.Wait()
}

// origin is the scheme and host of one of the servers.
func (vs *villains) origin(i int) string {
	scheme := "http://"
	if i == len(vs.listeners)-1 {
		scheme = "https://"
	}
	return scheme + vs.listeners[i].Addr().String()
}

// count is how many deliveries came to a callback.
func (vs *villains) count(callback string) int {
	_, hostAndPath, _ := strings.Cut(callback, "://")
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.byPath[hostAndPath]
}

func (vs *villains) serve(ln net.Listener, secure *tls.Config) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		// Unread bytes that the system holds count as sent: keep them few.
		_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
		_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		vs.mu.Lock()
		vs.conns[conn] = struct{}{}
		vs.mu.Unlock()
		vs.ending.Go(func() {
			vs.meet(conn, secure)
			_ = conn.Close()
			vs.mu.Lock()
			delete(vs.conns, conn)
			vs.mu.Unlock()
		})
	}
}

// meet answers the requests on a connection, until it has played a trick.
func (vs *villains) meet(conn net.Conn, secure *tls.Config) {
	v := &villain{Conn: conn, of: vs}
	if secure != nil {
		if vs.armed.Load() && vs.badHandshake(v) {
			return
		}
		v.Conn = tls.Server(conn, secure)
	}
	in := bufio.NewReaderSize(v.Conn, 8<<10)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		path := strings.Split(strings.TrimPrefix(req.URL.Path, "/"), "/")
		switch trick := tricks[path[len(path)-1]]; {
		case req.Method == http.MethodPost && path[0] == "good":
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			io.WriteString(v.Conn, plain+"Content-Length: 0\r\n\r\n")
			vs.good.record(path[1], arrival{body: string(body), at: time.Now()})
			continue
		case req.Method == http.MethodPost:
			vs.posts.Add(1)
			vs.mu.Lock()
			vs.byPath[req.Host+req.URL.Path]++
			vs.mu.Unlock()
			if tricks[path[0]] != nil {
				tricks[path[0]](v)
			} else {
				vs.unusual(v, path[0], req)
			}
			return
		case trick != nil && path[0] == "fetched":
			v.purpose = fetched
			trick(v)
			return
		case trick != nil && (path[0] == "topic" || path[0] == "ask"):
			vs.asked.Add(1)
			v.purpose = asked
			trick(v)
			return
		}
		body := req.URL.Query().Get("hub.challenge")
		if body != "" {
			vs.good.verify("villain")
		}
		fmt.Fprintf(v.Conn, "%sLink: <http://%s%s>; rel=self, <%s>; rel=hub\r\nContent-Length: %d\r\n\r\n%s",
			plain, req.Host, req.URL.Path, *vs.hub.Load(), len(body), body)
	}
}

// unusual tricks are about the request: it is not read, or hardly.
func (vs *villains) unusual(v *villain, trick string, req *http.Request) {
	switch trick {
	case "reads-nothing":
		v.hang()
	case "reads-slowly":
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for piece := make([]byte, 512); ; {
			n, err := req.Body.Read(piece)
			vs.bodies.Add(int64(n))
			if err != nil {
				return
			}
			select {
			case <-vs.gone:
				return
			case <-tick.C:
			}
		}
	case "answers-early":
		v.say(plain + "Content-Length: 0\r\n\r\n")
		v.hang()
	}
}

// badHandshake plays tricks instead of TLS, now one, now another, and sometimes none.
func (vs *villains) badHandshake(v *villain) bool {
	switch rand.IntN(5) {
	case 0:
		v.flood(noise())
	case 1: // a record of the greatest size, of a kind that there is, for ever
		v.flood(append([]byte{22, 3, 3, 0x40, 0}, make([]byte, 0x4000)...))
	case 2:
		v.hang()
	case 3:
		v.forever(plain + "\r\n")
	default:
		return false
	}
	return true
}

// trustServer has processes that are started from here on trust a server, and no other.
func trustServer(t *testing.T, certificate *x509.Certificate) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trusted.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", name)
}
