package main

import (
	"fmt"
	"log/slog"
	"math"

	"carillon/internal/egress"
)

// Bounds on what goes out besides maxInFlight, where the process may open enough
// files.
const (
	maxSlow   = 4 * maxInFlight // delivery.Config.MaxSlow
	maxIdle   = 4 * maxInFlight // connections kept for the next delivery
	maxAsking = 512             // connections kept for the next check or verification

	maxVerifying     = 256              // subscription.Config.Concurrency
	maxSlowVerifying = 4 * maxVerifying // subscription.Config.MaxSlow
)

// leastFiles is how many files the process must be allowed to open: with fewer the store,
// the listeners and a few deliveries would fail by turns.
const leastFiles = 64

// checkFiles refuses to start where the process may open too few files.
func checkFiles(files int) error {
	if files >= leastFiles {
		return nil
	}
	return fmt.Errorf("the process may open only %d files: a hub needs %d at least, and 16384 to work at full speed (ulimit -n, LimitNOFILE=)", files, leastFiles)
}

// outgoing is how much may go out at a time. Each of it holds a file open.
type outgoing struct {
	inFlight, slow, idle int // of deliveries
	questions            int // to name servers
	asking               int // idle connections of checks and verifications

	verifying, slowVerifying int // of verifications and what goes with them
}

// outgoingWithin has a process that may open few files send less at a time. A
// connection that cannot be opened for want of files would be held against the
// callback, and the store would want for them as well. The public listener takes
// half of them (program.Listen), what goes out 14/32, and the rest is for the
// store, the operator's listener, and for what has a bound of its own that is small.
func outgoingWithin(files int) outgoing {
	share := func(most, of64 int) int { return max(1, min(most, files/64*of64)) }
	return outgoing{
		inFlight:  share(maxInFlight, 4),
		slow:      share(maxSlow, 8),
		idle:      share(maxIdle, 8),
		questions: share(egress.DefaultMaxQuestions, 4),
		asking:    share(maxAsking, 2),

		verifying:     share(maxVerifying, 1),
		slowVerifying: share(maxSlowVerifying, 1),
	}
}

// tell says in the log that there are few files.
func (o outgoing) tell(logger *slog.Logger, files int) {
	all := outgoingWithin(math.MaxInt)
	all.slowVerifying = o.slowVerifying // half of them does for all but an attack
	if o == all {
		return
	}
	logger.Warn("the process may open few files: less goes out at a time", "open_files", files,
		"deliveries", o.inFlight, "slow_deliveries", o.slow, "idle_connections", o.idle, "name_questions", o.questions)
}
