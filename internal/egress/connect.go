package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DialContext connects to the address, or fails with ErrForbidden where no
// address of its name may be dialed. Networks are tcp, tcp4 and tcp6.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := d.admit(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	addr, isAddr := literal(host)
	switch {
	case d.cfg.Proxy.carries(host, port):
		return d.dialByProxy(ctx, net.JoinHostPort(host, port))
	case isAddr:
		return d.dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
	}
	return d.dialName(ctx, network, host, port)
}

// admit judges the parts of an address that can be judged before its name is resolved, perhaps
// elsewhere. It returns a name in ASCII or an address as it is written (netip), and a number.
func (d *Dialer) admit(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", &net.AddrError{Err: "invalid port", Addr: address}
	}
	if err := judgePort(uint16(n), d.cfg.AllowPorts); err != nil {
		return "", "", d.cfg.Metrics.refused(reasonPort, err)
	}
	addr, isAddr := literal(host)
	switch {
	case isAddr:
		if err := judge(d.guard, addr); err != nil {
			return "", "", d.cfg.Metrics.refused(reasonAddress, err)
		}
		host = addr.String()
	case localhost(host) && !d.cfg.AllowLoopback:
		return "", "", d.cfg.Metrics.refused(reasonAddress, fmt.Errorf("%w: %s is this machine", ErrForbidden, host))
	case !validName(host):
		return "", "", d.cfg.Metrics.refused(reasonName, fmt.Errorf("%w: %q is not a name", ErrForbidden, host))
	}
	return host, strconv.FormatUint(n, 10), nil
}

// dialName connects to one of the addresses of a name, in the order and with the
// limits of net.Dialer, which would ask for the name itself.
func (d *Dialer) dialName(ctx context.Context, network, host, port string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	return d.dialNameBy(ctx, d.dialer, network, host, port)
}

// dialNameBy is dialName within the time of its context, by the dialer.
func (d *Dialer) dialNameBy(ctx context.Context, dialer *net.Dialer, network, host, port string) (net.Conn, error) {
	addrs, err := d.names.Lookup(ctx, host)
	if err == nil {
		if addrs = fit(network, addrs); len(addrs) == 0 {
			err = &net.AddrError{Err: "no suitable address found", Addr: host}
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return connect(ctx, func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
		return dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
	}, addrs)
}

// fit leaves the addresses of the network's family.
func fit(network string, addrs []netip.Addr) []netip.Addr {
	if network == "tcp" {
		return addrs
	}
	var fitting []netip.Addr
	for _, a := range addrs {
		if a.Is4() == strings.HasSuffix(network, "4") {
			fitting = append(fitting, a)
		}
	}
	return fitting
}

// ErrProxy: the proxy made no connection. It comes in a *net.OpError.
var ErrProxy = errors.New("proxy")

// maxProxyHeader bounds the header of a proxy's answer, bytes.
const maxProxyHeader = 64 << 10

// opProxy is the Op of what the proxy did not do.
const opProxy = "proxyconnect"

// dialByProxy has the proxy connect to the address, within the DialTimeout for all: its
// name, dialing it, TLS to it, and its answer.
func (d *Dialer) dialByProxy(ctx context.Context, address string) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	conn, result, err := d.connectBy(within, d.cfg.Proxy, address)
	d.cfg.Metrics.proxied[result].Inc()
	if !errors.Is(ctx.Err(), context.Canceled) { // else no caller waited for it
		d.cfg.Proxy.note(result, err)
	}
	if err == nil {
		return conn, nil
	}
	if result == proxyForbidden {
		d.cfg.Metrics.refusals[reasonProxy].Inc()
	}
	return nil, &net.OpError{Op: opProxy, Net: "tcp", Err: fmt.Errorf("%w %s: %w", ErrProxy, d.cfg.Proxy, err)}
}

