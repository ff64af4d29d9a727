package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/delivery/dispatch"
	"carillon/internal/legible"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/store/pebblestore"
)

// Bounds of asking.
const (
	controlWithin   = 30 * time.Second // one call, a stream excepted
	controlDial     = 5 * time.Second  // a hub that does not take connections
	maxControlError = 16 << 10         // of an error's document, in bytes
	maxControlRest  = 1 << 20          // what is read of an answer that nobody wants, so that its connection can be kept
)

// control is a hub that a command asks, or a store that it has opened and asks as if it were
// one.
type control struct {
	Online  bool   // a running hub answers
	Version string // of who answers, legible

	shared   bool   // the store is one that hubs may work on beside the command
	listener bool   // it is asked at a listener that somebody named, which may be another
	base     string // the API's URL
	token    string // the operator's; "": none is sent
	client   *http.Client
	close    func() error
}

// refusal is an answer that is an error, in one legible line: who answers may be no hub.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// openControl opens the store, or finds the hub that has it open. Close it. What a command asks
// that opened the store is about Sources, or the store as a whole; openOperator is for the rest.
func openControl(ctx context.Context, f storeFlags, logger *slog.Logger) (*control, error) {
	return openControlWith(ctx, f, logger, deskOfSources)
}

// openOperator is openControl for all that can be asked: a store that no hub has open is read
// first.
func openOperator(ctx context.Context, f storeFlags, logger *slog.Logger) (*control, error) {
	return openControlWith(ctx, f, logger, openDesk)
}

// deskOfSources knows who may publish, and no subscriptions.
func deskOfSources(_ context.Context, e *engine, logger *slog.Logger) (*deskAside, error) {
	nothing, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e.Log, Cursors: e.Cursors}, nobody{}, nobody{}, logger, nil)
	if err != nil {
		return nil, err
	}
	desk, err := operator.New(operator.Config{
		Engine: e.name(), Version: program.Version, Started: time.Now(), Deliveries: nothing, Log: e.Log, Cursors: e.Cursors,
		Subscriptions: e.Subscriptions, Sources: e.Sources, Logger: logger,
	})
	return &deskAside{desk, func() error { return nil }}, err
}

// aside makes the desk of a command that has opened the store.
type aside func(ctx context.Context, e *engine, logger *slog.Logger) (*deskAside, error)

func openControlWith(ctx context.Context, f storeFlags, logger *slog.Logger, desks aside) (*control, error) {
	e, err := openStore(ctx, f, logger)
	var c *control
	switch {
	case err == nil:
		if c, err = controlHere(ctx, e, logger, desks); err != nil {
			return nil, errors.Join(f.failed(err), e.Close())
		}
	case !errors.Is(err, pebblestore.ErrInUse):
		return nil, err
	default:
		where, err := f.directory()
		if err != nil {
			return nil, err
		}
		c = controlAt(where)
	}
	if err := c.greet(ctx); err != nil {
		if _, dialed := errors.AsType[*net.OpError](err); dialed && c.Online {
			err = errors.New("it is in use, and no hub answers commands there: " +
				"another command works on it, a hub only begins or ends (try again), or the hub is older than this command (stop it first)")
		}
		return nil, errors.Join(f.failed(err), c.Close())
	}
	return c, nil
}

// greet learns who answers.
func (c *control) greet(ctx context.Context) error {
	var who api.VersionAnswer
	err := c.call(ctx, http.MethodGet, "/version", nil, &who)
	c.Version = legible.Text(who.Version)
	return err
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
	return &control{Online: true, base: insideAPI, client: controlClient(dial, nil), close: func() error { return nil }}
}

// insideAPI is where the API is to be asked over a socket; no name is looked up for it.
const insideAPI = "http://hub/api/v1"

// controlHere answers what is asked in this process.
func controlHere(ctx context.Context, e *engine, logger *slog.Logger, desks aside) (*control, error) {
	desk, err := desks(ctx, e, logger)
	if err != nil {
		return nil, err
	}
	ln := newPipeListener()
	closed := make(chan struct{})
	srv := &http.Server{
		Handler:           (&controls{store: e, desk: desk, logger: logger}).handler(),
		ReadHeaderTimeout: controlWithin,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() { _ = srv.Serve(ln); close(closed) }() // it ends with Close
	return &control{base: insideAPI, shared: e.Peers != nil, client: controlClient(ln.dial, nil), close: func() error {
		_ = srv.Close() // nobody asks any more
		<-closed
		return errors.Join(desk.close(), e.Close())
	}}, nil
}

// dialListener connects to the operator's listener that the command was told of (--ask).
func dialListener(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: controlDial}).DialContext(ctx, network, address)
}

// controlClient asks by the connections that dial makes, with TLS for https.
func controlClient(dial func(ctx context.Context, network, address string) (net.Conn, error), secure *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DialContext: dial, TLSClientConfig: secure, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call asks for path, below the API's root, with in as JSON, if it is not nil, and reads the
// answer into out, if that is not nil.
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
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer drop(resp.Body)
	return nil, c.refused(resp)
}

// refused is what an answer says that is an error.
func (c *control) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxControlError)) // what was read is told
	var p api.Problem
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch said := kind == "application/problem+json" && json.Unmarshal(text, &p) == nil; {
	case resp.StatusCode == http.StatusNotFound && !said && c.listener:
		return errors.New("that is no operator's listener (--admin), or that of an older hub")
	case resp.StatusCode == http.StatusNotFound && (!said || p.Parameter == "path"):
		return fmt.Errorf("the hub that runs is %s and does not know this command: restart it, or stop it first", cmp.Or(c.Version, "an older version"))
	case said:
		return refusal{resp.StatusCode, legible.Text(strings.TrimSuffix(p.Detail, "."))}
	}
	return refusal{resp.StatusCode, legible.Text(fmt.Sprintf("the answer is %s: %s", resp.Status, strings.TrimSpace(string(text))))}
}

// drop reads what is left of an answer, so far as that is little.
func drop(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxControlRest)
	_ = body.Close()
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
