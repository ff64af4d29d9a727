package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/topic"
)

// Defaults of NamesConfig.
const (
	DefaultMaxNames      = 32768
	DefaultNameTTL       = 30 * time.Second
	DefaultMaxNameTTL    = 10 * time.Minute
	DefaultLookupTimeout = 5 * time.Second
	DefaultMaxQuestions  = 512
	DefaultMaxPerDomain  = 32
)

// The bounds on the cost of answers of a stranger's name server.
const (
	// maxAddresses is how many addresses of one family are taken from an answer.
	// No dial lives long enough to try more.
	maxAddresses = 8
	// maxNegativeTTL is how long it is believed at most that a name has no
	// addresses (RFC 2308 §5 lets a cache bound it).
	maxNegativeTTL = time.Minute
	// failureTTL is how long a failure is remembered, so that a dead name server
	// is not asked for each attempt (RFC 9520 §3.2: 1 s to 5 min).
	failureTTL = 5 * time.Second
	// sixWait is how long the IPv6 addresses are waited for where those of IPv4
	// are there (RFC 8305 §3).
	sixWait = 50 * time.Millisecond
	// maxNameLength is what a name has at most, with its last dot (RFC 1035 §2.3.4).
	maxNameLength = 254
)

// NamesConfig says how long names are remembered and how much may be asked. Its
// zero value is a good setting for the open internet.
type NamesConfig struct {
	// MaxNames bounds the names that are remembered; 32,768 if 0. The one that
	// was not used for longest is forgotten for a new one. A name takes less
	// than 1 KiB, whatever its name server says.
	MaxNames int
	// TTL is how long addresses are remembered that came without a lifetime: from
	// /etc/hosts, for example; 30 s if 0.
	TTL time.Duration
	// MaxTTL bounds the lifetime that a name server may tell; 10 min if 0.
	MaxTTL time.Duration
	// Timeout bounds one question: waiting for its turn, all name servers of the
	// system and all attempts together; 5 s if 0.
	Timeout time.Duration
	// MaxQuestions bounds the questions under way; 512 if 0. While more than half
	// of them are, each further one gets 1 s only.
	MaxQuestions int
	// MaxPerDomain bounds the questions under way about the names of one
	// registered domain, so that one that never answers leaves room for others;
	// 32 if 0. One that answers within half a second has room for more, up to half
	// of MaxQuestions.
	MaxPerDomain int
	// Resolver asks the name servers; the system's if nil. Its Dial is what the
	// questions go through. One without PreferGo may leave that Dial out and
	// answer without lifetimes: TTL holds then.
	Resolver *net.Resolver
}

func (c NamesConfig) withDefaults() NamesConfig {
	c.MaxNames = cmp.Or(c.MaxNames, DefaultMaxNames)
	c.TTL = cmp.Or(c.TTL, DefaultNameTTL)
	c.MaxTTL = cmp.Or(c.MaxTTL, DefaultMaxNameTTL)
	c.Timeout = cmp.Or(c.Timeout, DefaultLookupTimeout)
	c.MaxQuestions = cmp.Or(c.MaxQuestions, DefaultMaxQuestions)
	c.MaxPerDomain = cmp.Or(c.MaxPerDomain, DefaultMaxPerDomain)
	return c
}

func (c NamesConfig) validate() error {
	if c.MaxNames < 0 || c.TTL < 0 || c.MaxTTL < 0 || c.Timeout < 0 || c.MaxQuestions < 0 || c.MaxPerDomain < 0 {
		return errors.New("egress: a limit of names is negative")
	}
	return nil
}

// Names finds the addresses of names, and remembers them for as long as their name servers allow. All
// methods may be called from any goroutine.
//
// It does not judge the addresses: they are judged when they are dialed, remembered or not.
type Names struct {
	cfg      NamesConfig
	resolver *net.Resolver
	places   *places
	metrics  *namesMetrics

	mu     sync.Mutex
	kept   *simplelru.LRU[string, *keptName] // names with answers
	asking map[string]*keptName              // names with questions under way
}

// keptName is what is known of a name. Names.mu guards it.
type keptName struct {
	name      string
	questions [2]*question // by family; nil: not asked, or its answer did not hold
	uses      int          // turns the addresses around, so that each is used in its turn
}

