package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon/subscription"
)

// Bounds of asking.
const (
	// askWithin bounds one round of a question, so that a process which hangs does not
	// hold up the answer of the others.
	askWithin = 5 * time.Second
	// rounds is how often a question is put anew because shards changed hands while it
	// was answered, with handoverPause times the number of the round between two.
	rounds        = 3
	handoverPause = 50 * time.Millisecond
	// MaxAnswer is the longest answer that a process gives to another, bytes.
	MaxReply = 4<<20 - 4<<10
	// answering is how many questions of others a process answers at a time; more wait.
	maxAnswering = 4
)

// kind is a question that processes put to each other. Its answer covers the shards that one process
// holds: a here knows no other process, so the asked processes do not ask further.
type kind[Q, A any] struct {
	name   string
	handle func(h *local, ctx context.Context, q Q) (A, error) // a method of here
	// unsure: processes that are not sure of their shards are asked, too.
	unsure bool
	// once: it is something to do, and is not done anew because other shards changed hands.
	once bool
}

// question and reply are what goes from process to process, as JSON. Fields that are not
// known are passed over, so that processes of neighbouring versions understand each other.
type question struct {
	Ask  string          `json:"ask"`
	Args json.RawMessage `json:"args,omitempty"`
}

type reply struct {
	Version string          `json:"version,omitempty"`
	Shards  []tenure        `json:"shards"`
	Loading int             `json:"loading,omitempty"`
	Fault   *fault          `json:"fault,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// tenure is a delivery.Tenure on its way.
type tenure struct {
	Shard subscription.Shard `json:"s"`
	Epoch uint64             `json:"e"`
}

// fault is an error on its way: its kind, and its text.
type fault struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// faults are the kinds of errors that keep their meaning on the way.
var faults = map[string]error{
	"not_found": ErrNotFound, "invalid": ErrInvalid, "conflict": ErrConflict, "unavailable": ErrUnavailable,
}

func faultOf(err error) *fault {
	for code, known := range faults {
		if errors.Is(err, known) {
			return &fault{code, err.Error()}
		}
	}
	return &fault{"failed", err.Error()}
}

// Error is the text of the process that it comes from.
func (f *fault) Error() string { return f.Text }

// Unwrap returns the kind, nil for none that is known here.
func (f *fault) Unwrap() error { return faults[f.Code] }

// part is the answer of one process, about the shards that it names.
type part[A any] struct {
	process string
	shards  []tenure
	loading int
	result  A
	err     error
}

// errUnsure: another process may have the shards by now, and answer for them.
var errUnsure = fmt.Errorf("%w: it is not sure that its shards are still its own", ErrUnavailable)

// errMoving: another process may count the same subscriptions, too.
var errMoving = fmt.Errorf("%w: shards are being handed over", ErrUnavailable)

// ownPart is what this process answers. Where others share the engine an answer counts
// only if the shards were the same at its end as at its beginning: else one of them could be
// in the answer of two.
func ownPart[Q, A any](ctx context.Context, h *local, k kind[Q, A], q Q, shared bool) part[A] {
	p := part[A]{process: h.self}
	if !k.unsure && h.isUnsure() {
		p.err = errUnsure
		return p
	}
	for try := 1; ; try++ {
		before := h.holdings()
		p.result, p.err = k.handle(h, ctx, q)
		if p.err != nil {
			return p
		}
		after := h.holdings()
		p.shards, p.loading = slices.DeleteFunc(
			before, func(t tenure) bool { return !slices.Contains(after, t) },
		), h.loading()
		switch {
		case !shared || k.once || len(p.shards) == len(before) && len(after) == len(before):
			return p
		case try == rounds:
			p.err = errMoving
			return p
		}
	}
}

// holdings are the shards that this process surely holds and has read.
func (h *local) holdings() []tenure {
	if h.cfg.Deliveries == nil || h.isUnsure() {
		return nil
	}
	held, _ := h.cfg.Deliveries.Held()
	all := make([]tenure, len(held))
	for i, t := range held {
		all[i] = tenure(t)
	}
	return all
}

func (h *local) isUnsure() bool { return h.cfg.Deliveries != nil && h.cfg.Deliveries.Stats().Unsure }

func (h *local) loading() int {
	if h.cfg.Deliveries == nil {
		return 0
	}
	_, loading := h.cfg.Deliveries.Held()
	return len(loading)
}

// gather puts a question to every process, this one included. Its parts are about
// different shards: where two answered for one, because it changed hands meanwhile, the
// question is put anew, and at last the one that had it before is left out.
func gather[Q, A any](ctx context.Context, h *local, k kind[Q, A], q Q) ([]part[A], Coverage, error) {
	for round := 1; ; round++ {
		parts, troubles := askAll(ctx, h, k, q)
		if err := ctx.Err(); err != nil {
			return nil, Coverage{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if len(parts) == 1 && parts[0].err != nil && len(troubles) == 0 {
			return nil, Coverage{}, parts[0].err // this process is the only one
		}
		stale := stalePartsOf(parts)
		if len(stale) > 0 && round < rounds {
			if err := pause(ctx, time.Duration(round)*handoverPause); err != nil {
				return nil, Coverage{}, err
			}
			continue
		}
		good, cover := settle(parts, stale, troubles)
		if len(good) == 0 {
			return nil, cover, noReply(parts, cover)
		}
		return good, cover, nil
	}
}

// noReply gives the reason why there is no answer at all: nothing was counted, which is not the same as
// nothing being there.
func noReply[A any](parts []part[A], cover Coverage) error {
	for _, p := range parts {
		if errors.Is(p.err, ErrInvalid) || errors.Is(p.err, ErrConflict) || errors.Is(p.err, ErrNotFound) {
			return p.err
		}
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, strings.Join(cover.Trouble, "; "))
}

// askAll asks this process and the others at the same time, once. Troubles are about what
// is no process's answer.
func askAll[Q, A any](ctx context.Context, h *local, k kind[Q, A], q Q) (parts []part[A], troubles []string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if h.cfg.Peers == nil {
		return []part[A]{ownPart(ctx, h, k, q, false)}, nil
	}
	var own part[A]
	var wg sync.WaitGroup
	wg.Go(func() { own = ownPart(ctx, h, k, q, true) })
	defer func() {
		wg.Wait()
		if h.cfg.Deliveries != nil {
			parts = append(parts, own)
		}
	}()
	text, err := encodeQuestion(k, q)
	if err != nil {
		return nil, []string{err.Error()}
	}
	err = h.cfg.Peers.Ask(ctx, text, func(process string, answer []byte, err error) {
		parts = append(parts, decodeReply[A](process, answer, err))
	})
	if err != nil {
		troubles = append(troubles, fmt.Sprintf("the other hub processes could not be asked: %v", err))
	}
	return parts, troubles
}

func encodeQuestion[Q, A any](k kind[Q, A], q Q) ([]byte, error) {
	args, err := encode(q)
	if err != nil {
		return nil, err
	}
	return encode(question{Ask: k.name, Args: args})
}

// encode writes what goes from process to process: &, < and > are what they are, as topics
// are full of them.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxRows is what the rows of one process may take in its answer as they go, bytes: of
// longer ones fewer are on a page.
const maxRows = MaxReply / 2

// rowBudget is what is left of maxRows in an answer.
type rowBudget struct{ used int }

// fits reports whether one more fits, by the length that it goes with, and counts it in. The first
// always does.
func (r *rowBudget) fits(v any) bool {
	text, err := encode(v)
	fits := err == nil && (r.used == 0 || r.used+len(text) < maxRows)
	r.used += len(text) + 1
	return fits
}

// decodeReply reads what another process answered.
func decodeReply[A any](process string, text []byte, err error) part[A] {
	p := part[A]{process: process, err: err}
	if err != nil {
		return p
	}
	var r reply
	if p.err = json.Unmarshal(text, &r); p.err != nil {
		p.err = fmt.Errorf("its answer is not understood: %w", p.err)
		return p
	}
	if r.Fault != nil {
		p.err = r.Fault
		return p
	}
	if p.err = json.Unmarshal(r.Answer, &p.result); p.err != nil {
		p.err = fmt.Errorf("its answer, of version %s, is not understood: %w", r.Version, p.err)
	}
	p.shards, p.loading = r.Shards, r.Loading
	return p
}

// stalePartsOf returns the parts, by their index, with a shard that another part has under a
// higher epoch.
func stalePartsOf[A any](parts []part[A]) map[int]bool {
	type claim struct {
		epoch uint64
		part  int
		made  bool
	}
	var holder [subscription.Shards]claim
	stale := map[int]bool{}
	for i, p := range parts {
		if p.err != nil {
			continue
		}
		for _, t := range p.shards {
			if int(t.Shard) >= len(holder) {
				continue
			}
			switch c := &holder[t.Shard]; {
			case !c.made:
				*c = claim{t.Epoch, i, true}
			case t.Epoch > c.epoch:
				stale[c.part] = true
				*c = claim{t.Epoch, i, true}
			default:
				stale[i] = true
			}
		}
	}
	return stale
}

// settle leaves out the parts that do not count, and says what is missing.
func settle[A any](parts []part[A], stale map[int]bool, troubles []string) ([]part[A], Coverage) {
	var good []part[A]
	var covered [subscription.Shards]bool
	loading := 0
	for i, p := range parts {
		switch {
		case p.err != nil:
			troubles = append(troubles, fmt.Sprintf("process %s did not answer: %v", p.process, p.err))
			continue
		case stale[i]:
			troubles = append(
				troubles, fmt.Sprintf("process %s is left out: it hands shards over to others", p.process),
			)
			continue
		}
		good = append(good, p)
		loading += p.loading
		for _, t := range p.shards {
			if int(t.Shard) < len(covered) {
				covered[t.Shard] = true
			}
		}
	}
	missing := 0
	for _, is := range covered {
		if !is {
			missing++
		}
	}
	slices.Sort(troubles)
	if missing > 0 {
		troubles = append(troubles, whyMissing(missing, loading, len(parts)))
	}
	return good, Coverage{MissingShards: missing, Trouble: troubles}
}

// whyMissing states the known reasons for shards without an answer.
func whyMissing(missing, loading, processes int) string {
	switch {
	case processes == 0:
		return "no hub works on this store: start one"
	case loading > 0:
		return fmt.Sprintf(
			"no process answered for %d of the %d shards; %d are being read", missing, subscription.Shards, loading,
		)
	}
	return fmt.Sprintf(
		"no process answered for %d of the %d shards: no process that answered holds them", missing, subscription.Shards,
	)
}

// pause waits, or is ErrUnavailable where ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	case <-t.C:
		return nil
	}
}
