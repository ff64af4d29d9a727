package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// Limits of every server: what a client may cost. A handler may set closer
// deadlines for a request.
const (
	readHeaderTimeout = 10 * time.Second // a client that trickles its header
	readTimeout       = 10 * time.Minute // a client that trickles its body
	writeTimeout      = 11 * time.Minute // a client that does not read the answer; it includes readTimeout
	idleTimeout       = 2 * time.Minute  // a connection kept for nothing
	maxHeaderBytes    = 64 << 10         // a header without end: 431
	maxConnections    = 16_384           // a flood of connections; see Limited
)

// DrainWithin bounds how long a server that stops waits for the requests it
// has begun to answer.
const DrainWithin = 10 * time.Second

// Listen opens a listener; its error names the flag that the address came from.
func Listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, fmt.Errorf("--%s is empty: give HOST:PORT", flag)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return ln, nil
}

// Limited bounds the connections that ln has open at a time: to maxConnections,
// and to half of the files that the process may open, so that a flood of
// connections leaves descriptors to the store, to the other listeners and to
// what goes out. Further connections wait.
func Limited(ln net.Listener) net.Listener {
	return netutil.LimitListener(ln, max(1, min(maxConnections, OpenFiles()/2)))
}

// Serve answers requests on ln until ctx ends, then finishes those under way
// within DrainWithin. It owns ln.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, logger *slog.Logger) error {
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainWithin)
	defer cancel()
	if err := srv.Shutdown(drain); errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("requests cut off at shutdown", "listener", ln.Addr().String())
		return srv.Close()
	} else if err != nil {
		return fmt.Errorf("closing %s: %w", ln.Addr(), err)
	}
	return nil
}

// BaseURL returns the URL of path on ln, for a command whose --url was not
// given. A listener on every address of the machine has no such URL: which of
// them the world uses is for the operator to say, and the loopback address
// would open the machine's own services to what is only for the world.
func BaseURL(ln net.Listener, path string) (string, error) {
	address := ln.Addr().String()
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().IsUnspecified() {
		return "", fmt.Errorf("--listen %s is every address of this machine: give --url, as the world reaches it", address)
	}
	return "http://" + address + path, nil
}

// Address is one named address of the ready line.
type Address struct{ Name, Value string }

// Ready prints the one line which says that the command is ready and where:
//
//	hub ready listen=127.0.0.1:8080 admin=127.0.0.1:8081 url=http://127.0.0.1:8080/websub/
func Ready(stdout io.Writer, name string, addresses ...Address) {
	var b strings.Builder
	b.WriteString(name + " ready")
	for _, a := range addresses {
		b.WriteString(" " + a.Name + "=" + a.Value)
	}
	fmt.Fprintln(stdout, b.String())
}