// The families of addresses. Each has its question and its lifetime.
const (
	four = iota
	six
)

// NewNames returns Names that know nothing yet, or an error that says what is
// wrong with the Config. Without a Registerer nothing is registered.
func NewNames(cfg NamesConfig, reg prometheus.Registerer) (*Names, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	n := &Names{
		cfg:    cfg,
		places: newPlaces(cfg.MaxQuestions, cfg.MaxPerDomain),
		asking: map[string]*keptName{},
	}
	n.resolver = tapped(cfg.Resolver)
	var err error
	if n.kept, err = simplelru.NewLRU[string, *keptName](cfg.MaxNames, nil); err != nil {
		return nil, err
	}
	n.metrics, err = newNamesMetrics(n.remembering, n.places.underWay, reg)
	return n, err
}

// remembering is how many names are remembered.
func (n *Names) remembering() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept.Len()
}

// Lookup returns the addresses of a host, those to be tried first before the
// others and all of one family together. The error is a *net.DNSError.
//
// Its context bounds the waiting only: a question that was asked goes on for who
// else wants to know.
func (n *Names) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	if host == "" || len(host) > maxNameLength {
		return nil, noSuchHost(host)
	}
	name, now := topic.Lower(host), time.Now()
	n.mu.Lock()
	k, _ := n.kept.Get(name)
	if k == nil {
		k = n.asking[name]
	}
	known := k != nil && k.questions[four].known(now) && k.questions[six].known(now)
	if err := ctx.Err(); err != nil && !known {
		n.mu.Unlock()
		return nil, gaveUp(host, err)
	}
	if k == nil {
		k = &keptName{name: name}
	}
	for f, q := range k.questions {
		if !q.known(now) && !q.underWay() {
			q = &question{began: now, done: make(chan struct{})}
			k.questions[f], n.asking[name] = q, k
			go n.settle(k, f, q)
		}
	}
	k.uses++
	questions, uses := k.questions, k.uses
	n.mu.Unlock()
	if known {
		n.metrics.cached.Inc()
		return inOrder(questions, uses)
	}
	n.metrics.asked.Inc()
	if err := wait(ctx, questions); err != nil {
		return nil, gaveUp(host, err)
	}
	return inOrder(questions, uses)
}

// wait waits for the answers. It fails with the context's error where that ended the waiting.
func wait(ctx context.Context, questions [2]*question) error {
	var came time.Time // when those of IPv4 came, if they were waited for
	if questions[four].underWay() {
		select {
		case <-questions[four].done:
			came = time.Now()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	enough := len(questions[four].answer.addrs) > 0
	if enough { // There is something to go on with: a bit of patience is enough.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, later(came, questions[six].began).Add(sixWait))
		defer cancel()
	}
	select {
	case <-questions[six].done:
	case <-ctx.Done():
		if !enough {
			return ctx.Err()
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// inOrder puts IPv6 first (RFC 8305 §4) where this machine has a route to it,
// and turns the addresses of a family around from use to use.
func inOrder(questions [2]*question, uses int) ([]netip.Addr, error) {
	first, second := questions[six].outcome(), questions[four].outcome()
	err, other := second.err, first.err
	if first.unrouted {
		first, second = second, first
	}
	addrs := make([]netip.Addr, 0, len(first.addrs)+len(second.addrs))
	for _, a := range [][]netip.Addr{first.addrs, second.addrs} {
		if len(a) > 0 {
			turn := uses % len(a)
			addrs = append(append(addrs, a[turn:]...), a[:turn]...)
		}
	}
	if len(addrs) > 0 {
		return addrs, nil
	}
	// That the name servers failed says more than that the other family has none.
	if err == nil || err.IsNotFound && other != nil {
		err = other
	}
	return nil, err
}

func noSuchHost(host string) *net.DNSError {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// gaveUp is the error of one who did not wait for the answer.
func gaveUp(host string, cause error) *net.DNSError {
	return &net.DNSError{
		UnwrapErr: cause, Err: cause.Error(), Name: host,
		IsTimeout: errors.Is(cause, context.DeadlineExceeded),
	}
}
