package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Endpoint says where a server listens, and for whom.
type Endpoint struct {
	Flag    string // the name of the flag that Address came from
	Address string // HOST:PORT; port 0 picks one
	TLS     TLS    // without it the listener speaks plain HTTP
	// Most bounds the connections that it has open at a time, from 8 to 16,384. 0: half of
	// the files that the process may open.
	Most int
	// Operators: it is for the operator's own people and systems, and not for the world. Requests that
	// only tricked browsers would send are refused (ownOnly).
	Operators bool
	// Finish bounds how long a server that stops waits for the requests that it has begun to
	// answer. 0: DrainWithin.
	Finish time.Duration
	// Proxies are the networks of proxies, whose connections are those of many
	// clients: they may take all there are. Those of this machine may, too, and
	// everybody's of a listener for operators.
	Proxies []netip.Prefix
	Logger  *slog.Logger
}

// Listener is a listener with its bounds (limiter) and its certificate.
type Listener struct {
	net.Listener // with TLS, where there is a certificate
	limiter      *limiter
	keeper       *keeper // nil: plain HTTP
	operators    bool
	names        *names        // AnswerTo; nil: it answers to all
	finish       time.Duration // Endpoint.Finish
	endpoint     Endpoint      // what Open opens
	at           net.Addr      // the address before Open
	url          string        // ToldAs
	handshakes   counter       // that failed
	closing      atomic.Bool   // CloseEach
}

// Listen opens a listener; its error names the flag to change.
func Listen(ctx context.Context, e Endpoint) (*Listener, error) {
	l, err := Prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	return l, l.Open(ctx)
}

// Prepare returns a Listener that refuses connections until Open. It reports what it can see
// without listening, a port in use among it; its error names the flag to change. A Listener on port 0 is open at once,
// since the system chooses its port then.
func Prepare(ctx context.Context, e Endpoint) (*Listener, error) {
	if e.Address == "" {
		return nil, fmt.Errorf("--%s is empty: give HOST:PORT", e.Flag)
	}
	keeper, err := newKeeper(e)
	if err != nil {
		return nil, err
	}
	at, err := net.ResolveTCPAddr("tcp", e.Address)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", e.Flag, e.Address, err)
	}
	l := newListener(e, keeper, bounds(e.Most))
	l.at = at
	if at.Port == 0 {
		return l, l.Open(ctx)
	}
	if err := bindable(ctx, e.Address); err != nil {
		return nil, fmt.Errorf("--%s %s: %w", e.Flag, e.Address, err)
	}
	return l, nil
}

// Open begins to listen. It does nothing on a Listener that is open.
func (l *Listener) Open(ctx context.Context) error {
	if l.Listener != nil {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", l.endpoint.Address)
	if err != nil {
		return fmt.Errorf("--%s %s: %w", l.endpoint.Flag, l.endpoint.Address, err)
	}
	l.use(ln)
	return nil
}

func newListener(e Endpoint, keeper *keeper, within limits) *Listener {
	within.exempt = func(a netip.Addr) bool {
		return e.Operators || a.IsLoopback() || slices.ContainsFunc(
			e.Proxies, func(p netip.Prefix) bool { return p.Contains(a) },
		)
	}
	return &Listener{
		limiter: newLimiter(nil, within), keeper: keeper, operators: e.Operators,
		finish: cmp.Or(e.Finish, DrainWithin), endpoint: e,
	}
}

// use has the Listener accept the connections of ln.
func (l *Listener) use(ln net.Listener) {
	l.limiter.Listener = ln
	if l.Listener = net.Listener(l.limiter); l.keeper != nil {
		l.Listener = l.keeper.listener(l.limiter)
	}
}

// Addr returns the address of the listener, also before Open.
func (l *Listener) Addr() net.Addr {
	if l.Listener == nil {
		return l.at
	}
	return l.Listener.Addr()
}

// CloseEach has each connection closed after its next answer, which says so (Connection:
// close). Connections without a request stay open.
func (l *Listener) CloseEach() { l.closing.Store(true) }

// Check returns the errors that Listen would return, as far as they show without listening. If
// rawURL is the public URL of the endpoint, Check also compares the certificate with it, as ToldAs
// does.
func (e Endpoint) Check(rawURL string) error {
	keeper, err := newKeeper(e)
	if keeper != nil && rawURL != "" {
		for _, warning := range keeper.warningsOfURL(rawURL) {
			e.Logger.Warn(warning)
		}
	}
	if e.Address == "" {
		return errors.Join(fmt.Errorf("--%s is empty: give HOST:PORT", e.Flag), err)
	}
	_, port, failed := net.SplitHostPort(e.Address)
	if failed == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		_, failed = strconv.ParseUint(port, 10, 16)
	}
	if failed != nil {
		err = errors.Join(fmt.Errorf("--%s %s: it must be HOST:PORT: %w", e.Flag, e.Address, failed), err)
	}
	return err
}

// renew reads certificate files anew that a reload names. take has them used; nil: nothing
// changes. restart: the listener would speak TLS from then on, or no more, which it
// learns at a start only.
func (l *Listener) renew(files TLS) (take func(), restart bool, err error) {
	if l.keeper == nil || files == (TLS{}) {
		return nil, (l.keeper == nil) != (files == TLS{}), nil
	}
	take, err = l.keeper.renew(files)
	return take, false, err
}

// Renew adds the certificate files of a listener, whose flags begin with prefix.
func (c *Change) Renew(l *Listener, files TLS, prefix string) error {
	take, restart, err := l.renew(files)
	if restart {
		c.Restart = append(c.Restart, prefix+"tls-cert", prefix+"tls-key")
	}
	c.Take = append(c.Take, take)
	return err
}

// Close closes the listener. It may be called twice, and before Open.
func (l *Listener) Close() error {
	if l.Listener == nil {
		return nil
	}
	if err := l.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Warnings are what the operator must know of the certificate, each with what to
// do. Like a handshake it looks whether the files have changed.
func (l *Listener) Warnings() []string {
	if l.keeper == nil {
		return nil
	}
	all := l.keeper.warnings()
	if l.url != "" {
		all = append(all, l.keeper.warningsOfURL(l.url)...)
	}
	return all
}

// ToldAs sets the public URL of the listener. Call it before Warnings. If the certificate is not
// valid for that URL, ToldAs logs it, and Warnings reports it from then on.
func (l *Listener) ToldAs(rawURL string, logger *slog.Logger) {
	if l.keeper == nil {
		return
	}
	l.url = rawURL
	for _, warning := range l.keeper.warningsOfURL(rawURL) {
		logger.Warn(warning)
	}
}

// BaseURL returns the URL of path on the listener, for a command whose --url was
// not given. A listener on every address of the machine has no such URL: which of
// them the world uses is for the operator to say, and the loopback address
// would open the machine's own services to what is only for the world.
func (l *Listener) BaseURL(path string) (string, error) {
	address := l.Addr().String()
	if err := NeedsURL(address); err != nil {
		return "", err
	}
	scheme := "http://"
	if l.keeper != nil {
		scheme = "https://"
	}
	return scheme + address + path, nil
}

// NeedsURL is an error for the address of a listener that has no URL by itself.
func NeedsURL(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil // who listens says so
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		return fmt.Errorf("--listen %s is every address of this machine: give --url, as the world reaches it", address)
	}
	return nil
}
