package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// network is what a hub may meet: one good server at 127.0.0.2, which is topics and callbacks
// at once; canaries at 127.0.0.1 and ::1 at the same port, and at 127.0.0.2 at the port of
// another service; and a name server.
type network struct {
	names       *networkNames
	canary      *canary
	port, taken string
	served      atomic.Int64 // requests of the good server

	mu       sync.Mutex
	cond     *sync.Cond
	told     map[string]string // the last hub.mode that each callback got
	contents map[string]string // what a callback was delivered, the last
}

func newNetwork(t *testing.T) *network {
	w := &network{names: newNetworkNames(t), canary: &canary{}, told: map[string]string{}, contents: map[string]string{}}
	w.cond = sync.NewCond(&w.mu)
	w.canary.cond = sync.NewCond(&w.canary.mu)
	one, two, six := samePort(t)
	w.port = strconv.Itoa(one.Addr().(*net.TCPAddr).Port)
	w.canary.listen(t, one)
	if six != nil {
		w.canary.listen(t, six)
	}
	other := takenPort(t)
	w.taken = strconv.Itoa(other.Addr().(*net.TCPAddr).Port)
	w.canary.listen(t, other)
	s := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	s.Listener.Close()
	s.Listener = two
	s.Config.SetKeepAlivesEnabled(false) // so that each request is dialed
	s.Start()
	t.Cleanup(s.Close)
	return w
}

// samePort listens at 127.0.0.1, 127.0.0.2 and ::1 at one port; there is no third one
// where there is no IPv6.
func samePort(t *testing.T) (one, two, six net.Listener) {
	t.Helper()
	noSix := false
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		noSix = true
		t.Logf("no canary at ::1: %v", err)
	} else {
		ln.Close()
	}
	for range 100 {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(one.Addr().String())
		two, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err == nil && noSix {
			return one, two, nil
		}
		if err == nil {
			if six, err = net.Listen("tcp", "[::1]:"+port); err == nil {
				return one, two, six
			}
			two.Close()
		}
		one.Close()
	}
	t.Fatal("no port is free at three addresses")
	return nil, nil, nil
}

// takenPort listens at 127.0.0.2 at a port above 1023 that the hub never dials.
func takenPort(t *testing.T) net.Listener {
	t.Helper()
	d, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for port := 1024; port < 32768; port++ {
		if !errors.Is(d.CheckURL(fmt.Sprintf("http://good.test:%d/", port)), egress.ErrPort) {
			continue
		}
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port)); err == nil {
			return ln
		}
	}
	t.Fatal("none of the forbidden ports is free")
	return nil
}

func (w *network) url(s string) string {
	return strings.NewReplacer("{port}", w.port, "{taken}", w.taken).Replace(s)
}

func (w *network) topic(name string) string { return w.url("http://good.test:{port}/topic/" + name) }

func (w *network) callback(name string) string {
	return w.url("http://good.test:{port}/callback/" + name)
}

