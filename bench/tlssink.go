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

// tlsSink is a sink that serves thousands of hosts over TLS 1.3. A host is an address of
// 127.0.0.0/8; one port accepts for all of them. A plain listener beside it answers the
// questions of town.
type tlsSink struct {
	sink
	manner
	config *tls.Config
}

// secured counts the connections of a tlsSink and their handshakes.
type secured struct{ accepted, full, resumed, open atomic.Int64 }

func (s *secured) String() string {
	return fmt.Sprint(s.accepted.Load(), s.full.Load(), s.resumed.Load(), s.open.Load())
}

// acceptors is how many sockets listen on the port, each with a backlog of its own. One
// backlog would overflow when a client connects to 10,000 hosts at once.
const acceptors = 8

// runTLSSink serves until ctx ends. It prints the address of the plain listener, and the
// port of all hosts.
func (c child) runTLSSink(ctx context.Context, stdout io.Writer) error {
	certificates, err := c.certificates()
	if err != nil {
		return err
	}
	s := &tlsSink{manner: manner{c.roundTrip, c.closeAfter}}
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

// certificates makes the certificates of all hosts. They share one key, to start sooner.
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

// localIP returns the address that a client connected to.
func localIP(conn net.Conn) netip.Addr {
	return conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// serve serves one connection. It refuses other machines: the port is open on all addresses
// of this one.
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

// far is an accepted connection whose client seems to be far away. Its first write is the
// sink's part of the handshake. far delays it by two round trips: that of the handshake,
// and that of opening the connection, which the kernel did at once.
type far struct {
	net.Conn
	late time.Duration // the delay of the next write
}

func (f *far) Write(p []byte) (int, error) {
	time.Sleep(f.late)
	f.late = 0
	return f.Conn.Write(p)
}

// converse answers each request after a round trip. It returns when the connection ends, or
// has been idle for closeAfter.
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
			_ = conn.SetReadDeadline(time.Now().Add(s.closeAfter)) // an error shows in the next read
		}
	}
}

// tlsTown is a running tlsSink, seen from the process that measures.
type tlsTown struct {
	*town
	port string
}

// startTLSTown starts a tlsSink in a process of its own.
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

// manner is how the hosts of a tlsSink behave.
type manner struct {
	roundTrip  time.Duration // how far away they are
	closeAfter time.Duration // they close connections that are idle for so long; 0: never
}

// callback returns the i-th callback. Neighbours are on different hosts.
func (t *tlsTown) callback(hosts, i int) string { return tlsCallback(t.port, hosts, i) }

func tlsCallback(port string, hosts, i int) string {
	return fmt.Sprintf("https://%s:%s%s%d", hostIP(i%hosts), port, pathCallback, i)
}

// handshakes are the counts of a tlsSink: connections accepted, handshakes that were full
// or resumed a session, and connections that are open.
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

// closed waits until the sink has no connection open.
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
