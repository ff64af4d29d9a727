package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"
)

// runSink serves until ctx ends. Without TLS it prints the addresses of its hosts; with TLS an
// address without TLS for questions, and the port of all hosts.
func runSink(ctx context.Context, c child, stdout io.Writer) error {
	s := &sink{closeAfter: c.CloseAfter}
	hosts := c.Hosts
	if c.Authority != "" {
		hosts = 1
	}
	listeners, err := listenHosts(hosts)
	if err != nil {
		return err
	}
	var ready []string
	for _, ln := range listeners {
		ready = append(ready, ln.Addr().String())
	}
	if c.Authority != "" {
		if s.config, err = tlsConfig(c); err != nil {
			return err
		}
		more, port, err := listenTLS(ctx)
		if err != nil {
			return err
		}
		listeners, ready = append(listeners, more...), append(ready, port)
	}
	fmt.Fprintln(stdout, strings.Join(ready, " "))
	var wg sync.WaitGroup
	for i, ln := range listeners {
		serve := s.plain
		if i >= hosts {
			serve = s.secured
		}
		wg.Go(func() { accept(ln, serve) })
	}
	<-ctx.Done()
	for _, ln := range listeners {
		ln.Close()
	}
	wg.Wait()
	return nil
}

// listenHosts listens on so many hosts. On Linux each has an address of its own, because all of
// 127.0.0.0/8 is this machine; elsewhere each has a port of its own.
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

// acceptors is how many sockets listen on the port of the hosts with TLS, each with a backlog of
// its own. One backlog would overflow when a client connects to 10,000 hosts at once.
const acceptors = 8

// listenTLS listens on one port for all addresses of this machine.
func listenTLS(ctx context.Context) (listeners []net.Listener, port string, err error) {
	config, address := net.ListenConfig{Control: sharePort}, "0.0.0.0:0"
	for range acceptors {
		ln, err := config.Listen(ctx, "tcp4", address)
		if err != nil {
			return nil, "", err
		}
		address = ln.Addr().String()
		listeners = append(listeners, ln)
	}
	_, port, err = net.SplitHostPort(address)
	return listeners, port, err
}

// tlsConfig has a certificate for each host. All of them are made before the first connection.
func tlsConfig(c child) (*tls.Config, error) {
	certificates, err := certificatesOf(c.Authority, c.Hosts)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			ip := localIP(hello.Conn)
			if cert := certificates[ip]; cert != nil {
				return cert, nil
			}
			return nil, fmt.Errorf("there is no host %s", ip)
		},
	}, nil
}

// localIP returns the address that a client connected to.
func localIP(conn net.Conn) netip.Addr {
	return conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// secured serves a connection over TLS, until it ends or was idle for closeAfter. It refuses
// other machines, because its port is open on all addresses of this one.
func (s *sink) secured(accepted *net.TCPConn) {
	defer accepted.Close()
	if !localIP(accepted).IsLoopback() {
		return
	}
	session := tls.Server(accepted, s.config)
	if err := session.Handshake(); err != nil {
		return
	}
	if session.ConnectionState().DidResume {
		s.resumed.Add(1)
	} else {
		s.full.Add(1)
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	defer session.Close()
	for in := bufio.NewReader(session); s.exchange(in, session) == nil; {
		if s.closeAfter > 0 {
			_ = session.SetReadDeadline(time.Now().Add(s.closeAfter)) // an error shows in the next read
		}
	}
}
