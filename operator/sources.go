package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/source"
)

// Sources lists the registered Sources, by name.
func (d *sourceService) Sources(ctx context.Context) ([]Source, error) {
	all, err := d.cfg.Sources.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the Sources: %w", err)
	}
	shown := make([]Source, len(all))
	for i, s := range all {
		shown[i] = sourceOf(s)
	}
	return shown, nil
}

func sourceOf(s source.Source) Source {
	return Source{Name: s.Name, Prefixes: s.Prefixes, Created: s.Created.UTC(), Issued: s.Issued.UTC()}
}

// AddSource registers a Source. Where hash is zero a token is made and returned.
func (d *sourceService) AddSource(
	ctx context.Context, name string, prefixes []string, hash source.Hash,
) (NewSource, error) {
	token, hash := tokenFor(hash)
	now := time.Now()
	s := source.Source{Name: name, Prefixes: prefixes, TokenHash: hash, Created: now, Issued: now}
	if err := s.Validate(); err != nil {
		return NewSource{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := source.Register(ctx, d.cfg.Sources, s); err != nil {
		return NewSource{}, sourceError(name, err)
	}
	d.log.Info("an operator added a Source", "source", name)
	_ = d.heed(ctx) // the operator must get the token, which counts soon
	return NewSource{sourceOf(s), token}, nil
}

// RotateSource gives a Source another token: that of the hash, or one that is made and returned.
func (d *sourceService) RotateSource(ctx context.Context, name string, hash source.Hash) (NewSource, error) {
	if err := source.CheckName(name); err != nil {
		return NewSource{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	token, hash := tokenFor(hash)
	if err := source.Rotate(ctx, d.cfg.Sources, name, hash, time.Now()); err != nil {
		return NewSource{}, sourceError(name, err)
	}
	d.log.Info("an operator gave a Source another token", "source", name)
	_ = d.heed(ctx) // the operator must get the token, which counts soon
	s, err := d.cfg.Sources.Get(ctx, name)
	if err != nil {
		// It has the token all the same, which could not be shown later.
		s = source.Source{Name: name, Issued: time.Now()}
	}
	return NewSource{sourceOf(s), token}, nil
}

// RevokeSource ends a Source.
func (d *sourceService) RevokeSource(ctx context.Context, name string) error {
	if err := source.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := d.cfg.Sources.Delete(ctx, name); err != nil {
		return sourceError(name, err)
	}
	d.log.Info("an operator revoked a Source", "source", name)
	return d.heed(ctx) // else the token is still taken
}

// tokenFor makes a token where there is no hash of one.
func tokenFor(hash source.Hash) (string, source.Hash) {
	if hash != (source.Hash{}) {
		return "", hash
	}
	token := source.NewToken()
	return string(token), token.Hash()
}

// heed has a change count in this process when it returns. Others find it within seconds,
// and so does this one where it cannot read now: it was made all the same.
func (d *sourceService) heed(ctx context.Context) error {
	if d.cfg.Registry == nil {
		return nil
	}
	if err := d.cfg.Registry.Refresh(context.WithoutCancel(ctx)); err != nil {
		d.log.Warn("a change of Sources was stored, but is not heeded yet", "error", err)
		return fmt.Errorf("it was stored, but this process does not heed it yet: %w", err)
	}
	return nil
}

func sourceError(name string, err error) error {
	switch {
	case errors.Is(err, source.ErrExists):
		return fmt.Errorf(
			"%w: there is a Source %q already: rotate its token, or revoke it first to give it other prefixes",
			ErrConflict, name,
		)
	case errors.Is(err, source.ErrNotFound):
		return fmt.Errorf("%w: there is no Source %q", ErrNotFound, name)
	case errors.Is(err, source.ErrTooMany):
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return fmt.Errorf("changing the Sources: %w", err)
}
