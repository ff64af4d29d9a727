package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon/internal/await"
)

// maxHosts bounds how many hosts Hosts remembers.
const maxHosts = 10_000

// Hosts bounds how many requests each host gets at a time, and pauses hosts. PerHost and MaxPause
// are mandatory. The fields must not change while it is used.
type Hosts struct {
	// PerHost is how many requests a host gets at a time.
	PerHost int
	// Failures is after how many failures in a row a host is paused: for 1 s, and twice as long after
	// each further one; 0: only where its response asks for it.
	Failures int
	// MaxPause bounds a pause, whatever the host asks for.
	MaxPause time.Duration
	// Patience is how long a pause may last that Enter waits for; 0: any.
	Patience time.Duration
	// OnPause is called when a pause begins, with the failures in a row and the last of them. It must
	// not ask the Host; nil: nothing.
	OnPause func(name string, pause time.Duration, failures int, last error)

	mu    sync.Mutex
	known map[string]*Host // guarded by mu
}

// Host is one of the hosts. Its methods may be called by several goroutines.
type Host struct {
	name  string
	slots chan struct{}
	all   *Hosts

	mu       sync.Mutex
	failures int           // in a row; guarded by mu
	pause    time.Duration // the last one; guarded by mu
	until    time.Time     // when it is asked again; guarded by mu
}

// Of returns the host with a name, which is its Authority. It remembers 10,000 hosts, beside those
// that have a request. When there are more, it forgets the ones that have no failure, then those
// whose pause is over, then any.
func (h *Hosts) Of(name string) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.known[name]
	if one != nil {
		return one
	}
	if h.known == nil {
		h.known = map[string]*Host{}
	}
	if len(h.known) >= maxHosts {
		h.forget()
	}
	one = &Host{name: name, slots: make(chan struct{}, h.PerHost), all: h}
	h.known[name] = one
	return one
}

// forget makes room for a tenth of the hosts that are remembered, as far as they have no request.
// h.mu is held.
func (h *Hosts) forget() {
	const enough = maxHosts - maxHosts/10
	for _, may := range []func(*Host) bool{(*Host).healthy, (*Host).askable, (*Host).unused} {
		for name, one := range h.known {
			if one.unused() && may(one) {
				delete(h.known, name)
			}
			if len(h.known) <= enough {
				return
			}
		}
	}
}

// unused reports whether the host has no request.
func (h *Host) unused() bool { return len(h.slots) == 0 }

// askable reports whether the host has no pause.
func (h *Host) askable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !time.Now().Before(h.until)
}

// healthy reports whether the host has neither a failure nor a pause.
func (h *Host) healthy() bool {
	h.mu.Lock()
	failed := h.failures > 0
	h.mu.Unlock()
	return !failed && h.askable()
}

// Enter waits for a slot, and for the end of a pause. The caller gives the slot back by Leave. The
// error is that of ctx, or a *Trouble of kind Paused if the pause is longer than Hosts.Patience.
func (h *Host) Enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		h.mu.Lock()
		left := time.Until(h.until)
		h.mu.Unlock()
		switch {
		case left <= 0:
			return nil
		case h.all.Patience > 0 && left > h.all.Patience:
			h.Leave()
			return &Trouble{Kind: Paused, After: left, Err: fmt.Errorf("its host %.100q is left alone "+
				"for a time: it failed repeatedly, or asked for it", h.name)}
		}
		if err := await.For(ctx, left); err != nil {
			h.Leave()
			return err
		}
	}
}

// Leave gives a slot back.
func (h *Host) Leave() { <-h.slots }

// Note records how a request ended. A *Trouble of the host is a failure. Everything else, also nil,
// ends the failures in a row.
func (h *Host) Note(err error) {
	t, is := errors.AsType[*Trouble](err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !is || !t.OfHost() {
		h.failures, h.pause = 0, 0
		return
	}
	h.failures++
	now := time.Now()
	if now.Before(h.until) && t.After == 0 {
		return // one of several that were under way
	}
	switch {
	case t.After > 0:
		h.pause = min(t.After, h.all.MaxPause)
	case h.all.Failures == 0 || h.failures < h.all.Failures:
		return
	default:
		h.pause = min(max(2*h.pause, time.Second), h.all.MaxPause)
	}
	if until := now.Add(h.pause); until.After(h.until) {
		h.until = until
	}
	if h.all.OnPause != nil {
		h.all.OnPause(h.name, h.pause, h.failures, t)
	}
}
