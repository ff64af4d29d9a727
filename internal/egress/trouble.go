package egress

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// troubleAfter is how many connections in a row the proxy fails before a log line: one or two may be
	// the fault of a target without an answer.
	troubleAfter = 3
	// troubleEvery is how often a line is logged: not at each of thousands of attempts.
	troubleEvery = time.Minute
)

// trouble is how the proxy does: dead, or with other credentials than it wants, it
// stops everything, and no single failure says so.
type trouble struct {
	mu     sync.Mutex
	logger *slog.Logger // guarded by mu
	failed int          // in a row. Guarded by mu.
	last   error        // guarded by mu
	said   time.Time    // guarded by mu
}

// Log sets the logger for a line now and then while the proxy fails. The proxy may be nil.
func (p *Proxy) Log(logger *slog.Logger) {
	if p == nil {
		return
	}
	p.trouble.mu.Lock()
	defer p.trouble.mu.Unlock()
	p.trouble.logger = logger
}

// Warning is what the operator must know of a proxy that fails; empty: nothing. The
// proxy may be nil.
func (p *Proxy) Warning() string {
	if p == nil {
		return ""
	}
	p.trouble.mu.Lock()
	defer p.trouble.mu.Unlock()
	if p.trouble.failed < troubleAfter {
		return ""
	}
	return fmt.Sprintf(
		"the last %d connections by the proxy %s failed, and callbacks and topics are reached by it alone: %v",
		p.trouble.failed, p, p.trouble.last,
	)
}

// note records the outcome of a connection. The proxy's answer about a target is no trouble of its
// own.
func (p *Proxy) note(result proxyResult, err error) {
	t := &p.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	if result != proxyAway && result != proxyCredentials {
		t.failed, t.last = 0, nil
		return
	}
	t.failed, t.last = t.failed+1, err
	if now := time.Now(); t.logger != nil && t.failed >= troubleAfter && now.Sub(t.said) >= troubleEvery {
		t.said = now
		t.logger.Warn(
			"the proxy fails: callbacks and topics are not reached", "proxy", p.String(),
			"in_a_row", t.failed, "error", err,
		)
	}
}
