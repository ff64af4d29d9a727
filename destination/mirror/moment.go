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

// keepAt records, before any copy is changed, that the copies are to be those of a moment. A run that
// breaks off in the middle leaves no moment, and must not be taken for the present.
func (m *Mirror) keepAt(ctx context.Context, at time.Time) error {
	at = at.UTC()
	m.moment.Store(&at)
	return m.Begin(ctx)
}

// Begun is that of the Home; true without Config.Homes.
func (m *Mirror) Begun(ctx context.Context) (bool, error) {
	if m.cfg.Homes == nil {
		return true, nil
	}
	h, err := m.cfg.Homes.Home(ctx)
	return h.Begun, err
}

// Begin records that the copies are at the Source's state, or need not be; or at that of Moment.
func (m *Mirror) Begin(ctx context.Context) error {
	if m.cfg.Homes == nil {
		return nil
	}
	h, err := m.cfg.Homes.Home(ctx)
	if err != nil || h.Begun && h.Moment.Equal(m.Moment()) {
		return err
	}
	h.Begun, h.Moment = true, m.Moment()
	return m.cfg.Homes.SetHome(ctx, h)
}
