package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/lists"
)

const (
	// discoverAgain is when a Source that offers nothing is asked again what it offers;
	// discoverSoon the same where it could not be asked.
	discoverAgain = time.Hour
	discoverSoon  = time.Minute
	// discoverRest is when a Source that offers a part of its lists is asked for the others at the
	// earliest: they may be made later.
	discoverRest = 10 * time.Second
)

// locator are where changes can be read again.
type locator struct {
	changeMemory, changeList string // as the flags say
	client                   *lists.Client
	start, topic             string // where to look for what the Source offers, and for which topic
	logger                   *slog.Logger
	// room is set before it is used, and stays; nil: there is no push.
	destination *destination.Destination
	// learn is called with the Source's offers; nil: no call.
	learn func(context.Context, *lists.Set)

	mu     sync.Mutex
	found  *lists.Set // guarded by mu
	again  time.Time  // guarded by mu: not before is the Source asked what it offers
	failed error      // guarded by mu: what it came to last
}

var _ follow.Locator = (*locator)(nil)

// Memory implements follow.Places.
func (p *locator) ChangeMemory(context.Context) (string, error) {
	switch p.changeMemory {
	case none:
		return "", nil
	case auto:
		if p.destination == nil {
			return "", nil
		}
		return p.destination.Status().ChangeMemory, nil
	}
	return p.changeMemory, nil
}

// ChangeList implements follow.Places.
func (p *locator) ChangeList(ctx context.Context) (string, error) {
	switch p.changeList {
	case none:
		return "", nil
	case auto:
		set, err := p.set(ctx)
		return set.ChangeList, err
	}
	return p.changeList, nil
}

// ResourceList is where the Source's is; empty: it has none.
func (p *locator) ResourceList(ctx context.Context) (string, error) {
	set, err := p.set(ctx)
	return set.ResourceList, err
}

// Pushed implements follow.Places.
func (p *locator) Pushed() bool { return p.destination != nil && p.destination.Status().Subscribed }

// set finds what the Source offers, once. One that offers nothing, or has no Change List or
// Resource List yet, is asked again now and then; the error is of one that could not be asked.
func (p *locator) set(ctx context.Context) (lists.Set, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.found != nil && (now.Before(p.again) || p.found.ChangeList != "" && p.found.ResourceList != "") {
		return *p.found, nil
	}
	if now.Before(p.again) {
		return lists.Set{}, p.failed
	}
	set, err := discover(ctx, p.client, p.start, p.topic)
	switch {
	case p.found != nil:
		p.again = time.Now().Add(discoverRest)
		if err != nil || set.ChangeList == p.found.ChangeList && set.ResourceList == p.found.ResourceList {
			return *p.found, nil
		}
		fallthrough
	case err == nil:
		p.found, p.failed, p.again = &set, nil, time.Now().Add(discoverRest)
		if p.learn != nil {
			p.learn(ctx, &set)
		}
		p.logger.Info(
			"found what the Source offers", "capability_list", set.CapabilityList,
			"change_list", set.ChangeList, "resource_list", set.ResourceList,
		)
	case errors.Is(err, lists.ErrNone), errors.Is(err, errWhichSet):
		p.logger.Warn("no lists of the Source are known", "error", err)
		p.again, p.failed = time.Now().Add(discoverAgain), nil
	default:
		p.again, p.failed = time.Now().Add(discoverSoon), err
	}
	return set, p.failed
}
