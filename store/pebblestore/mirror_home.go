package pebblestore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
)

// homeVersion is the version of the record of a Home.
const homeVersion = 1

// Home implements mirror.Homes.
func (m *Mirrored) Home(ctx context.Context) (mirror.Home, error) {
	if err := m.engine.enter(ctx); err != nil {
		return mirror.Home{}, fmt.Errorf("read which directory has the copies: %w", mirrorError(err))
	}
	defer m.engine.leave()
	record, err := m.engine.get([]byte{kindMirrorHome})
	if err != nil || record == nil {
		return mirror.Home{}, mirrorError(err)
	}
	d := newDecoder(record, homeVersion)
	h := mirror.Home{ID: d.words(), Begun: d.octet() != 0}
	if len(d.rest) > 0 { // only a mirror that is kept at a moment has it
		h.Moment = d.instant()
	}
	if err := d.done(); err != nil {
		return mirror.Home{}, fmt.Errorf("read which directory has the copies: %w", err)
	}
	return h, nil
}

// SetHome implements mirror.Homes.
func (m *Mirrored) SetHome(ctx context.Context, h mirror.Home) error {
	record := newEncoder(homeVersion, len(h.ID)+4)
	record.words(h.ID)
	begun := byte(0)
	if h.Begun {
		begun = 1
	}
	record.octet(begun)
	if !h.Moment.IsZero() {
		record.instant(h.Moment)
	}
	err := m.engine.change(ctx, shrinks, &m.mu, func(b *pebble.Batch) error {
		return b.Set([]byte{kindMirrorHome}, record, nil)
	})
	if err != nil {
		return fmt.Errorf("note which directory has the copies: %w", mirrorError(err))
	}
	return nil
}