// serve is a topic that names the hub, and a callback that confirms everything.
func (w *network) serve(rw http.ResponseWriter, r *http.Request) {
	w.served.Add(1)
	status, isRedirect := strings.CutPrefix(r.URL.Path, "/redirect/")
	if turncoat, ok := strings.CutPrefix(r.URL.Path, "/turncoat/"); ok && r.Method == http.MethodPost {
		status, isRedirect = turncoat, true
	}
	query := r.URL.Query()
	switch {
	case isRedirect:
		w.redirect(rw, status)
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		w.record(w.contents, r.URL.Path, string(body))
	case query.Has("hub.mode"):
		w.record(w.told, r.URL.Path, query.Get("hub.mode"))
		_, _ = io.WriteString(rw, query.Get("hub.challenge"))
	default:
		rw.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="self", <%s>; rel="hub"`, r.Host, r.URL.Path, townURL))
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(rw, "fetched")
	}
}

// redirect sends to the canary.
func (w *network) redirect(rw http.ResponseWriter, status string) {
	to := "http://127.0.0.1:" + w.port + "/"
	code, err := strconv.Atoi(status)
	if err != nil {
		rw.Header().Set("Refresh", "0; url="+to)
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, `<meta http-equiv="refresh" content="0; url=%s">`, to)
		return
	}
	rw.Header().Set("Location", to)
	rw.WriteHeader(code)
}

func (w *network) record(in map[string]string, path, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[path] = what
	w.cond.Broadcast()
}

// query waits until a callback got a request, and returns its mode.
func (w *network) query(t *testing.T, name string) (mode string) {
	t.Helper()
	awaitCond(t, w.cond, "callback "+name+" to hear of it", func() bool {
		mode = w.told["/callback/"+name]
		return mode != ""
	})
	return mode
}

// delivered waits until a callback has what the hub fetched.
func (w *network) delivered(t *testing.T, name string) {
	t.Helper()
	awaitCond(t, w.cond, "a delivery to "+name, func() bool { return w.contents["/callback/"+name] == "fetched" })
}

// awaitCond returns when done says so, which it is asked under the lock after each event;
// it fails the test after a minute.
func awaitCond(t *testing.T, c *sync.Cond, what string, done func() bool) {
	t.Helper()
	expired := false
	timer := time.AfterFunc(time.Minute, func() {
		c.L.Lock()
		defer c.L.Unlock()
		expired = true
		c.Broadcast()
	})
	defer timer.Stop()
	c.L.Lock()
	defer c.L.Unlock()
	for !done() {
		if expired {
			t.Fatalf("waited a minute in vain for %s", what)
		}
		c.Wait()
	}
}

// canary counts who connects to it. It answers that there is nothing.
type canary struct {
	mu   sync.Mutex
	cond *sync.Cond
	seen int
}

func (c *canary) listen(t *testing.T, ln net.Listener) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.seen++
			c.cond.Broadcast()
			c.mu.Unlock()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			conn.Close()
		}
	}()
}

func (c *canary) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

func (c *canary) awaitMore(t *testing.T, before int, what string) {
	t.Helper()
	awaitCond(t, c.cond, "a connection to the canary by "+what, func() bool { return c.seen > before })
}

// networkNames is a name server. Its answers hold for no time.
type networkNames struct {
	conn net.PacketConn

	mu   sync.Mutex
	zone map[string][]string // addresses, and the name that one is an alias of
}

func newNetworkNames(t *testing.T) *networkNames {
	t.Helper()
	n := &networkNames{zone: map[string][]string{
		"good.test.":           {"127.0.0.2"},
		"a.test.":              {"127.0.0.1"},
		"aaaa.test.":           {"::1"},
		"cname.test.":          {"a.test.", "127.0.0.1"},
		"mapped.test.":         {"::ffff:127.0.0.1"},
		"nat64.test.":          {"64:ff9b::7f00:1"},
		"6to4.test.":           {"2002:7f00:1::"},
		"private.test.":        {"10.0.0.1"},
		"metadata.test.":       {"169.254.169.254"},
		"unspecified.test.":    {"0.0.0.0"},
		"unspecified6.test.":   {"::"},
		"all-bad.test.":        {"127.0.0.1", "10.0.0.1", "::1"},
		"127.0.0.1.wild.test.": {"127.0.0.1"},
		"xn--bcher-kva.test.":  {"127.0.0.1"},
		"mixed.test.":          {"127.0.0.1", "127.0.0.2"},
		"mixed6.test.":         {"::1", "127.0.0.2"},
	}}
	var err error
	if n.conn, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { n.conn.Close(); <-done })
	go func() { defer close(done); n.serve() }()
	return n
}

func (n *networkNames) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", n.conn.LocalAddr().String())
	}}
}

// turn has a name mean something else from now on.
func (n *networkNames) turn(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.zone[name] = addresses
}

func (n *networkNames) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		n.answer(&m)
		if packed, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(packed, from)
		}
	}
}

func (n *networkNames) answer(m *dnsmessage.Message) {
	q := m.Questions[0]
	n.mu.Lock()
	records, known := n.zone[strings.ToLower(q.Name.String())]
	n.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	name := q.Name
	for _, r := range records {
		h := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}
		addr, err := netip.ParseAddr(r)
		switch {
		case err != nil:
			name = dnsmessage.MustNewName(r)
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: name}})
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
}

// lines is a log that can be waited for.
type lines struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []string
}

func newLines() *lines {
	l := &lines{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write takes a line.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(bytes.TrimSuffix(p, []byte("\n"))))
	l.cond.Broadcast()
	return len(p), nil
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// await waits for the first line that has all parts.
func (l *lines) await(t *testing.T, parts ...string) (line string) {
	t.Helper()
	seen := 0
	awaitCond(t, l.cond, fmt.Sprintf("the log to have %q", parts), func() bool {
		for ; seen < len(l.all); seen++ {
			if line = l.all[seen]; hasAll(line, parts) {
				return true
			}
		}
		return false
	})
	return line
}

func hasAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

// valueOf is the value of a key in a line of the log.
func valueOf(line, key string) string {
	_, rest, _ := strings.Cut(line, " "+key+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}
