package egress

import (
	"net"
	"net/http"
	"net/url"
)

// ProxyAnswer reads a proxy's answer to CONNECT from the connection: nil where it has
// connected.
func ProxyAnswer(d *Dialer, conn net.Conn) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: "a.example:443"}, Host: "a.example:443"}
	_, err := d.proxyAnswer(conn, req)
	return err
}
