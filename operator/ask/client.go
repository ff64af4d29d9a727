package ask

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

	"carillon/internal/legible"
	"carillon/operator/api"
)

// Bounds of asking.
const (
	answerWithin = 30 * time.Second // one call, a stream excepted
	dialWithin   = 5 * time.Second  // a hub that does not take connections
	// maxAnswer is the largest answer that is read, bytes. It stops who is asked and is no hub.
	maxAnswer  = 64 << 20
	maxProblem = 16 << 10 // of an error's document, bytes
	maxRest    = 1 << 20  // bytes read from an unwanted answer, so that its connection can be kept
)

// Client asks a hub, or a store that this process has opened as if it were one. Close it.
type Client struct {
	Online  bool   // a running hub answers
	Version string // of who answers, legible

	publishers string // its publishers (api.Config.Publishers); "": unknown

	shared   bool   // the store is one that hubs may work on beside the command
	listener bool   // it is asked at a listener that the user named, which may be another
	base     string // the API's URL
	token    string // the operator's; "": no token is sent
	client   *http.Client
	close    func() error
}

// Refused is an answer that is an error, in one legible line: the server may be no hub.
type Refused struct {
	Status int
	text   string
}

func (r Refused) Error() string { return r.text }

func isStatus(err error, status int) bool {
	refused, is := errors.AsType[Refused](err)
	return is && refused.Status == status
}

// dialer connects to who is asked.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// AtListener asks at the operator's listener with this URL, with the operator's token unless
// that is "", and with TLS by secure where the URL is of https; nil: as the machine trusts.
func AtListener(ctx context.Context, url, token string, secure *tls.Config) (*Client, error) {
	dial := (&net.Dialer{Timeout: dialWithin}).DialContext
	c := newClient(strings.TrimRight(url, "/"), dial, secure)
	c.Online, c.listener, c.token = true, true, token
	return c.greeted(ctx)
}

// AtSocket asks the hub that takes the connections which dial makes.
func AtSocket(ctx context.Context, dial func(context.Context) (net.Conn, error)) (*Client, error) {
	c := newClient(inside, func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, nil)
	c.Online = true
	c, err := c.greeted(ctx)
	if _, dialed := errors.AsType[*net.OpError](err); dialed {
		err = errors.New("it is in use, and no hub answers commands there: " +
			"another command works on it, a hub only begins or ends (try again), or the hub is older than this command (stop it first)")
	}
	return c, err
}

// Here asks an API that this process serves to itself, until Close, which calls end then. shared
// says that hubs may work on its store at the same time.
func InProcess(
	ctx context.Context, serve http.Handler, shared bool, end func() error, logger *slog.Logger,
) (*Client, error) {
	ln, closed := newPipe(), make(chan struct{})
	srv := &http.Server{
		Handler: serve, ReadHeaderTimeout: answerWithin,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() { _ = srv.Serve(ln); close(closed) }() // it ends with Close
	c := newClient(inside, ln.dial, nil)
	c.shared, c.close = shared, func() error {
		_ = srv.Close() // no request comes any more
		<-closed
		return end()
	}
	return c.greeted(ctx)
}

// inside is where a hub is asked that is reached without a network; no name is looked up for it.
const inside = "http://hub"

func newClient(hub string, dial dialer, secure *tls.Config) *Client {
	return &Client{
		base: hub + "/api/v1", close: func() error { return nil },
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: nil, DialContext: dial, TLSClientConfig: secure, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// greeted learns the server's identity. Without an answer it closes the Client.
func (c *Client) greeted(ctx context.Context) (*Client, error) {
	var who api.VersionResponse
	if _, err := c.read(ctx, "/version", &who); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.Version, c.publishers = legible.Text(who.Version), who.Publishers
	return c, nil
}

// Close ends asking, and closes the store where it was opened.
func (c *Client) Close() error {
	c.client.CloseIdleConnections()
	return c.close()
}

// when is from when on something is done.
func (c *Client) when() string {
	if c.Online || c.shared {
		return " now"
	}
	return ", when it runs"
}

// read asks, and returns the answer as it came and in out.
func (c *Client) read(ctx context.Context, path string, out any) (json.RawMessage, error) {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// do asks for path, below the API's root, with in as JSON, if it is not nil. It returns the answer's
// body, {} for an empty one, and decodes it into out, if that is not nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	body, err := c.Stream(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer Drop(body)
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return json.RawMessage("{}"), nil
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return nil, fmt.Errorf("the hub's answer is not understood: %w", err)
		}
	}
	return text, nil
}

// Stream asks for path and returns the answer's body, to be closed. It takes as long as
// ctx lets it.
func (c *Client) Stream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
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
	defer Drop(resp.Body)
	return nil, c.refused(resp)
}

// refused is what an answer says that is an error.
func (c *Client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // the part that was read is printed
	var p api.Problem
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch said := kind == "application/problem+json" && json.Unmarshal(text, &p) == nil; {
	case resp.StatusCode == http.StatusNotFound && !said && c.listener:
		return errors.New("that is no operator's listener (--admin), or that of an older hub")
	case resp.StatusCode == http.StatusNotFound && (!said || p.Parameter == "path"):
		return fmt.Errorf(
			"the hub that runs is %s and does not know this command: restart it, or stop it first",
			cmp.Or(c.Version, "an older version"),
		)
	case said:
		return Refused{resp.StatusCode, legible.Text(strings.TrimSuffix(p.Detail, "."))}
	}
	return Refused{
		resp.StatusCode,
		legible.Text(fmt.Sprintf("the answer is %s: %s", resp.Status, strings.TrimSpace(string(text)))),
	}
}

// Drop reads what is left of an answer, so far as that is little, and closes it.
func Drop(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxRest)
	_ = body.Close()
}

// pipe takes connections from within the process.
type pipe struct {
	dialed chan net.Conn
	ended  chan struct{}
}

func newPipe() *pipe { return &pipe{dialed: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.dialed <- there:
		return here, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next connection.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. A server calls it once.
func (p *pipe) Close() error {
	close(p.ended)
	return nil
}

// Addr has nothing to tell.
func (*pipe) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }
