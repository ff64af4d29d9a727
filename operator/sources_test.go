package operator_test

import (
	"context"
	"errors"
	"testing"

	"carillon/operator"
	"carillon/source"
)

type registry struct{ refreshed int }

func (r *registry) Refresh(context.Context) error { r.refreshed++; return nil }

// TestSources are added, given other tokens and revoked; a token that the desk made is shown once.
func TestSources(t *testing.T) {
	db, heeds := openStore(t), &registry{}
	d := newService(t, db, newFake(1, all), func(c *operator.Config) { c.Registry = heeds })
	prefixes := []string{"https://a.example/"}
	added, err := d.AddSource(t.Context(), "one", prefixes, source.Hash{})
	if err != nil || added.Token == "" || added.Name != "one" {
		t.Fatalf("%+v %v", added, err)
	}
	if s, err := db.Sources().Get(t.Context(), "one"); err != nil || s.TokenHash != source.Token(added.Token).Hash() {
		t.Errorf("%+v %v", s, err)
	}
	own := source.NewToken()
	if given, err := d.AddSource(t.Context(), "two", prefixes, own.Hash()); err != nil || given.Token != "" {
		t.Errorf("%+v %v", given, err)
	}
	if turned, err := d.RotateSource(t.Context(), "one", source.Hash{}); err != nil || turned.Token == "" || turned.Token == added.Token || len(turned.Prefixes) != 1 {
		t.Errorf("%+v %v", turned, err)
	}
	if err := d.RevokeSource(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	if list, err := d.Sources(t.Context()); err != nil || len(list) != 1 || list[0].Name != "one" {
		t.Errorf("%+v %v", list, err)
	}
	if heeds.refreshed != 4 {
		t.Errorf("what was changed is heeded after %d of 4 changes", heeds.refreshed)
	}
	for name, c := range map[string]struct {
		err, want error
	}{
		"twice":     {second(d.AddSource(t.Context(), "one", prefixes, source.Hash{})), operator.ErrConflict},
		"bad name":  {second(d.AddSource(t.Context(), "-", prefixes, source.Hash{})), operator.ErrInvalid},
		"no prefix": {second(d.AddSource(t.Context(), "x", nil, source.Hash{})), operator.ErrInvalid},
		"nobody":    {second(d.RotateSource(t.Context(), "none", source.Hash{})), operator.ErrNotFound},
		"revoked":   {d.RevokeSource(t.Context(), "two"), operator.ErrNotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
