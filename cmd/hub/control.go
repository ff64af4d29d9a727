package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/net/netutil"

	"carillon/cmd/internal/program"
	"carillon/operator/api"
	"carillon/store/pebblestore"
)

// A hub has its Pebble directory to itself while it runs. What works on the store
// meanwhile (hub backup, hub topics, …) asks the hub, by HTTP over a Unix socket in
// that directory: who may use the socket is told by the permissions of the file
// alone. What is asked is the API of package api, as on the operator's listener, and
// a backup. Where no hub runs, or with Redis, the command opens the store and answers
// itself, by the same handlers (openControl).

// maxControlConns bounds the connections of the control socket; more wait. Only the owner of the
// store can use it, so it stops mistakes.
const maxControlConns = 32

// controls is what the control paths work on: a hub's parts, or those of a command
// that has opened the store.
type controls struct {
	store    *engine
	desk     api.Desk
	level    api.Level // nil: it is a command
	mode     string    // who may publish; "": it is a command
	logger   *slog.Logger
	stopping <-chan struct{} // closed when the hub is to end; nil: it is a command
}

// handler answers all that can be asked.
func (c *controls) handler() http.Handler {
	return api.API(api.Config{
		Desk: c.desk, Version: program.Version, Publishers: c.mode, Level: c.level, Stopping: c.stopping, Backup: c.backup, Logger: c.logger,
	})
}

// controlSocket is the listener in the directory of the store.
type controlSocket struct {
	net.Listener
	name string
}

// listenControl makes the socket. The lock of the directory is held, so one that is
// there was left behind. No other user can connect at any moment, whatever the umask
// is and whoever may look into the directory: the socket is made in a directory of
// its own, and moves when its mode is right.
func listenControl(dir string) (*controlSocket, error) {
	hidden, err := os.MkdirTemp(dir, "control.*"+pebblestore.ScratchSuffix) // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(hidden)
	address, done, err := socketAddress(hidden)
	if err != nil {
		return nil, err
	}
	defer done()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // its name is another by then
	made := filepath.Join(hidden, pebblestore.ControlSocket)
	s := &controlSocket{Listener: netutil.LimitListener(ln, maxControlConns), name: filepath.Join(dir, pebblestore.ControlSocket)}
	if err := os.Chmod(made, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if err := os.Rename(made, s.name); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return s, nil
}

// remove takes the socket away. The lock of the directory is still held.
func (s *controlSocket) remove() {
	_ = s.Close() // a served listener is closed already
	_ = os.Remove(s.name)
}

// openControlSocket makes the socket of a hub. Without it the hub does all but answer
// commands.
func (h *house) openControlSocket() {
	if h.store.Directory == "" {
		return
	}
	socket, err := listenControl(h.store.Directory)
	if err != nil {
		h.logger.Warn("there is no control socket: commands that need the running hub (backup, topics, source, …) are not available",
			"directory", h.store.Directory, "error", err)
		return
	}
	h.control = socket
}

// serveControl answers commands until ctx ends, then finishes what is under way.
func (h *house) serveControl(ctx context.Context) error {
	if h.control == nil {
		return nil
	}
	c := &controls{store: h.store, desk: h.desk, level: h.level, mode: h.mode(), logger: h.logger, stopping: ctx.Done()}
	return program.Serve(ctx, h.control, c.handler(), h.logger)
}
