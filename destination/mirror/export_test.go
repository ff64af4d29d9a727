package mirror

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/digests"
)

// PathOf is where the copy of a loc would be if no other was in its way.
func PathOf(loc string) (string, error) {
	u, err := parseLoc(loc)
	if err != nil {
		return "", err
	}
	return path.Join(naturalPath(u)...), nil
}

// ClaimOf is what a path is known by.
var ClaimOf = claimOf

// BaseHas tells whether a base has a loc.
func BaseHas(raw, loc string) (bool, error) {
	b, err := parseBase(raw)
	if err != nil {
		return false, err
	}
	u, err := parseLoc(loc)
	return err == nil && b.has(u), nil
}

// Digests are the known ones that a Source told.
func Digests(told string) (known []string, others bool) {
	all, others := digests.Parse(told)
	for _, d := range all {
		known = append(known, d.Algorithm+":"+d.Hex)
	}
	return known, others
}

// HostPauses says how long a turn at a host is waited for after 0, 1, … failures in a row; less than
// 0 is a turn that is refused.
func HostPauses(t *testing.T, failures int) (pauses []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(2, slog.New(slog.DiscardHandler)).of("a.test")
		for range failures + 1 {
			begin := time.Now()
			err := h.enter(t.Context())
			pause := time.Since(begin)
			var refused *trouble
			if errors.As(err, &refused) {
				pause = -refused.after
				time.Sleep(refused.after)
				err = h.enter(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			pauses = append(pauses, pause)
			h.leave()
			for range 2 { // of several that fail together one counts
				h.note(&trouble{host: true})
				if len(pauses) <= failuresInARow {
					break
				}
			}
		}
	})
	return pauses
}

// Unusable is the method for tests: what a full disk is cannot be made without one.
func (m *Mirror) Unusable(ctx context.Context, err error) error { return m.unusable(ctx, err) }
