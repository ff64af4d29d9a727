package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// tlsSink is a sink with thousands of hosts, which are addresses of 127.0.0.0/8, over
// TLS 1.3. One port on all addresses accepts for every host. A plain listener beside it
// answers who measures.
type tlsSink struct {
	sink
	roundTrip  time.Duration // how far away the hosts are
	closeAfter time.Duration // of a connection without a request; 0: it stays open
	config     *tls.Config
}

// secured counts what the clients of a tlsSink make it do.
type secured struct{ accepted, full, resumed, open atomic.Int64 }

func (s *secured) String() string {
	return fmt.Sprint(s.accepted.Load(), s.full.Load(), s.resumed.Load(), s.open.Load())
}

// acceptors is how many sockets listen on the port: each has a backlog, and none must
// overflow where all hosts are connected to at once.
const acceptors = 8

// runTLSSink serves until ctx ends, and prints the address that answers questions and the
// port of all hosts.
func (c child) runTLSSink(ctx context.Context, stdout io.Writer) error {
	certificates, err := c.certificates()
	if err != nil {
		return err
	}
	s := &tlsSink{roundTrip: c.roundTrip, closeAfter: c.closeAfter}
	s.config = &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			ip := localIP(hello.Conn)
			if cert := certificates[ip]; cert != nil {
				return cert, nil
			}
			return nil, fmt.Errorf("there is no host %s", ip)
		},
	}
	asked, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listeners := []net.Listener{asked}
	config, address := net.ListenConfig{Control: sharePort}, "0.0.0.0:0"
	for range acceptors {
		ln, err := config.Listen(ctx, "tcp4", address)
		if err != nil {
			return err
		}
		address = ln.Addr().String()
		listeners = append(listeners, ln)
	}
	_, port, _ := net.SplitHostPort(address)
	fmt.Fprintln(stdout, asked.Addr(), port)

	var wg sync.WaitGroup
	wg.Go(func() { s.accept(asked) })
	for _, ln := range listeners[1:] {
		wg.Go(func() { acceptAll(ln, s.serve) })
	}
	<-ctx.Done()
	for _, ln := range listeners {
		ln.Close()
	}
	wg.Wait()
	return nil
}

// certificates are those of all hosts. They have one key, which no client looks at.
func (c child) certificates() (map[netip.Addr]*tls.Certificate, error) {
	signer, err := readAuthority(c.authority)
	if err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	made := make([]*tls.Certificate, c.hosts)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range made {
		group.Go(func() (err error) {
			made[i], err = signer.host(i+1, netip.MustParseAddr(hostIP(i)), key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := make(map[netip.Addr]*tls.Certificate, len(made))
	for i, cert := range made {
		all[netip.MustParseAddr(hostIP(i))] = cert
	}
	return all, nil
}

// localIP is the address that a client connected to.
func localIP(conn net.Conn) netip.Addr {
	return conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// serve serves one connection. Only this machine is served, though the port is open on all
// its addresses.
func (s *tlsSink) serve(accepted *net.TCPConn) {
	s.secured.accepted.Add(1)
	defer accepted.Close()
	if !localIP(accepted).IsLoopback() {
		return
	}
	session := tls.Server(&far{accepted, 2 * s.roundTrip}, s.config)
	if err := session.Handshake(); err != nil {
		return
	}
	if session.ConnectionState().DidResume {
		s.secured.resumed.Add(1)
	} else {
		s.secured.full.Add(1)
	}
	s.secured.open.Add(1)
	defer s.secured.open.Add(-1)
	defer session.Close()
	s.converse(session)
}

// far is the accepted end of a connection that seems to be far away. The sink's part of the
// handshake, which is one write, is late by two round trips: its own, and the one that
// opening the connection would have taken.
type far struct {
	net.Conn
	late time.Duration // 0 after the first write
}

func (f *far) Write(p []byte) (int, error) {
	time.Sleep(f.late)
	f.late = 0
	return f.Conn.Write(p)
}

// converse answers requests, each after a round trip, until the connection ends, or is idle for too long.
func (s *tlsSink) converse(conn *tls.Conn) {
	in := bufio.NewReader(conn)
	var out bytes.Buffer
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		time.Sleep(s.roundTrip)
		out.Reset()
		if resp := s.answer(req, body); resp.StatusCode == http.StatusNoContent {
			out.WriteString(noContent)
		} else {
			resp.ProtoMajor, resp.ProtoMinor, resp.Request = 1, 1, req
			_ = resp.Write(&out) // a Buffer takes everything
		}
		if _, err := conn.Write(out.Bytes()); err != nil {
			return
		}
		if s.closeAfter > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(s.closeAfter)) // a connection that has gone needs none
		}
	}
}

// tlsTown is a running tlsSink, seen from the process that measures.
type tlsTown struct {
	*town
	port string
}

// startTLSTown starts a sink with so many hosts in a process of its own.
func (b *tlsBench) startTLSTown(ctx context.Context, hosts int, manner manner) (*tlsTown, error) {
	cmd, err := ownCommand(ctx, "-role", roleTLSSink, "-hosts", fmt.Sprint(hosts), "-authority", b.authority,
		"-round-trip", manner.roundTrip.String(), "-close-after", manner.closeAfter.String())
	if err != nil {
		return nil, err
	}
	line, stop, err := start(cmd)
	if err != nil {
		return nil, err
	}
	asked, port, _ := strings.Cut(line, " ")
	return &tlsTown{&town{hosts: []string{asked}, client: newClient(), stop: stop}, port}, nil
}

// manner is how the hosts of a tlsSink differ from those that are near and keep connections.
type manner struct{ roundTrip, closeAfter time.Duration }

// callback is the i-th callback, where each host has every so-manieth.
func (t *tlsTown) callback(hosts, i int) string { return tlsCallback(t.port, hosts, i) }

func tlsCallback(port string, hosts, i int) string {
	return fmt.Sprintf("https://%s:%s%s%d", hostIP(i%hosts), port, pathCallback, i)
}

// handshakes are how many a sink has made, and how many connections it has accepted and
// still has.
type handshakes struct{ accepted, full, resumed, open int64 }

func (h handshakes) since(before handshakes) handshakes {
	return handshakes{h.accepted - before.accepted, h.full - before.full, h.resumed - before.resumed, h.open - before.open}
}

func (h handshakes) all() int64 { return h.full + h.resumed }

func (t *tlsTown) handshakes() (h handshakes, err error) {
	text, err := t.ask(http.MethodGet, "/secured")
	if err != nil {
		return h, err
	}
	_, err = fmt.Sscan(string(text), &h.accepted, &h.full, &h.resumed, &h.open)
	return h, err
}

// closed returns when the sink has no connection left.
func (t *tlsTown) closed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		h, err := t.handshakes()
		if err != nil || h.open == 0 {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("the sink still has %d connections", h.open), err)
		}
	}
}
