package sourcetest

import (
	"context"
	"errors"
	"fmt"

	"carillon/source"
)

// ErrInjected is in every error that a Faulty makes up, beside source.ErrUnavailable.
var ErrInjected = errors.New("injected")

// Faulty is a Store whose calls fail.
type Faulty struct {
	source.Store
	// Persisted: the change is made all the same. Otherwise the store never hears of it.
	Persisted bool
}

func (f Faulty) around(call func() error) error {
	if f.Persisted {
		if err := call(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", source.ErrUnavailable, ErrInjected)
}

// Add implements source.Store.
func (f Faulty) Add(ctx context.Context, s source.Source) error {
	return f.around(func() error { return f.Store.Add(ctx, s) })
}

// Replace implements source.Store.
func (f Faulty) Replace(ctx context.Context, s source.Source) error {
	return f.around(func() error { return f.Store.Replace(ctx, s) })
}

// Delete implements source.Store.
func (f Faulty) Delete(ctx context.Context, name string) error {
	return f.around(func() error { return f.Store.Delete(ctx, name) })
}

// List implements source.Store.
func (f Faulty) List(ctx context.Context) (all []source.Source, err error) {
	return nil, f.around(func() error { _, err := f.Store.List(ctx); return err })
}
