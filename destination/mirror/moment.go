package mirror

import (
	"context"
	"time"
)

// Moment returns the moment at which the copies are kept, by BaselineAt; zero if they are not.
func (m *Mirror) Moment() time.Time {
	if at := m.moment.Load(); at != nil {
		return *at
	}
	return time.Time{}
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
