package fetch

import (
	"net/http"
	"time"
)

const (
	// maxHeader bounds the header of a response, bytes.
	maxHeader = 64 << 10
	// headerTimeout bounds the handshake of TLS, and the wait for the header of a response.
	headerTimeout = 30 * time.Second
	// idleConn is how long a connection is kept for the next request.
	idleConn = time.Minute
)

// NewTransport returns a transport with limits, which uses the proxy of the environment and keeps
// perHost connections to each host. It unpacks no response: lengths and hashes are of the bytes
// that are sent.
func NewTransport(perHost int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSHandshakeTimeout:    headerTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    perHost,
		IdleConnTimeout:        idleConn,
		DisableCompression:     true,
	}
}
