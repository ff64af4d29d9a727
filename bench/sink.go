package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// sink is every callback and every topic at once. It confirms each challenge and counts each
// notification, and is cheap, because it shares the processors with the hub that is measured;
// quick serves the notifications. Each of its hosts serves every path:
//
//	POST those of wire.go
//	GET  any of those?hub.challenge=…   the challenge
//	HEAD /topic/NAME                    the links of a topic of the hub at hubURL
//	GET  /count                         how many POSTs were counted
//	GET  /await?n=N                     the same, once they are N, or after a second
//	GET  /secured                       full and resumed handshakes, and open connections
//	GET  /ways                          takes what was noted of stamped bodies
//	POST /hold, /release
//	POST /check                         checks every notification from now on
//	GET  /checked?callbacks=N&each=M    ends that, and returns what was wrong: see checker
type sink struct {
	tally
	full, resumed, open atomic.Int64 // of connections over TLS

	config     *tls.Config   // nil: no TLS
	closeAfter time.Duration // of a TLS connection that is idle; 0: never
}

// accept serves each connection, until the listener is closed.
func accept(ln net.Listener, serve func(*net.TCPConn)) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, perhaps: the client waits
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go serve(conn.(*net.TCPConn))
	}
}

// plain serves a connection without TLS.
func (s *sink) plain(conn *net.TCPConn) {
	defer conn.Close()
	q := &quick{tally: &s.tally, buf: make([]byte, connBuffer)}
	var rest []byte
	for err := error(nil); err == nil; {
		if rest, err = q.serve(conn, rest); err == nil {
			rest, err = s.converse(conn, rest)
		}
	}
}

// converse answers one request that quick left. rest is the part of it that was read already, and then
// the part of the next.
func (s *sink) converse(conn net.Conn, rest []byte) ([]byte, error) {
	read := bytes.NewReader(rest)
	in := bufio.NewReader(io.MultiReader(read, conn))
	if err := s.exchange(in, conn); err != nil {
		return nil, err
	}
	next, _ := in.Peek(in.Buffered()) // as many as there are
	return append(bytes.Clone(next), rest[len(rest)-read.Len():]...), nil
}

// exchange reads one request and answers it.
func (s *sink) exchange(in *bufio.Reader, out io.Writer) error {
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	if strings.HasPrefix(req.URL.Path, pathHang) && req.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, in) // until the hub closes
		return io.EOF
	}
	resp := s.answer(req, body)
	if resp.StatusCode == http.StatusNoContent {
		_, err := io.WriteString(out, noContent)
		return err
	}
	resp.ProtoMajor, resp.ProtoMinor, resp.Request = 1, 1, req
	return resp.Write(out)
}

func (s *sink) answer(req *http.Request, body []byte) *http.Response {
	path, query := req.URL.Path, req.URL.Query()
	switch {
	case req.Method == http.MethodPost:
		return response(s.post(req, body), nil)
	case query.Has("hub.challenge"):
		return response(http.StatusOK, []byte(query.Get("hub.challenge")))
	case path == "/count":
		return response(http.StatusOK, strconv.AppendInt(nil, s.count.Load(), 10))
	case path == "/await":
		return s.awaitCount(query.Get("n"))
	case path == "/checked":
		return s.endCheck(query.Get("callbacks"), query.Get("each"))
	case path == "/secured":
		return response(http.StatusOK, fmt.Append(nil, s.full.Load(), s.resumed.Load(), s.open.Load()))
	case path == "/ways":
		return response(http.StatusOK, s.takeWays())
	case strings.HasPrefix(path, pathTopic):
		resp := response(http.StatusOK, nil)
		self := "http://" + req.Host + req.RequestURI
		resp.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, self, hubURL))
		return resp
	}
	return response(http.StatusNotFound, nil)
}

// post takes an order or a notification, and returns the status.
func (s *sink) post(req *http.Request, body []byte) int {
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, pathFail):
		return http.StatusInternalServerError
	case strings.HasPrefix(path, pathSlow):
		time.Sleep(slowAnswer)
	case path == "/hold":
		held := make(chan struct{})
		s.holds.CompareAndSwap(nil, &held)
	case path == "/release":
		if held := s.holds.Swap(nil); held != nil {
			close(*held)
		}
	case path == "/check":
		s.checks.Store(&checker{next: map[string]int{}})
	default:
		if held := s.holds.Load(); held != nil && strings.HasPrefix(path, pathHeld) {
			<-*held
		}
		if c := s.checks.Load(); c != nil {
			c.inspect(req, body)
		} else {
			s.timed(body)
		}
		s.count.Add(1)
	}
	return http.StatusNoContent
}

func response(status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// awaitCount waits until the count is reached, for at most a second.
func (s *sink) awaitCount(n string) *http.Response {
	least, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return response(http.StatusBadRequest, nil)
	}
	for end := time.Now().Add(time.Second); s.count.Load() < least && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return response(http.StatusOK, strconv.AppendInt(nil, s.count.Load(), 10))
}

func (s *sink) endCheck(callbacks, each string) *http.Response {
	n, err := strconv.Atoi(callbacks)
	m, err2 := strconv.Atoi(each)
	c := s.checks.Swap(nil)
	if c == nil || err != nil || err2 != nil {
		return response(http.StatusBadRequest, nil)
	}
	return response(http.StatusOK, []byte(c.verdict(n, m)))
}