func (d *Dialer) connectBy(ctx context.Context, p *Proxy, address string) (net.Conn, proxyResult, error) {
	raw, err := d.dialProxy(ctx, p)
	if err != nil {
		return nil, proxyAway, err
	}
	// Whatever hangs from here on ends with the context.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn, result, err := d.askProxy(ctx, p, raw, address)
	if !stop() && err == nil {
		err, result = ctx.Err(), proxyAway
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, result, err
	}
	return conn, result, nil
}

// dialProxy connects to the proxy, which is not judged: the operator named it.
func (d *Dialer) dialProxy(ctx context.Context, p *Proxy) (net.Conn, error) {
	if _, err := netip.ParseAddr(p.host); err == nil {
		return d.direct.DialContext(ctx, "tcp", net.JoinHostPort(p.host, p.port))
	}
	return d.dialNameBy(ctx, d.direct, "tcp", p.host, p.port)
}

// askProxy asks over a connection to the proxy for one to the address, and returns what
// is a connection to there then.
func (d *Dialer) askProxy(ctx context.Context, p *Proxy, raw net.Conn, address string) (net.Conn, proxyResult, error) {
	conn := raw
	if p.secure {
		cfg := d.TLSConfig()
		cfg.ServerName, cfg.NextProtos = p.host, []string{"http/1.1"}
		secured := tls.Client(raw, cfg)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, proxyAway, fmt.Errorf("TLS handshake: %w", err)
		}
		conn = &tunnel{secured, raw}
	}
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{},
	}
	req.Header.Set("User-Agent", "") // none: it is not the target that is spoken to
	if p.authorization != "" {
		req.Header.Set("Proxy-Authorization", p.authorization)
	}
	if err := req.Write(conn); err != nil {
		return nil, proxyAway, err
	}
	if result, err := d.proxyAnswer(conn, req); err != nil {
		return nil, result, err
	}
	return conn, proxyConnected, nil
}

// errSpoke: something came behind the answer, and it cannot be from a server of HTTP
// or TLS, which speaks when it is spoken to.
var errSpoke = errors.New("something came unasked behind its answer")

// proxyAnswer reads the header of the answer, and nothing behind it.
func (d *Dialer) proxyAnswer(conn net.Conn, req *http.Request) (proxyResult, error) {
	bounded := &io.LimitedReader{R: conn, N: maxProxyHeader}
	r := bufio.NewReader(bounded)
	resp, err := http.ReadResponse(r, req)
	switch {
	case err != nil && bounded.N <= 0:
		return proxyAway, fmt.Errorf("the header of its answer is beyond %d bytes", maxProxyHeader)
	case err != nil:
		return proxyAway, fmt.Errorf("reading its answer: %w", err)
	case resp.StatusCode >= 200 && resp.StatusCode <= 299 && r.Buffered() > 0:
		return proxyRefused, errSpoke
	}
	return judgeProxy(resp)
}

// judgeProxy returns the meaning of an answer to CONNECT. The proxy's text does not go into errors,
// which may be shown.
func judgeProxy(resp *http.Response) (proxyResult, error) {
	status := resp.StatusCode
	switch {
	case status >= 200 && status <= 299:
		return proxyConnected, nil
	case status == http.StatusForbidden,
		// Without a word on credentials it is a refusal: so Smokescreen says it.
		status == http.StatusProxyAuthRequired && resp.Header.Get("Proxy-Authenticate") == "":
		return proxyForbidden, fmt.Errorf("%w: it does not allow this connection (%d)", ErrForbidden, status)
	case status == http.StatusProxyAuthRequired:
		return proxyCredentials, fmt.Errorf("it wants other credentials (%d)", status)
	}
	return proxyRefused, fmt.Errorf("it made no connection (%d)", status)
}

// tunnel is a connection through a proxy that is spoken to by TLS. It is closed without the farewell
// of TLS, which waits for a peer that does not read.
type tunnel struct {
	*tls.Conn
	raw net.Conn
}

// Close closes the connection to the proxy.
func (t *tunnel) Close() error { return t.raw.Close() }
