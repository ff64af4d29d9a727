package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of every server on the cost of a client. A handler may set other deadlines for a request. See
// also conn.Write, limiter and decision 23.
const (
	readHeaderTimeout = 10 * time.Second // a client that trickles its header, or its handshake
	readTimeout       = time.Minute      // a client that trickles its body, where the handler sets no deadlines of its own
	writeTimeout      = 11 * time.Minute // an answer, with the body before it that a handler waits for; see also writeStall
	idleTimeout       = 2 * time.Minute  // a connection kept for nothing
	maxHeaderBytes    = 64 << 10         // a header without end: 431
)

// DrainWithin bounds how long a server that stops waits for the requests it
// has begun to answer, unless its Endpoint has a bound of its own.
const DrainWithin = 10 * time.Second

// Serve answers requests on ln until ctx ends, then finishes those under way
// within DrainWithin, or the bound of the Listener. It owns ln, which Listen has made or has a bound on its
// connections of its own.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, logger *slog.Logger) error {
	l, ok := ln.(*Listener)
	if !ok {
		l = &Listener{limiter: newLimiter(ln, bounds(0)), finish: DrainWithin}
		l.Listener = l.limiter
	}
	srv := l.server(handler, logger)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.finish)
	defer cancel()
	if err := srv.Shutdown(drain); errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("requests cut off at shutdown", "listener", l.Addr().String())
		return srv.Close()
	} else if err != nil {
		return fmt.Errorf("closing %s: %w", l.Addr(), err)
	}
	return nil
}

// server is the server of the listener. It speaks HTTP/1 only.
func (l *Listener) server(handler http.Handler, logger *slog.Logger) *http.Server {
	if l.operators {
		handler = ownOnly(handler)
	}
	if l.names != nil {
		handler = l.names.only(handler)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           noteBodies(l.closeSome(handler)),
		ConnContext:       withConn,
		Protocols:         &protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&serverLog{logger: logger, handshakes: &l.handshakes}, "", 0),
		ConnState: func(c net.Conn, state http.ConnState) {
			if ours, ok := counted(c); ok {
				l.limiter.track(ours, state)
			}
		},
	}
}

// closeSome closes the connection after each answer once CloseEach was called. Before, it
// does so where a proxy in front may think that the request ends elsewhere, so that what may
// follow is not taken for a request that another client sent (request smuggling). That holds for
// chunked requests, as net/http hides whether there was a Content-Length too (RFC 9112 §6.1), and
// for HTTP/1.0, where net/http ignores Transfer-Encoding.
func (l *Listener) closeSome(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.closing.Load() || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// serverLog receives the log lines of net/http. A panic is an error of ours. All other lines are
// about clients. They are logged at level debug, as strangers could fill the log with them.
type serverLog struct {
	logger     *slog.Logger
	handshakes *counter
}

func (s *serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	switch {
	case strings.HasPrefix(text, "http: panic"):
		s.logger.Error("a handler panicked", "panic", text)
	case strings.HasPrefix(text, "http: TLS handshake error"):
		s.handshakes.Add(1)
		s.logger.Debug(text)
	default:
		s.logger.Debug(text)
	}
	return len(line), nil
}

// Address is one named address of the ready line.
type Address struct{ Name, Value string }

// Ready prints the one line which says that the command is ready and where, and notifies the
// service manager:
//
//	hub ready listen=127.0.0.1:8080 admin=127.0.0.1:8081 url=http://127.0.0.1:8080/websub/
func Ready(stdout io.Writer, name string, addresses ...Address) {
	var b strings.Builder
	b.WriteString(name + " ready")
	for _, a := range addresses {
		b.WriteString(" " + a.Name + "=" + a.Value)
	}
	fmt.Fprintln(stdout, b.String())
	Notify("READY=1")
}
