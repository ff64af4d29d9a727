package source

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTooMany: there are MaxSources already.
var ErrTooMany = fmt.Errorf("there are %d Sources already, which is the most", MaxSources)

// New makes a Source with a token of its own. The token cannot be read again later. Pass the
// Source to Register.
func New(name string, prefixes []string, now time.Time) (Source, Token, error) {
	token := NewToken()
	s := Source{Name: name, Prefixes: prefixes, TokenHash: token.Hash(), Created: now, Issued: now}
	return s, token, s.Validate()
}

// Register adds a Source to the store: ErrExists, ErrTooMany, or what Validate says.
func Register(ctx context.Context, store Store, s Source) error {
	if err := s.Validate(); err != nil {
		return err
	}
	all, err := store.List(ctx)
	if err != nil {
		return err
	}
	if len(all) >= MaxSources {
		if _, err := store.Get(ctx, s.Name); errors.Is(err, ErrNotFound) {
			return ErrTooMany
		}
	}
	return store.Add(ctx, s)
}

// Rotate gives a Source another token. The one before is good for nothing from then on.
func Rotate(ctx context.Context, store Store, name string, hash Hash, now time.Time) error {
	s, err := store.Get(ctx, name)
	if err != nil {
		return err
	}
	s.TokenHash, s.Issued = hash, now
	if err := s.Validate(); err != nil {
		return err
	}
	return store.Replace(ctx, s)
}
