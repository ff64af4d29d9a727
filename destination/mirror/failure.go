package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"carillon/payload"
)

// failure is why a resource was not fetched.
type failure struct {
	state  State // Missing, Failed, Refused or Invalid
	reason string
	cause  error // a *fetch.Trouble, or nil
	// host: it is its host's trouble, not that of the resource; after is how long that asks to be
	// left alone.
	host  bool
	after time.Duration
	// final: trying again is of no use.
	final bool
}

func (t *failure) Error() string { return t.reason }

func (t *failure) Unwrap() error { return t.cause }

func failed(format string, args ...any) error {
	return &failure{state: Failed, reason: fmt.Sprintf(format, args...)}
}

// fatal reports what is trouble of the mirror itself from that of one resource.
func fatal(err error) bool {
	t := (*failure)(nil)
	return err != nil && !errors.As(err, &t)
}

// ErrKept: the copies are kept as they were at a moment, so that they are not brought to another.
var ErrKept = errors.New("the mirror is kept as it was at a moment")

// Troubles of a resource whose state at a moment is asked for, of which trying again is of no use.
var (
	errUndecided = &failure{
		state: Failed, final: true,
		reason: "the Source does not tell whether it was changed before the moment or after",
	}
	errUnproven = &failure{
		state: Failed, final: true,
		reason: "the Source gave no hash of it, so its state at the moment cannot be proven",
	}
)

// deletion reports what the Source says of a resource that it has deleted.
func deletion(at time.Time) Described { return Described{Change: payload.Deleted, Datetime: at} }

// localHost is the queue of what needs no host; none has the name.
const localHost = "-"

// quiet bounds how many lines there are about single resources.
type quiet struct {
	mu    sync.Mutex
	from  time.Time // of the minute; guarded by mu
	lines int       // in it; guarded by mu
}

// maxLines is how many lines a minute there are about single resources.
const maxLines = 100

func (q *quiet) may(logger *slog.Logger) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.from) >= time.Minute {
		q.from, q.lines = now, 0
	}
	q.lines++
	if q.lines == maxLines+1 {
		logger.Warn("more resources were not mirrored: no further lines for a minute; an audit lists them all")
	}
	return q.lines <= maxLines
}

type counters struct {
	total, fetched, unchanged, deleted, kept, missing, failed, refused, invalid, bytes atomic.Int64
	unpacked, spoiled, packages, unusable, packageBytes, packageTotal                  atomic.Int64
}

// earlier reports whether a change was before another; one without a datetime was not.
func earlier(described, known time.Time) bool {
	return !described.IsZero() && !known.IsZero() && described.Before(known)
}
