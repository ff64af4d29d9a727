package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpproxy"

	"carillon/internal/egress"
)

// wayOutFlags say where the hub may connect to, and by whom.
type wayOutFlags struct {
	AllowNet        []netip.Prefix     `placeholder:"CIDR" help:"A private network that callbacks and topics may be in; repeatable."`
	AllowPort       []egress.PortRange `placeholder:"N|N-M" help:"A port, or a range of them, that callbacks and topics may have besides 80, 443 and those above 1023 that no other service is known by; repeatable."`
	Proxy           string             `placeholder:"URL" help:"The HTTP proxy that all connections to callbacks and topics go by, http://HOST:PORT or https://HOST:PORT, by CONNECT; or environment: the one that HTTPS_PROXY or HTTP_PROXY names, with the exceptions in NO_PROXY. Needs --proxy-filters. Where it asks for a password, set it by the variable: a command line can be seen."`
	ProxyFilters    bool               `help:"The proxy refuses connections to private and other special addresses itself. The hub cannot see what a proxy connects to, and so does not use one that may connect to anything."`
	ConnectionBytes byteSize           `default:"512MiB" placeholder:"SIZE" help:"What connections to callbacks and topics may take in memory while they are kept for the next request, and the TLS sessions of their hosts, by estimate: 1MB or more. Three quarters are for connections, of which one takes some 2 KiB, or with TLS 14 KiB and the host's certificates; a quarter is for sessions, of 5 to 8 KiB each. With GOMEMLIMIT an eighth of that at most. Beyond it those that are expected to be used last are closed: the next request to such a host makes a connection anew. A number of bytes, or with a unit, as of --keep-bytes." range:"1MB or more"`
	KeyExchange     string             `enum:"hybrid,classic" default:"hybrid" help:"How keys are agreed with callbacks and topics over TLS. hybrid: by X25519 with ML-KEM-768 where the other side knows it, so that traffic that is recorded today stays secret when there are quantum computers; else by one of the classic ones. classic: by X25519, P-256, P-384 or P-521 only. That takes less processor time for each connection that is opened, resumed ones too, and some 2 KB less of traffic."`

	resolver *net.Resolver // asks the name servers; the system's if nil
}

// minConnectionBytes is the least --connection-bytes: with less hardly a connection would be kept.
const minConnectionBytes = 1_000_000

// classicExchange is the --key-exchange without post-quantum methods, classicCurves are its methods.
const classicExchange = "classic"

func classicCurves() []tls.CurveID {
	return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
}

// proxyFromEnvironment is the --proxy that stands for what the environment names.
const proxyFromEnvironment = "environment"

// Validate refuses a proxy that cannot be spoken to, or of which nobody said that it
// filters.
func (f *wayOutFlags) Validate() error {
	switch {
	case f.ConnectionBytes < minConnectionBytes:
		return fmt.Errorf("--connection-bytes must be 1MB or more, not %d bytes; sizes may have units, like 256MiB", int64(f.ConnectionBytes))
	case f.Proxy == "" && f.ProxyFilters:
		return errors.New("--proxy-filters says something of --proxy, which is missing")
	case f.Proxy != "" && !f.ProxyFilters:
		return errors.New("--proxy: the hub cannot see which addresses a proxy connects to. " +
			"If yours refuses private and other special ones, say so by --proxy-filters; else anybody can reach them through the hub")
	}
	_, err := f.proxy()
	return err
}

// proxy is the proxy, nil for none.
func (f *wayOutFlags) proxy() (p *egress.Proxy, err error) {
	switch f.Proxy {
	case "":
		return nil, nil
	case proxyFromEnvironment:
		p, err = egress.NewProxyFrom(httpproxy.FromEnvironment())
	default:
		p, err = egress.NewProxy(f.Proxy)
	}
	if err != nil {
		return nil, fmt.Errorf("--proxy: %w", err)
	}
	return p, nil
}

// wayOut is what all Dialers of the hub have in common: the callbacks that were
// verified are those that deliveries go to.
func (f *wayOutFlags) wayOut(hubURL string, names egress.NamesConfig, logger *slog.Logger, metrics prometheus.Registerer) (egress.Config, error) {
	cfg := egress.Config{AllowNets: f.AllowNet, AllowPorts: f.AllowPort, AllowLoopback: egress.LoopbackURL(hubURL)}
	if f.KeyExchange == classicExchange {
		cfg.TLS = &tls.Config{CurvePreferences: classicCurves()}
	}
	var err error
	if cfg.Proxy, err = f.proxy(); err != nil {
		return cfg, err
	}
	if cfg.Proxy != nil {
		cfg.Proxy.Log(logger)
		logger.Info("connections to callbacks and topics go by a proxy, which is to refuse private addresses", "proxy", cfg.Proxy.String())
	} else if env := httpproxy.FromEnvironment(); env.HTTPProxy != "" || env.HTTPSProxy != "" {
		logger.Info("the environment names a proxy, which is not heeded; --proxy environment would use it")
	}
	names.Resolver = f.resolver
	if cfg.Names, err = egress.NewNames(names, metrics); err != nil {
		return cfg, err
	}
	cfg.Metrics, err = egress.NewMetrics(metrics)
	return cfg, err
}
