package pebblestore

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
)

// moveClaims gives the copies of layout 1 the claims of layout 2, once and in one step. Few differ: only
// names with certain combining marks. Where two copies have one claim now, the file system may have
// their files as one, so the second is fetched again, to a path of its own.
func (e *engine) moveClaims() error {
	done, err := e.get(claimsKey())
	if err != nil || done != nil {
		return err
	}
	m := &Mirrored{engine: e}
	moved, err := m.outdated()
	if err != nil {
		return err
	}
	b := e.db.NewBatch()
	for old := range moved {
		err = errors.Join(err, b.Delete(mirrorKey(kindMirrorClaim, old), nil))
	}
	given := map[string]bool{}
	for _, c := range moved {
		if err == nil {
			err = m.claimAnew(b, c, moved, given)
		}
	}
	if err := errors.Join(err, b.Set(claimsKey(), []byte{2}, nil)); err != nil {
		return errors.Join(unavailable(err), b.Close())
	}
	if len(moved) > 0 {
		e.log.Info("copies got new claims on their paths", "count", len(moved))
	}
	return e.commit(b)
}

// outdated returns the copies whose claim is not the one that is kept, by the kept one.
func (m *Mirrored) outdated() (map[string]mirror.Copy, error) {
	locs := map[string]string{}
	err := m.engine.scan(context.Background(), []byte{kindMirrorClaim}, func(key, loc []byte) bool {
		if claim := string(key[1:]); !isASCII(claim) { // else it is the same by both rules
			locs[claim] = string(loc)
		}
		return true
	})
	moved := map[string]mirror.Copy{}
	for claim, loc := range locs {
		if err != nil {
			break
		}
		var c mirror.Copy
		c, err = m.copy(loc)
		switch {
		case errors.Is(err, mirror.ErrNone):
			err = nil // damaged: it is fetched again
		case err == nil && c.Claim() != claim:
			moved[claim] = c
		}
	}
	return moved, err
}

// claimAnew puts the claim of a copy into the batch. Where another copy has it, the copy loses its path
// and is due at once.
func (m *Mirrored) claimAnew(b *pebble.Batch, c mirror.Copy, moved map[string]mirror.Copy, given map[string]bool) error {
	claim := c.Claim()
	owner, err := m.engine.get(mirrorKey(kindMirrorClaim, claim))
	if err != nil {
		return err
	}
	_, leaves := moved[claim]
	if given[claim] || owner != nil && !leaves {
		if !c.Next.IsZero() {
			err = b.Delete(mirrorDueKey(c.Next, c.Loc), nil)
		}
		c.Path, c.File, c.State, c.Next = "", nil, mirror.Failed, time.Now().UTC().Truncate(time.Microsecond)
		c.Reason = "another resource has its path"
		return errors.Join(err, b.Set(mirrorKey(kindMirrorCopy, c.Loc), mirrorEncodeCopy(&c), nil), b.Set(mirrorDueKey(c.Next, c.Loc), nil, nil))
	}
	given[claim] = true
	return b.Set(mirrorKey(kindMirrorClaim, claim), []byte(c.Loc), nil)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
