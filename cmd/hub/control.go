package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/net/netutil"

	"carillon/cmd/internal/program"
	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// A hub has its Pebble directory to itself while it runs. What works on the store
// meanwhile (hub backup, hub source) asks the hub, by HTTP over a Unix socket in
// that directory: who may use the socket is told by the permissions of the file
// alone. Where no hub runs, or with Redis, the command opens the store and answers
// itself, by the same paths (openControl).
//
// To add a path: a line in controlPaths, and a controlFunc that takes JSON by
// readJSON, answers by writeJSON and returns a refusal for what is wrong with the
// request. A command asks by openControl and control.call.

// Bounds of the control socket. Only the owner of the store can use it, so they stop
// mistakes.
const (
	maxControlConns = 32      // at a time; more wait
	maxControlBody  = 1 << 20 // of JSON, in bytes
)

// controls is what the control paths work on: a hub's parts, or those of a command
// that has opened the store.
type controls struct {
	store    *engine
	sources  *source.Registry // nil: nobody in this process asks who may publish
	logger   *slog.Logger
	stopping <-chan struct{} // closed when the hub is to end; nil: it is a command
}

// controlPaths are all that can be asked.
func (c *controls) controlPaths() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/version", c.handle(c.version))
	mux.Handle("POST /v1/backup", c.handle(c.backup))
	c.sourcePaths(mux)
	return mux
}

// version tells whom the command speaks to.
func (c *controls) version(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, versionAnswer{Version: program.Version})
}

type versionAnswer struct {
	Version string `json:"version"`
}

// controlFunc answers one request. Nothing is answered yet where it returns an error.
type controlFunc func(w http.ResponseWriter, r *http.Request) error

// refusal is an error with a status: what is wrong with the request, in one line.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// handle answers an error as text. Whoever asks owns the store, and may know all.
func (c *controls) handle(f controlFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxControlBody)
		err := f(w, r)
		if err == nil {
			return
		}
		status := http.StatusInternalServerError
		if refused, is := errors.AsType[refusal](err); is {
			status = refused.status
		} else if errors.Is(err, subscription.ErrUnavailable) {
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
	})
}

// readJSON reads the body of a request.
func readJSON(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refusal{http.StatusBadRequest, fmt.Sprintf("the request is not understood: %v", err)}
	}
	return nil
}

// writeJSON answers with 200.
func writeJSON(w http.ResponseWriter, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // who asked is gone
	return nil
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
		h.logger.Warn("there is no control socket: commands that need the running hub (backup, source) are not available",
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
	c := &controls{store: h.store, sources: h.sources, logger: h.logger, stopping: ctx.Done()}
	return program.Serve(ctx, h.control, c.controlPaths(), h.logger)
}

// drop reads what is left of an answer, so far as that is little.
func drop(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxControlBody)
	_ = body.Close()
}
