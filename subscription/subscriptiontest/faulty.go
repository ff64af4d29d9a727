package subscriptiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"carillon/subscription"
)

// ErrInjected is in every error that a Faulty makes up. The error is
// subscription.ErrUnavailable, too.
var ErrInjected = errors.New("injected")

// Fault is a call that fails.
type Fault struct {
	// At is which changing call fails, counted from 1.
	At int
	// Persisted: the change is made all the same. Otherwise the store never
	// hears of it.
	Persisted bool
}

// Faulty is a Store of which one changing call fails. Reading calls go through.
type Faulty struct {
	subscription.Store
	fault Fault

	mu    sync.Mutex
	calls int // guarded by mu
}

// NewFaulty returns store with the fault.
func NewFaulty(store subscription.Store, fault Fault) *Faulty {
	return &Faulty{Store: store, fault: fault}
}

// around makes the call unless it is the one that fails unpersisted.
func (f *Faulty) around(call func() error) error {
	f.mu.Lock()
	f.calls++
	fails := f.calls == f.fault.At
	f.mu.Unlock()
	if !fails {
		return call()
	}
	if f.fault.Persisted {
		if err := call(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", subscription.ErrUnavailable, ErrInjected)
}

// Submit implements subscription.Store.
func (f *Faulty) Submit(ctx context.Context, r subscription.Request) error {
	return f.around(func() error { return f.Store.Submit(ctx, r) })
}

// KeepStart implements subscription.Store.
func (f *Faulty) KeepStart(
	ctx context.Context, r subscription.Request, start uint64,
) (kept subscription.Request, err error) {
	err = f.around(func() error {
		var err error
		kept, err = f.Store.KeepStart(ctx, r, start)
		return err
	})
	return kept, err
}

// Activate implements subscription.Store.
func (f *Faulty) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	return f.around(func() error { return f.Store.Activate(ctx, r, sub) })
}

// Drop implements subscription.Store.
func (f *Faulty) Drop(ctx context.Context, r subscription.Request) error {
	return f.around(func() error { return f.Store.Drop(ctx, r) })
}

// Unsubscribe implements subscription.Store.
func (f *Faulty) Unsubscribe(ctx context.Context, r subscription.Request) error {
	return f.around(func() error { return f.Store.Unsubscribe(ctx, r) })
}

// Remove implements subscription.Store.
func (f *Faulty) Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error) {
	err = f.around(func() error {
		var err error
		removed, err = f.Store.Remove(ctx, sub)
		return err
	})
	return removed && err == nil, err
}
