package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// ErrInjected is in every error that a Faulty type makes up. The error is
// delivery.ErrUnavailable, too.
var ErrInjected = errors.New("injected")

// Fault is a call that fails. Wrappers that share one count their calls together.
type Fault struct {
	// At is which changing call fails, counted from 1.
	At int
	// Persisted: the change is made all the same. Otherwise the engine never
	// hears of it.
	Persisted bool

	mu    sync.Mutex
	calls int // guarded by mu
}

// around makes the call unless it is the one that fails unpersisted.
func (f *Fault) around(call func() error) error {
	f.mu.Lock()
	f.calls++
	fails := f.calls == f.At
	f.mu.Unlock()
	if !fails {
		return call()
	}
	if f.Persisted {
		if err := call(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", delivery.ErrUnavailable, ErrInjected)
}

// FaultyLog is a Log of which one changing call fails.
type FaultyLog struct {
	delivery.Log
	Fault *Fault
}

// Append implements delivery.Log.
func (l FaultyLog) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (receipt delivery.Receipt, err error) {
	err = l.Fault.around(func() error {
		receipt, err = l.Log.Append(ctx, p, id, accepted)
		return err
	})
	if err != nil {
		return delivery.Receipt{}, err
	}
	return receipt, nil
}

// Trim implements delivery.Log.
func (l FaultyLog) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (went delivery.Trimmed, err error) {
	err = l.Fault.around(func() error {
		went, err = l.Log.Trim(ctx, key, before, olderThan)
		return err
	})
	return went, err
}

// Shrink implements delivery.Log.
func (l FaultyLog) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (went delivery.Trimmed, err error) {
	err = l.Fault.around(func() error {
		went, err = l.Log.Shrink(ctx, key, keep, before, olderThan)
		return err
	})
	return went, err
}

// FaultyPings is a Pings of which one changing call fails.
type FaultyPings struct {
	delivery.Pings
	Fault *Fault
}

// Ping implements delivery.Pings.
func (p FaultyPings) Ping(
	ctx context.Context, topics []topic.Address,
) (pings []delivery.Ping, err error) {
	err = p.Fault.around(func() error {
		pings, err = p.Pings.Ping(ctx, topics)
		return err
	})
	if err != nil {
		return nil, err
	}
	return pings, nil
}

// Fetched implements delivery.Pings.
func (p FaultyPings) Fetched(ctx context.Context, ping delivery.Ping) (left *delivery.Ping, err error) {
	err = p.Fault.around(func() error {
		left, err = p.Pings.Fetched(ctx, ping)
		return err
	})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// FaultyCursors is a Cursors of which one changing call fails.
type FaultyCursors struct {
	delivery.Cursors
	Fault *Fault
}

// Save implements delivery.Cursors.
func (c FaultyCursors) Save(ctx context.Context, batches []delivery.Batch) error {
	return c.Fault.around(func() error { return c.Cursors.Save(ctx, batches) })
}
