package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What is under which path of the sink.
const (
	pathCallback = "/callback/" // counted, 204
	pathHeld     = "/held/"     // the same, but waits while the sink holds
	pathHang     = "/hang/"     // never answered
	pathFail     = "/fail/"     // 500
	pathSlow     = "/slow/"     // 204 after slowAnswer
	pathTopic    = "/topic/"    // the links of a topic
)

// slowAnswer is how long a slow callback takes.
const slowAnswer = time.Second

// sink is every callback and every topic at once: it confirms what it is asked
// to confirm, counts what it is sent, and is as cheap as it can be, because it
// shares the processors with whom it measures. See quick for the part that counts.
// Any of its hosts serves every path:
//
//	POST those above
//	GET  any of those?hub.challenge=…   the challenge
//	HEAD /topic/NAME                    the links of a topic of the hub at hubURL
//	GET  /count                         how many POSTs were counted
//	GET  /await?n=N                     the same, once they are N
//	GET  /secured                       handshakes and connections of a tlsSink
//	GET  /ways                          takes what was noted of stamped bodies
//	POST /hold, /release
//	POST /check                         looks at every notification from now on
//	GET  /checked?callbacks=N&each=M    no longer, and tells what was wrong: see checker
type sink struct {
	count   atomic.Int64
	holds   atomic.Pointer[chan struct{}] // closed by the release; nil: nothing is held
	checks  atomic.Pointer[checker]       // nil: nobody looks
	secured secured                       // of a tlsSink
	arrived chan int64                    // when stamped bodies arrive, Unix nanoseconds; nil: nobody asks

	mu   sync.Mutex
	ways []way // guarded by mu
}

// way is how long a body was under way.
type way struct {
	Burst int64 // the number of its publication
	Took  int64 // nanoseconds from its publishing to its arrival here
}

// runSink serves until ctx ends, and prints the addresses of its hosts.
func runSink(ctx context.Context, hosts int, stdout io.Writer) error {
	listeners, err := listenHosts(hosts)
	if err != nil {
		return err
	}
	s := &sink{}
	var addresses []string
	var wg sync.WaitGroup
	for _, ln := range listeners {
		addresses = append(addresses, ln.Addr().String())
		wg.Go(func() { s.accept(ln) })
	}
	fmt.Fprintln(stdout, strings.Join(addresses, " "))
	<-ctx.Done()
	for _, ln := range listeners {
		ln.Close()
	}
	wg.Wait()
	return nil
}

// listenHosts listens on so many hosts: on Linux, where the whole of 127.0.0.0/8
// is this machine, on an address for each; elsewhere on a port for each.
func listenHosts(n int) (listeners []net.Listener, err error) {
	address := "127.0.0.1:0"
	for i := range n {
		if i > 0 && runtime.GOOS == "linux" {
			_, port, _ := net.SplitHostPort(listeners[0].Addr().String())
			address = net.JoinHostPort(hostIP(i), port)
		}
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("host %d of %d: %w", i+1, n, err)
		}
		listeners = append(listeners, ln)
	}
	return listeners, nil
}

// hostIP is an address of this machine for each i.
func hostIP(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250) }

func (s *sink) accept(ln net.Listener) { acceptAll(ln, s.serve) }

// acceptAll serves each connection, until the listener is closed.
func acceptAll(ln net.Listener, serve func(*net.TCPConn)) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, perhaps: who connects waits
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go serve(conn.(*net.TCPConn))
	}
}

func (s *sink) serve(conn *net.TCPConn) {
	defer conn.Close()
	q := &quick{sink: s, buf: make([]byte, connBuffer)}
	var rest []byte
	for err := error(nil); err == nil; {
		if rest, err = q.serve(conn, rest); err == nil {
			rest, err = s.converse(conn, rest)
		}
	}
}

// converse answers one request that is something else than a notification which
// is taken at once. rest is what was read of it already, and then what was read
// of the next.
func (s *sink) converse(conn net.Conn, rest []byte) ([]byte, error) {
	read := bytes.NewReader(rest)
	in := bufio.NewReader(io.MultiReader(read, conn))
	req, err := http.ReadRequest(in)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(req.URL.Path, pathHang) && req.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, in) // until the hub has had enough
		return nil, io.EOF
	}
	resp := s.answer(req, body)
	resp.ProtoMajor, resp.ProtoMinor, resp.Request = 1, 1, req
	if err := resp.Write(conn); err != nil {
		return nil, err
	}
	next, _ := in.Peek(in.Buffered()) // as many as there are
	return append(bytes.Clone(next), rest[len(rest)-read.Len():]...), nil
}

