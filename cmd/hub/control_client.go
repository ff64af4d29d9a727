package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"carillon/store/pebblestore"
)

// Bounds of asking.
const (
	controlWithin   = 30 * time.Second // one call, a stream excepted
	controlDial     = 5 * time.Second  // a hub that does not take connections
	maxControlError = 4 << 10          // what is repeated of an error's text, in bytes
)

// control is a store that a command asks: through the hub that has it open, or by
// opening it.
type control struct {
	Online  bool   // a running hub answers
	Version string // of who answers

	client *http.Client
	close  func() error
}

// openControl opens the store, or finds the hub that has it open. Close it.
func openControl(ctx context.Context, f storeFlags, logger *slog.Logger) (*control, error) {
	e, err := openStore(ctx, f, logger)
	var c *control
	switch {
	case err == nil:
		c = controlHere(e, logger)
	case !errors.Is(err, pebblestore.ErrInUse):
		return nil, err
	default:
		where, err := f.directory()
		if err != nil {
			return nil, err
		}
		c = controlAt(where)
	}
	var who versionAnswer
	if err := c.call(ctx, http.MethodGet, "/v1/version", nil, &who); err != nil {
		if _, dialed := errors.AsType[*net.OpError](err); dialed && c.Online {
			err = errors.New("it is in use, and no hub answers commands there: " +
				"another command works on it, a hub only begins or ends (try again), or the hub is older than this command (stop it first)")
		}
		return nil, errors.Join(f.failed(err), c.Close())
	}
	c.Version = who.Version
	return c, nil
}

// Close ends asking, and closes the store where it was opened.
func (c *control) Close() error {
	c.client.CloseIdleConnections()
	return c.close()
}

// controlAt asks the hub that works in the directory.
func controlAt(dir string) *control {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		address, done, err := socketAddress(dir)
		if err != nil {
			return nil, err
		}
		defer done()
		return (&net.Dialer{Timeout: controlDial}).DialContext(ctx, "unix", address)
	}
	return &control{Online: true, client: controlClient(dial), close: func() error { return nil }}
}

// controlHere answers what is asked in this process.
func controlHere(e *engine, logger *slog.Logger) *control {
	ln := newPipeListener()
	closed := make(chan struct{})
	srv := &http.Server{
		Handler:           (&controls{store: e, logger: logger}).controlPaths(),
		ReadHeaderTimeout: controlWithin,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() { _ = srv.Serve(ln); close(closed) }() // it ends with Close
	return &control{client: controlClient(ln.dial), close: func() error {
		_ = srv.Close() // nobody asks any more
		<-closed
		return e.Close()
	}}
}

func controlClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DialContext: dial, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call asks for path with in as JSON, if it is not nil, and reads the answer into
// out, if that is not nil.
func (c *control) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, controlWithin)
	defer cancel()
	body, err := c.stream(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer drop(body)
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("the hub's answer is not understood: %w", err)
	}
	return nil
}

// stream asks for path and returns the answer's body, to be closed. It takes as long as
// ctx lets it.
func (c *control) stream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://hub"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer drop(resp.Body)
	message, _ := io.ReadAll(io.LimitReader(resp.Body, maxControlError)) // what was read is told
	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(string(message), "404 page not found") {
		return nil, fmt.Errorf("the hub that runs is version %s and does not know this command: restart it, or stop it first", c.Version)
	}
	return nil, refusal{resp.StatusCode, strings.TrimSpace(string(message))}
}

// pipeListener takes connections from within the process.
type pipeListener struct {
	dialed chan net.Conn
	ended  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{dialed: make(chan net.Conn), ended: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.dialed <- there:
		return here, nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. A server calls it once.
func (l *pipeListener) Close() error {
	close(l.ended)
	return nil
}

// Addr has nothing to tell.
func (*pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }
