package faults

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// longestPart is how many items a list gives at most before it fails.
const longestPart = 8

// do makes the call, or what the plan says in its place.
func (p *Plan) do(ctx context.Context, call string, made func() error) error {
	v := p.judge(call)
	switch v.kind {
	case Before:
		return p.fail(call, Before)
	case After:
		_ = made() // whatever it says is lost
		return p.fail(call, After)
	case Delay:
		p.delay(ctx, call, v.by)
	case Hang:
		p.hang(ctx)
		return p.fail(call, Hang)
	}
	return made()
}

// get is do for a call with a result, which is thrown away with an injected error.
func get[T any](ctx context.Context, p *Plan, call string, made func() (T, error)) (result T, err error) {
	err = p.do(ctx, call, func() error {
		result, err = made()
		return err
	})
	if err != nil && injected(err) {
		var none T
		return none, err
	}
	return result, err
}

// list is do for a call that gives one item after the other.
func list[T any](ctx context.Context, p *Plan, call string, made func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		switch v := p.judge(call); v.kind {
		case Before:
			yield(none, p.fail(call, Before))
			return
		case After:
			if part(made(), v.by.IntN(longestPart), yield) {
				yield(none, p.fail(call, After))
			}
			return
		case Delay:
			p.delay(ctx, call, v.by)
		case Hang:
			p.hang(ctx)
			yield(none, p.fail(call, Hang))
			return
		}
		made()(yield)
	}
}

// part gives at most so many items, and reports whether an error may follow: neither
// the reader nor the engine has ended the list before.
func part[T any](list iter.Seq2[T, error], items int, yield func(T, error) bool) bool {
	for item, err := range list {
		if err == nil && items == 0 {
			return true
		}
		items--
		if !yield(item, err) || err != nil {
			return false
		}
	}
	return true
}

// delay waits for a while.
func (p *Plan) delay(ctx context.Context, call string, by *rand.Rand) {
	p.happened(call, Delay)
	wait(ctx, time.Duration(by.Int64N(int64(p.cfg.DelayMax)))+1)
}

// hang waits until the context ends, within a bound if there is one.
func (p *Plan) hang(ctx context.Context) {
	if p.cfg.HangMax > 0 {
		wait(ctx, p.cfg.HangMax)
		return
	}
	<-ctx.Done()
}

// wait returns after so long, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
