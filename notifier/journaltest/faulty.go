package journaltest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// Fault says how a call of a Faulty journal goes.
type Fault int

// The ways that a call can go.
const (
	// Works: the call goes through.
	Works Fault = iota
	// Lost: the call fails and has changed nothing.
	Lost
	// Kept: the call fails, but what it changed is kept.
	Kept
)

// ErrInjected is the cause of every failure that a Faulty journal makes up.
var ErrInjected = fmt.Errorf("%w: injected", notifier.ErrUnavailable)

// Faulty is a store whose calls fail as decide says.
type Faulty struct {
	notifier.Store

	mu     sync.Mutex
	decide func(call string) Fault
}

// NewFaulty makes calls of j fail. Decide gets the name of the method and is
// called for one call at a time; nil lets everything through.
func NewFaulty(j notifier.Store, decide func(call string) Fault) *Faulty {
	return &Faulty{Store: j, decide: decide}
}

func (f *Faulty) fault(call string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decide == nil {
		return Works
	}
	return f.decide(call)
}

// do makes the call as its fault says.
func (f *Faulty) do(call string, do func() error) error {
	switch f.fault(call) {
	case Lost:
		return ErrInjected
	case Kept:
		if err := do(); err != nil {
			return err
		}
		return ErrInjected
	}
	return do()
}

// Open implements notifier.Journal.
func (f *Faulty) Open(ctx context.Context, set string, now time.Time) (ch notifier.Channel, err error) {
	err = f.do("Open", func() (err error) {
		ch, err = f.Store.Open(ctx, set, now)
		return err
	})
	return ch, err
}

// Append implements notifier.Journal.
func (f *Faulty) Append(ctx context.Context, events []notifier.Event, now time.Time) error {
	return f.do("Append", func() error { return f.Store.Append(ctx, events, now) })
}

// Last implements notifier.Journal.
func (f *Faulty) Last(ctx context.Context) (last time.Time, err error) {
	err = f.do("Last", func() (err error) {
		last, err = f.Store.Last(ctx)
		return err
	})
	return last, err
}

// Events implements notifier.Journal. A fault comes after the first event.
func (f *Faulty) Events(ctx context.Context, set string, from time.Time) iter.Seq2[notifier.Event, error] {
	return func(yield func(notifier.Event, error) bool) {
		fails := f.fault("Events") != Works
		for e, err := range f.Store.Events(ctx, set, from) {
			if !yield(e, err) {
				return
			}
			if fails {
				yield(notifier.Event{}, ErrInjected)
				return
			}
		}
	}
}

// Seal implements notifier.Journal.
func (f *Faulty) Seal(ctx context.Context, n notifier.Notification, body []byte) error {
	return f.do("Seal", func() error { return f.Store.Seal(ctx, n, body) })
}

// Body implements notifier.Journal.
func (f *Faulty) Body(ctx context.Context, n notifier.Notification) (io.ReadCloser, error) {
	if f.fault("Body") != Works {
		return nil, ErrInjected
	}
	return f.Store.Body(ctx, n)
}

// Accept implements notifier.Journal.
func (f *Faulty) Accept(ctx context.Context, n notifier.Notification, keepFrom time.Time) error {
	return f.do("Accept", func() error { return f.Store.Accept(ctx, n, keepFrom) })
}

// ChangeLists implements notifier.Lists.
func (f *Faulty) ChangeLists(ctx context.Context, set string) (lists []notifier.ChangeList, err error) {
	err = f.do("ChangeLists", func() (err error) {
		lists, err = f.Store.ChangeLists(ctx, set)
		return err
	})
	return lists, err
}

// CloseList implements notifier.Lists.
func (f *Faulty) CloseList(ctx context.Context, l notifier.ChangeList) error {
	return f.do("CloseList", func() error { return f.Store.CloseList(ctx, l) })
}

// DropLists implements notifier.Lists.
func (f *Faulty) DropLists(ctx context.Context, set string, keepFrom time.Time) error {
	return f.do("DropLists", func() error { return f.Store.DropLists(ctx, set, keepFrom) })
}

// ResumeImports implements notifier.ResourceStore: steps of what it returns fail, too.
func (f *Faulty) ResumeImports(ctx context.Context) (all []notifier.ResourceImport, err error) {
	err = f.do("ResumeImports", func() (err error) {
		all, err = f.Store.ResumeImports(ctx)
		return err
	})
	for i := range all {
		all[i] = faultyImport{all[i], f}
	}
	return all, err
}

// faultyImport is an import whose steps fail.
type faultyImport struct {
	notifier.ResourceImport
	by *Faulty
}

// Apply implements notifier.ResourceImport.
func (i faultyImport) Apply(ctx context.Context, now time.Time) (done notifier.Differences, more bool, err error) {
	more = true
	err = i.by.do("Apply", func() (err error) {
		done, more, err = i.ResourceImport.Apply(ctx, now)
		return err
	})
	if err != nil {
		return notifier.Differences{}, true, err
	}
	return done, more, nil
}

// Snapshot implements notifier.ResourceStore.
func (f *Faulty) Snapshot(
	ctx context.Context, set string, now time.Time,
) (at time.Time, all iter.Seq2[payload.Entry, error], err error) {
	err = f.do("Snapshot", func() (err error) {
		at, all, err = f.Store.Snapshot(ctx, set, now)
		return err
	})
	return at, all, err
}
