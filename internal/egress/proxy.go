package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is an HTTP proxy of the operator's, by which connections are made: each by a
// CONNECT of its own, for http and https alike, so that no client of the Dialer need
// know. It is dialed where it is, in a private network too.
//
// Not carried are localhost and loopback addresses, which mean this machine and not the
// proxy's, and what the operator excepted: they are dialed, and judged, as without it.
type Proxy struct {
	secure        bool // it is spoken to by TLS
	host, port    string
	authorization string // value of Proxy-Authorization, empty for none
	choose        func(*url.URL) (*url.URL, error)

	trouble trouble
}

// NewProxy reads the URL of a proxy: http or https, a host, perhaps a port (80 or 443
// else), perhaps user and password. No error repeats it: it may hold a password.
func NewProxy(raw string) (*Proxy, error) { return newProxy(raw, "") }

// NewProxyFrom reads what an environment says (httpproxy.FromEnvironment): one proxy for
// everything, and the exceptions in NO_PROXY.
func NewProxyFrom(env *httpproxy.Config) (*Proxy, error) {
	raw := env.HTTPSProxy
	switch {
	case raw == "":
		raw = env.HTTPProxy
	case env.HTTPProxy != "" && env.HTTPProxy != raw:
		return nil, errors.New(
			"HTTPS_PROXY and HTTP_PROXY name different proxies: everything goes by one, so set both to it",
		)
	}
	if raw == "" {
		return nil, errors.New("neither HTTPS_PROXY nor HTTP_PROXY is set")
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	return newProxy(raw, env.NoProxy)
}

func newProxy(raw, except string) (*Proxy, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("it is not a URL; special characters of a password must be percent-encoded")
	}
	p := &Proxy{secure: u.Scheme == "https", host: u.Hostname(), port: u.Port()}
	_, isAddr := literal(p.host)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("it must begin with http:// or https://: other kinds of proxies are not spoken to")
	case !isAddr && !validName(p.host):
		return nil, errors.New("its host is neither a name nor an address")
	case p.port != "" && !validPort(p.port):
		return nil, errors.New("its port must be from 1 to 65535")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it must have nothing behind host and port")
	}
	if p.port == "" {
		if p.port = "80"; p.secure {
			p.port = "443"
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	// As the https proxy it is asked about every URL alike.
	p.choose = (&httpproxy.Config{HTTPSProxy: p.String(), NoProxy: except}).ProxyFunc()
	return p, nil
}

// String is the URL of the proxy without user and password.
func (p *Proxy) String() string {
	scheme := "http"
	if p.secure {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(p.host, p.port))
}

// carries reports whether connections to the host go by the proxy. It may be nil.
func (p *Proxy) carries(host, port string) bool {
	if p == nil || localhost(host) {
		return false
	}
	by, err := p.choose(&url.URL{Scheme: "https", Host: net.JoinHostPort(strings.TrimSuffix(host, "."), port)})
	return by != nil || err != nil
}
