package faults

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon/subscription"
)

// ErrInjected is in every error that a Plan makes up. The error is
// subscription.ErrUnavailable, too.
var ErrInjected = errors.New("injected")

// Kind is the outcome of a call.
type Kind uint8

// The kinds.
const (
	None   Kind = iota // the call is made
	Before             // it fails, and is not made
	After              // it is made, and fails; a list fails in the middle
	Delay              // it is made after a while
	Hang               // it fails when its context ends, and is not made
	kinds
)

func (k Kind) String() string {
	return [kinds]string{"none", "before", "after", "delay", "hang"}[k]
}

// Fails reports whether the caller of such a call gets an error.
func (k Kind) Fails() bool { return k == Before || k == After || k == Hang }

// Rates are the shares of calls, each from 0 to 1 and together at most 1, that
// end in a fault.
type Rates struct {
	Before, After, Delay, Hang float64
}

// draw returns the kind that a number from 0 to 1 stands for.
func (r Rates) draw(at float64) Kind {
	for _, share := range []struct {
		of   float64
		kind Kind
	}{{r.Before, Before}, {r.After, After}, {r.Delay, Delay}, {r.Hang, Hang}} {
		if at < share.of {
			return share.kind
		}
		at -= share.of
	}
	return None
}

// Config is what a Plan is made of.
type Config struct {
	// Seed selects the plan.
	Seed uint64
	// Rates are those of each call by its name, as in "log.Append". Calls that
	// are not there never fail.
	Rates map[string]Rates
	// Single are calls that fail whatever the rates say: tables are made of them.
	Single []Single
	// DelayMax bounds a delay. Default 50 ms.
	DelayMax time.Duration
	// HangMax bounds a hang that its context does not end earlier; 0: no bound.
	HangMax time.Duration
	// Injected is called with each fault that happened, by the goroutine of the call and before its caller
	// knows.
	Injected func(call string, kind Kind)
}

// Single is one call that ends in a fault.
type Single struct {
	Call string
	// At says which call of the name it is, counted from 1.
	At   int
	Kind Kind
}

// Plan decides the outcome of calls. It may be used by several engines at once
// and by any goroutine; a nil Plan lets every call pass.
type Plan struct {
	cfg  Config
	calm atomic.Bool

	mu     sync.Mutex
	calls  map[string]int // guarded by mu: how many there were of each name
	counts map[fault]int  // guarded by mu
}

type fault struct {
	call string
	kind Kind
}

// NewPlan returns a plan.
func NewPlan(cfg Config) *Plan {
	cfg.DelayMax = cmp.Or(cfg.DelayMax, 50*time.Millisecond)
	return &Plan{cfg: cfg, calls: map[string]int{}, counts: map[fault]int{}}
}

// Calm ends all faults: every call that is made from now on passes.
func (p *Plan) Calm() { p.calm.Store(true) }

// Count is how often calls of a name ended in a fault of a kind.
type Count struct {
	Call string
	Kind Kind
	N    int
}

func (c Count) String() string { return fmt.Sprintf("%s %s %d", c.Call, c.Kind, c.N) }

// Counts returns the counts of the faults that happened, in the order of names and kinds.
func (p *Plan) Counts() (counts []Count) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f, n := range p.counts {
		counts = append(counts, Count{f.call, f.kind, n})
	}
	slices.SortFunc(
		counts, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Kind, b.Kind)) },
	)
	return counts
}

// Calls reports how often a call was made, faults included.
func (p *Plan) Calls(call string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[call]
}

// verdict is what a plan says of one call.
type verdict struct {
	kind Kind
	by   *rand.Rand // decides the details of the fault
}

// judge gives the outcome of the next call of the name.
func (p *Plan) judge(call string) verdict {
	if p == nil {
		return verdict{}
	}
	p.mu.Lock()
	p.calls[call]++
	n := p.calls[call]
	p.mu.Unlock()
	if p.calm.Load() {
		return verdict{}
	}
	for _, s := range p.cfg.Single {
		if s.Call == call && s.At == n {
			return verdict{s.Kind, p.random(call, n)}
		}
	}
	rates, planned := p.cfg.Rates[call]
	if !planned {
		return verdict{}
	}
	by := p.random(call, n)
	return verdict{rates.draw(by.Float64()), by}
}

// random is the same for the same seed, name and number.
func (p *Plan) random(call string, n int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(call))
	return rand.New(rand.NewPCG(p.cfg.Seed, h.Sum64()+uint64(n)))
}

// happened counts a fault.
func (p *Plan) happened(call string, kind Kind) {
	p.mu.Lock()
	p.counts[fault{call, kind}]++
	p.mu.Unlock()
	if p.cfg.Injected != nil {
		p.cfg.Injected(call, kind)
	}
}

// fail counts a fault and returns its error.
func (p *Plan) fail(call string, kind Kind) error {
	p.happened(call, kind)
	return fmt.Errorf("%w: %s: %w", subscription.ErrUnavailable, call, ErrInjected)
}

// injected recognizes a fault among the errors of the engine.
func injected(err error) bool { return errors.Is(err, ErrInjected) }
