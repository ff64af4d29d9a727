package house

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpproxy"

	"carillon/delivery/send"
	"carillon/internal/egress"
)

// checksPerHost is how many connections one host may have beside those of its deliveries: for
// verifications, topic checks and fetches.
const checksPerHost = 64

// outbound is how the hub connects to callbacks and topics: by one guard, and by one set of
// connections.
type outbound struct {
	dialer      *egress.Dialer
	proxy       *egress.Proxy     // nil: no proxy
	transport   http.RoundTripper // of verifications, topic checks and fetches: with deliveries' connections
	connections func() send.Connections
}

// classicCurves are the key exchanges without post-quantum methods.
func classicCurves() []tls.CurveID {
	return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
}

// validateOutbound refuses a proxy that cannot be spoken to, or one without the promise that it filters (ProxyFilters).
func (c Config) validateOutbound() error {
	var all []error
	switch {
	case c.ConnectionBytes < minConnectionBytes:
		all = append(
			all, fmt.Errorf("%s must be 1MB or more, not %d bytes", c.name("ConnectionBytes"), c.ConnectionBytes),
		)
	case c.KeyExchange != hybridExchange && c.KeyExchange != classicExchange:
		all = append(
			all,
			fmt.Errorf(
				"%s must be %s or %s, not %q", c.name("KeyExchange"), hybridExchange, classicExchange, c.KeyExchange,
			),
		)
	case c.Proxy == "" && c.ProxyFilters:
		all = append(
			all, fmt.Errorf("%s says something of %s, which is missing", c.name("ProxyFilters"), c.name("Proxy")),
		)
	case c.Proxy != "" && !c.ProxyFilters:
		all = append(all, fmt.Errorf("%s: the hub cannot see which addresses a proxy connects to. "+
			"If yours refuses private and other special ones, say so by %s; else anybody can reach them through the hub",
			c.name("Proxy"), c.name("ProxyFilters")))
	default:
		_, err := c.proxy()
		all = append(all, err)
	}
	_, err := c.ports()
	return errors.Join(append(all, err)...)
}

// ports parses AllowPort.
func (c Config) ports() (all []egress.PortRange, err error) {
	for _, text := range c.AllowPort {
		ports, err := egress.ParsePortRange(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name("AllowPort"), err)
		}
		all = append(all, ports)
	}
	return all, nil
}

// proxy returns the configured proxy, or nil.
func (c Config) proxy() (p *egress.Proxy, err error) {
	switch c.Proxy {
	case "":
		return nil, nil
	case proxyFromEnvironment:
		p, err = egress.NewProxyFrom(httpproxy.FromEnvironment())
	default:
		p, err = egress.NewProxy(c.Proxy)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name("Proxy"), err)
	}
	return p, nil
}

// egress returns what all connections of the hub have in common: the callbacks that were verified
// are those that deliveries go to.
func (c Config) egress(questions int, metrics prometheus.Registerer) (egress.Config, error) {
	cfg := egress.Config{AllowNets: c.AllowNet, AllowLoopback: egress.LoopbackURL(c.URL)}
	if c.KeyExchange == classicExchange {
		cfg.TLS = &tls.Config{CurvePreferences: classicCurves()}
	}
	var err error
	if cfg.AllowPorts, err = c.ports(); err != nil {
		return cfg, err
	}
	if cfg.Proxy, err = c.proxy(); err != nil {
		return cfg, err
	}
	names := egress.NamesConfig{TTL: c.DNSTTL, MaxQuestions: questions, Resolver: c.Resolver}
	if cfg.Names, err = egress.NewNames(names, metrics); err != nil {
		return cfg, err
	}
	cfg.Metrics, err = egress.NewMetrics(metrics)
	return cfg, err
}

// logProxy logs by which proxy connections go.
func logProxy(p *egress.Proxy, logger *slog.Logger) {
	if p != nil {
		p.Log(logger)
		logger.Info(
			"connections to callbacks and topics go by a proxy, which is to refuse private addresses",
			"proxy", p.String(),
		)
	} else if env := httpproxy.FromEnvironment(); env.HTTPProxy != "" || env.HTTPSProxy != "" {
		logger.Info("the environment names a proxy, which is not heeded; --proxy environment would use it")
	}
}

// checkOutbound builds the outbound part without a connection, to find its errors.
func (c Config) checkOutbound() error {
	way, err := c.egress(0, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if _, err := egress.New(way); err != nil {
		return fmt.Errorf("%s: %w", c.name("AllowNet"), err)
	}
	return nil
}
