package mirror

import (
	"context"
	"path"

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

// Unusable is the method for tests: what a full disk is cannot be made without one.
func (m *Mirror) Unusable(ctx context.Context, err error) error { return m.unusable(ctx, err) }
