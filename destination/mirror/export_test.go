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

// BaseHas reports whether a base has a loc.
func BaseHas(raw, loc string) (bool, error) {
	b, err := parseBase(raw)
	if err != nil {
		return false, err
	}
	u, err := parseLoc(loc)
	return err == nil && b.has(u), nil
}

// Digests are the known ones of a Source's description.
func Digests(described string) (known []string, others bool) {
	all, others := digests.Parse(described)
	for _, d := range all {
		known = append(known, d.Algorithm+":"+d.Hex)
	}
	return known, others
}

// Unusable is the method for tests: what a full disk is cannot be made without one.
func (m *Mirror) Unusable(ctx context.Context, err error) error { return m.unusable(ctx, err) }

// Claims is claims for tests.
type Claims struct{ claims }

func NewClaims(c Catalog) *Claims { return &Claims{claims{catalog: c}} }

// Give claims a path for a loc, as give does.
func (c *Claims) Give(ctx context.Context, loc string) (at, claim string, err error) {
	u, err := parseLoc(loc)
	if err != nil {
		return "", "", err
	}
	return c.give(ctx, loc, naturalPath(u))
}

func (c *Claims) Settle(claim string) { c.settle(claim) }

// Forget forgets which directories were looked up.
func (c *Claims) Forget() { c.forget() }

// Bytes is how long all texts are that are kept of directories.
func (c *Claims) Bytes() (n int) {
	for dir, given := range c.lately {
		n += len(dir)
		for claim := range given {
			n += len(claim)
		}
	}
	return n
}
