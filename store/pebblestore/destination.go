package pebblestore

import (
	"errors"
	"fmt"
)

// destinationLayout is a Destination's. Earlier layouts were never released.
func destinationLayout() layout { return layout{kind: "carillon destination", version: 3} }

// Keys of a Destination's store, in the same manner as those of a hub. Followers have 50 to 57,
// mirrors 58 to 5f.
//
//	50                     the position, with the keys at it
//	51 from until id       a notification of the inbox: how many bytes it has
//	52 id                  where the notification is in 51
//	53 id                  its body
//	54                     whom the store belongs to, and how that was begun
//
// from and until are times as appendTime has them, id is text.
const (
	kindFollowPosition = 0x50
	kindFollowPlace    = 0x51
	kindFollowID       = 0x52
	kindFollowBody     = 0x53
	kindFollowOwner    = 0x54
)

// Destination keeps what a Destination must not lose, in a directory of its own, with
// the guarantees of this package: how far it has followed its Source, what was pushed
// and is not handed on yet, and what its copies are.
type Destination struct {
	engine *engine
	follow *Following
	mirror *Mirrored
}

// OpenDestination opens the store in cfg.Dir, or makes one there. ErrInUse, ErrForeign,
// ErrNewer and ErrOlder say why it cannot.
func OpenDestination(cfg Config) (*Destination, error) {
	e, err := openEngine(cfg, destinationLayout())
	if err != nil {
		return nil, err
	}
	d := &Destination{engine: e, follow: &Following{engine: e}, mirror: &Mirrored{engine: e}}
	if err := errors.Join(d.follow.load(), d.Outbox().load()); err != nil {
		_ = e.close()
		return nil, fmt.Errorf("store directory %q: %w", cfg.Dir, err)
	}
	return d, nil
}

// Close waits for the calls that are under way and closes the store.
func (d *Destination) Close() error { return d.engine.close() }

// Following is the store's follow.Store.
func (d *Destination) Following() *Following { return d.follow }

// Mirrored is the store's mirror.Catalog.
func (d *Destination) Mirrored() *Mirrored { return d.mirror }

// Ledger is the store's mirror.Ledger.
func (d *Destination) Ledger() *Ledger { return &Ledger{d.engine} }

// Outbox is the store's republish.Outbox.
func (d *Destination) Outbox() *Outbox { return &Outbox{d.mirror} }
