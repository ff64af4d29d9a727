package main

import (
	"context"
	"strings"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
)

const (
	// takeBatch is how many changes are handed on in one step, and takeBytes about how many bytes.
	pendingBatch = 1000
	pendingBytes = 4 << 20
	// clockSkew is how far a Source's clock may be ahead of this one. A later date does not move the
	// position: all changes until then would count as taken.
	clockSkew = follow.DefaultSkew
)

// latest is up to when a position is believed.
func latest() time.Time { return time.Now().Add(clockSkew) }

// pending hands changes on, several at a time, and notes up to where.
type pending struct {
	ctx   context.Context // of one call
	to    follow.Handler
	batch []follow.Change
	bytes int
	at    follow.Position
	known map[string]struct{} // the keys of at
	limit time.Time           // beyond it at does not move
	odd   bool                // something is beyond it
}

func (t *pending) visit(e payload.Entry) error {
	c := follow.Change{Entry: e, Key: follow.Key(&e, 0), Via: follow.ChangeList}
	switch {
	case e.Datetime.After(t.limit):
		t.odd = true
	case e.Datetime.After(t.at.At):
		t.reach(follow.Position{At: e.Datetime, Keys: []string{c.Key}})
	case !e.Datetime.IsZero() && e.Datetime.Equal(t.at.At):
		t.add(c.Key) // also the last run may have taken it
	}
	// The texts are parts of the whole entry, which may be large.
	c.Links = mirror.KeptLinks(c.Links)
	texts := []*string{&c.Loc, &c.LastMod, &c.Hash, &c.Length, &c.Type, &c.Encoding, &c.Path}
	for _, text := range texts {
		*text = strings.Clone(*text)
		t.bytes += len(*text)
	}
	t.batch = append(t.batch, c)
	if len(t.batch) < pendingBatch && t.bytes < pendingBytes {
		return nil
	}
	return t.flush()
}

// reach moves on to a position.
func (t *pending) reach(to follow.Position) {
	t.at = follow.Position{At: to.At, Assumed: to.Assumed}
	t.known = make(map[string]struct{}, len(to.Keys))
	for _, key := range to.Keys {
		t.add(key)
	}
}

// add has a key in the position, once.
func (t *pending) add(key string) {
	if _, known := t.known[key]; !known {
		t.known[key] = struct{}{}
		t.at.Keys = append(t.at.Keys, key)
	}
}

// cover moves on to where a reading is complete. With a datetime in the future the end of a list is
// unknown, except by the other entries in it.
func (t *pending) cover(covered lists.Covered) {
	if covered.Until.After(t.at.At) && !covered.Until.After(t.limit) && !t.odd {
		t.reach(follow.Position{At: covered.Until})
	}
}

func (t *pending) flush() error {
	for len(t.batch) > 0 {
		done, err := t.to.Handle(t.ctx, t.batch)
		if err != nil {
			return err
		}
		t.batch = t.batch[done:]
	}
	t.batch, t.bytes = nil, 0
	return nil
}
