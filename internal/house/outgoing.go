package house

import (
	"fmt"
	"log/slog"
	"time"

	"carillon/delivery/send"
	"carillon/hub"
	"carillon/internal/egress"
)

// Bounds on what is open at a time, where the process may open enough files. Connections that
// go out have none: they may have all the files that nothing else needs.
const (
	maxPublic   = 16_384 // connections of the public listener
	maxOperator = 256    // connections of the operator's listener
	// maxOther bounds the rest: 256 tables of the store and its logs, 64 connections to Redis,
	// the control socket, certificates, second addresses of a name that are tried.
	maxOther = 768
	// leastListener and leastOther are what there must be of each with the fewest files.
	leastListener, leastOther = 8, 16

	maxSlow          = 4 * maxInFlight  // delivery.Config.MaxSlow
	maxVerifying     = 256              // subscription.Config.Concurrency
	maxSlowVerifying = 4 * maxVerifying // subscription.Config.MaxSlow
)

// How long a connection is kept without a request. With manyConns there is room for the
// connections of a round of notifications until the next.
const (
	idleTimeout     = send.DefaultIdleTimeout
	longIdleTimeout = 10 * time.Minute
	manyConns       = 4096
)

// leastFiles is how many files the process must be allowed to open: with fewer the store,
// the listeners and a few deliveries would fail by turns.
const leastFiles = 64

// checkFiles refuses to start where the process may open too few files.
func checkFiles(files int) error {
	if files >= leastFiles {
		return nil
	}
	return fmt.Errorf(
		"the process may open only %d files: a hub needs %d at least, and 16384 to work at full speed (ulimit -n, LimitNOFILE=)",
		files, leastFiles,
	)
}

// parts divides the files that the process may open.
type parts struct {
	public, operator int // connections of the listeners
	questions        int // to name servers
	other            int // maxOther
	outgoing
}

// outgoing bounds the connections that go out.
type outgoing struct {
	conns int // in use and idle together

	// The most work at a time, of which each piece uses one connection.
	inFlight, slow           int // deliveries
	verifying, slowVerifying int // verifications, with the topic checks before them
	fetching                 int // fetches of topics
}

// partsOf shares the files out. A connection that cannot be opened for want of files would be
// held against the callback, and the store would want for them as well. So what is under way
// has half of the connections that go out at most, and the others are idle: these are closed
// where there are more.
func partsOf(files int) parts {
	share := func(least, most, of64 int) int { return max(least, min(most, files/64*of64)) }
	p := parts{
		public:    share(leastListener, maxPublic, 24),
		operator:  share(leastListener, maxOperator, 2),
		questions: share(1, egress.DefaultMaxQuestions, 4),
		other:     share(leastOther, maxOther, 4),
	}
	conns := files - p.public - p.operator - p.questions - p.other
	use := func(most, of32 int) int { return max(1, min(most, conns*of32/32)) }
	p.outgoing = outgoing{
		conns:    max(1, conns),
		inFlight: use(maxInFlight, 4), slow: use(maxSlow, 8),
		verifying: use(maxVerifying, 1), slowVerifying: use(maxSlowVerifying, 1),
		fetching: use(hub.DefaultFetches, 1),
	}
	return p
}

// idleTimeout is how long a connection is kept without a request.
func (o outgoing) idleTimeout() time.Duration {
	if o.conns >= manyConns {
		return longIdleTimeout
	}
	return idleTimeout
}

// logLimit logs a warning if there are few files. It ignores slowVerifying, of which half is enough
// but in an attack.
func (p parts) logLimit(logger *slog.Logger, files int) {
	if p.inFlight == maxInFlight && p.slow == maxSlow && p.verifying == maxVerifying && p.questions == egress.DefaultMaxQuestions {
		return
	}
	logger.Warn("the process may open few files: fewer requests go out at a time, and fewer connections are kept; allow 16384 or more (ulimit -n, LimitNOFILE=)", "open_files", files,
		"deliveries", p.inFlight, "slow_deliveries", p.slow, "connections", p.conns, "name_questions", p.questions)
}
