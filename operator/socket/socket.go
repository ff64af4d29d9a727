// Package socket is the way by which commands reach a hub that has its store to itself (hub
// backup, hub topics, …): a Unix socket in the directory of the store. The permissions of
// its file alone say who may use it.
package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConns bounds the connections of a socket; more wait. Only the owner of the store can
	// use it, so it stops mistakes.
	maxConns = 32
	// dialWithin is for a hub that does not take connections.
	dialWithin = 5 * time.Second
)

// Place is where a socket is.
type Location struct {
	Dir  string // the store's
	Name string // in Dir
	// Scratch is the end of the name of what the next start removes from Dir.
	Scratch string
}

// Listener is a socket that takes connections.
type Listener struct {
	net.Listener
	name string
}

// Listen makes the socket. The lock of the directory is held, so an existing one was left behind. No
// other user can connect at any moment, for any umask and any permissions of the directory: the socket
// is made in a directory of its own, and moves when its mode is right.
func (p Location) Listen() (*Listener, error) {
	hidden, err := os.MkdirTemp(p.Dir, "control.*"+p.Scratch) // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(hidden)
	address, done, err := shortened(hidden, p.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // its name is another by then
	made := filepath.Join(hidden, p.Name)
	l := &Listener{Listener: netutil.LimitListener(ln, maxConns), name: filepath.Join(p.Dir, p.Name)}
	if err := os.Chmod(made, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if err := os.Rename(made, l.name); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return l, nil
}

// Bounds of a request: only the owner of the store sends any.
const (
	headerWithin  = 10 * time.Second
	requestWithin = time.Minute
	answerWithin  = 11 * time.Minute // an answer that streams has bounds of its own
	finishWithin  = 10 * time.Second // requests under way at the end
)

// Serve answers requests until ctx ends, then finishes those under way.
func (l *Listener) Serve(ctx context.Context, handler http.Handler, logger *slog.Logger) error {
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerWithin, ReadTimeout: requestWithin, WriteTimeout: answerWithin,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError), // what it says is about us: panics
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.name, err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer cancel()
	err := srv.Shutdown(finish)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("requests cut off at shutdown", "listener", l.name)
		return srv.Close()
	}
	return err
}

// Remove takes the socket away. The lock of the directory is still held.
func (l *Listener) Remove() {
	_ = l.Close() // a served listener is closed already
	_ = os.Remove(l.name)
}

// Dial connects to the hub that works in the directory.
func (p Location) Dial(ctx context.Context) (net.Conn, error) {
	address, done, err := shortened(p.Dir, p.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "unix", address)
}