func (s *sink) answer(req *http.Request, body []byte) *http.Response {
	query, path := req.URL.Query(), req.URL.Path
	switch {
	case req.Method == http.MethodPost && strings.HasPrefix(path, pathFail):
		return answer(http.StatusInternalServerError, nil)
	case req.Method == http.MethodPost && strings.HasPrefix(path, pathSlow):
		time.Sleep(slowAnswer)
		return answer(http.StatusNoContent, nil)
	case req.Method == http.MethodPost && path == "/hold":
		held := make(chan struct{})
		s.holds.CompareAndSwap(nil, &held)
		return answer(http.StatusNoContent, nil)
	case req.Method == http.MethodPost && path == "/release":
		if held := s.holds.Swap(nil); held != nil {
			close(*held)
		}
		return answer(http.StatusNoContent, nil)
	case req.Method == http.MethodPost && path == "/check":
		s.checks.Store(&checker{next: map[string]int{}})
		return answer(http.StatusNoContent, nil)
	case req.Method == http.MethodPost:
		if held := s.holds.Load(); held != nil && strings.HasPrefix(path, pathHeld) {
			<-*held
		}
		if c := s.checks.Load(); c != nil {
			c.take(req, body)
		} else {
			s.stamped(body)
		}
		s.count.Add(1)
		return answer(http.StatusNoContent, nil)
	case query.Has("hub.challenge"):
		return answer(http.StatusOK, []byte(query.Get("hub.challenge")))
	case path == "/count":
		return answer(http.StatusOK, strconv.AppendInt(nil, s.count.Load(), 10))
	case path == "/await":
		return s.awaitCount(query.Get("n"))
	case path == "/checked":
		return s.checked(query.Get("callbacks"), query.Get("each"))
	case path == "/secured":
		return answer(http.StatusOK, []byte(s.secured.String()))
	case path == "/ways":
		return answer(http.StatusOK, s.takeWays())
	case strings.HasPrefix(path, pathTopic):
		resp := answer(http.StatusOK, nil)
		resp.Header.Set("Link", fmt.Sprintf(`<http://%s%s>; rel="self", <%s>; rel="hub"`, req.Host, req.RequestURI, hubURL))
		return resp
	}
	return answer(http.StatusNotFound, nil)
}

func answer(status int, body []byte) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: int64(len(body))}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// awaitCount waits until the count is reached, and no longer than a client asks at once.
func (s *sink) awaitCount(n string) *http.Response {
	least, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return answer(http.StatusBadRequest, nil)
	}
	for end := time.Now().Add(time.Second); s.count.Load() < least && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return answer(http.StatusOK, strconv.AppendInt(nil, s.count.Load(), 10))
}

// checked ends a check.
func (s *sink) checked(callbacks, each string) *http.Response {
	n, err := strconv.Atoi(callbacks)
	m, err2 := strconv.Atoi(each)
	c := s.checks.Swap(nil)
	if c == nil || err != nil || err2 != nil {
		return answer(http.StatusBadRequest, nil)
	}
	return answer(http.StatusOK, []byte(c.verdict(n, m)))
}

func (s *sink) holding() bool { return s.holds.Load() != nil }

// stamped notes the way of a body that bears a stamp.
func (s *sink) stamped(body []byte) {
	at, burst, ok := readStamp(body)
	if !ok {
		return
	}
	now := time.Now().UnixNano()
	s.mu.Lock()
	s.ways = append(s.ways, way{Burst: int64(burst), Took: now - at})
	s.mu.Unlock()
	if s.arrived != nil {
		s.arrived <- now
	}
}

// takeWays gives what was noted since the last time.
func (s *sink) takeWays() []byte {
	s.mu.Lock()
	ways := s.ways
	s.ways = make([]way, 0, cap(ways)) // no growing while it is measured
	s.mu.Unlock()
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, ways) // a Buffer takes everything
	return b.Bytes()
}
