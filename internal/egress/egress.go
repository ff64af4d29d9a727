package egress

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// probes are what an idle connection costs: one every 50 s, which also keeps the state that
// firewalls on the way have of it. A connection whose other side has vanished is noticed within two
// minutes, before a request is lost on it.
var probes = net.KeepAliveConfig{Enable: true, Idle: 50 * time.Second, Interval: 15 * time.Second, Count: 4}

// DefaultDialTimeout is that of Config.DialTimeout.
const DefaultDialTimeout = 10 * time.Second

// Config says where connections may go. Its zero value is a good setting for the open internet.
type Config struct {
	// AllowNets are networks that may be dialed although they are private,
	// link-local or otherwise special.
	AllowNets []netip.Prefix
	// AllowPorts are ports that may be dialed besides 80, 443 and those above 1023 that
	// no other service is known by.
	AllowPorts []PortRange
	// Proxy, if there is one, makes the connections: names are resolved there, and which
	// address is dialed is for it to judge. Addresses in URLs, localhost and ports are
	// still judged here.
	Proxy *Proxy
	// AllowLoopback lets 127.0.0.0/8, ::1 and localhost be dialed.
	AllowLoopback bool
	// DialTimeout bounds name resolution and connecting together; 10 s if 0. The
	// context of a request can only shorten it.
	DialTimeout time.Duration
	// Names finds the addresses of names; several Dialers may share them. Nil: the
	// Dialer has Names of its own, which ask the name servers of the system.
	Names *Names
	// Metrics count refusals; several Dialers may share them. Nil: they are not counted.
	Metrics *Metrics
	// TLS is the TLS configuration to start from: more roots, for
	// example. Nil: the system's roots. Verification cannot be turned off by it.
	TLS *tls.Config
}

func (c Config) validate() error {
	for _, p := range c.AllowNets {
		if !p.IsValid() {
			return errors.New("egress: an allowed network is not a valid CIDR prefix")
		}
	}
	for _, r := range c.AllowPorts {
		if r.First == 0 || r.First > r.Last {
			return fmt.Errorf("egress: %s is not a range of ports", r)
		}
	}
	if c.DialTimeout < 0 {
		return errors.New("egress: DialTimeout is negative")
	}
	return nil
}

// Dialer dials only where it may. All methods may be called from any goroutine.
type Dialer struct {
	cfg    Config
	guard  *ssrf.Guardian
	dialer *net.Dialer // of addresses, guarded
	direct *net.Dialer // of the proxy's addresses: the operator chose them
	names  *Names
}

// New returns a Dialer, or an error that reports the faults of the Config.
func New(cfg Config) (*Dialer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	v4, v6 := allowed(cfg)
	d := &Dialer{
		cfg: cfg,
		guard: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(platforms...),
			ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
	}
	d.dialer = &net.Dialer{Timeout: cfg.DialTimeout, Control: d.control, KeepAliveConfig: probes}
	d.direct = &net.Dialer{Timeout: cfg.DialTimeout}
	d.names = cfg.Names
	var err error
	if d.cfg.Metrics == nil {
		if d.cfg.Metrics, err = NewMetrics(nil); err != nil {
			return nil, err
		}
	}
	if d.names == nil {
		if d.names, err = NewNames(NamesConfig{}, nil); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// allowed splits the networks that Config allows by address family. A prefix of IPv4-mapped IPv6
// addresses counts as its IPv4 prefix: such an address is dialed over IPv4.
func allowed(cfg Config) (v4, v6 []netip.Prefix) {
	for _, p := range cfg.AllowNets {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Addr().Is4() {
			v4 = append(v4, p.Masked())
		} else {
			v6 = append(v6, p.Masked())
		}
	}
	if cfg.AllowLoopback {
		v4 = append(v4, netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8))
		v6 = append(v6, netip.PrefixFrom(netip.IPv6Loopback(), 128))
	}
	return v4, v6
}

// control is called with each address that is about to be dialed, after the
// name was resolved and before a packet is sent. Port and network were judged
// before; here they are judged for whatever way might lead past that.
func (d *Dialer) control(network, address string, c syscall.RawConn) error {
	if err := d.guard.Safe(network, address, c); err != nil {
		return d.cfg.Metrics.refused(reasonAddress, fmt.Errorf("%w: %w", ErrForbidden, err))
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if err := judge(d.guard, to.Addr()); err != nil {
		return d.cfg.Metrics.refused(reasonAddress, err)
	}
	if err := judgePort(to.Port(), d.cfg.AllowPorts); err != nil {
		return d.cfg.Metrics.refused(reasonPort, err)
	}
	return nil
}

// TLSConfig returns the TLS configuration of connections that are made over the
// Dialer: certificates are verified, and TLS is 1.2 or newer.
func (d *Dialer) TLSConfig() *tls.Config {
	cfg := &tls.Config{}
	if d.cfg.TLS != nil {
		cfg = d.cfg.TLS.Clone()
	}
	cfg.InsecureSkipVerify = false
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	cfg.VerifyConnection = boundCertificates(cfg.VerifyConnection)
	return cfg
}

// Bounds on the certificates that a server presents. A parsed certificate takes some 3 KiB beside
// its bytes while its connection or session is kept, and crypto/tls accepts 256 KiB of them.
// Real chains have two to five certificates.
const (
	maxCertificates     = 16
	maxCertificateBytes = 64 << 10
)

// boundCertificates returns a tls.Config.VerifyConnection that rejects too many certificates, and
// then calls the given one, if any. crypto/tls has verified the chain before.
func boundCertificates(then func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		size := 0
		for _, cert := range state.PeerCertificates {
			size += len(cert.Raw)
		}
		if n := len(state.PeerCertificates); n > maxCertificates || size > maxCertificateBytes {
			return &tls.CertificateVerificationError{
				UnverifiedCertificates: state.PeerCertificates,
				Err: fmt.Errorf("the server presents %d certificates of %d bytes (allowed: %d of %d bytes)",
					n, size, maxCertificates, maxCertificateBytes),
			}
		}
		if then == nil {
			return nil
		}
		return then(state)
	}
}
