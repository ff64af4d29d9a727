package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/payload"
)

// ErrKept: the copies are kept as they were at a moment, so that they are not brought to another.
var ErrKept = errors.New("the mirror is kept as it was at a moment")

// Troubles of a resource whose state at a moment is asked for, of which trying again is of no use.
var (
	errUndecided = &trouble{
		state: Failed, final: true,
		reason: "the Source does not tell whether it was changed before the moment or after",
	}
	errUnproven = &trouble{
		state: Failed, final: true,
		reason: "the Source told no hash of it, so that what it was at the moment cannot be proven",
	}
)

// Moment returns the moment at which the copies are kept, by BaselineAt; zero if they are not.
func (m *Mirror) Moment() time.Time {
	if at := m.moment.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// kept reports whether the copies are kept at a moment.
func (m *Mirror) kept() bool { return !m.Moment().IsZero() }

// free returns ErrKept where the copies are kept at a moment.
func (m *Mirror) free() error {
	if at := m.Moment(); !at.IsZero() {
		return fmt.Errorf("%w, %s", ErrKept, payload.FormatDatetime(at))
	}
	return nil
}

// LetGo allows Baseline to bring copies that are kept at a moment to the Source's present state. They
// count as kept until Begin records that this was done.
func (m *Mirror) LetGo() error {
	m.moment.Store(nil)
	return m.EndDumps() // BaselineAt takes only a part of what packages have
}

// keepAt notes, before any copy is changed, that the copies are to be those of a moment: what
// breaks off in the middle is of no moment, and must not be taken for the present.
func (m *Mirror) keepAt(ctx context.Context, at time.Time) error {
	at = at.UTC()
	m.moment.Store(&at)
	return m.Begin(ctx)
}
