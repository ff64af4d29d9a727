package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/payload"
)

const (
	// summariesAtOnce is how many summaries are asked for in one call at most.
	summariesAtOnce = 500
	// maxLooked is how many summaries one request may look at besides those of the answer. It stops a
	// search for a few notifications among many of other kinds.
	maxLooked = 20_000
	// maxReplayed is how many summaries are looked at for what is newer than the newest
	// notification, as a Source may have sent old ones again; and fewReplayed at a poll, which
	// mostly asks from where the newest ends.
	maxReplayed = 4 * summariesAtOnce
	fewReplayed = 64
	// leastEntry is less than the shortest entry takes that a notification may have:
	// <url><loc>a:b</loc><r:md change="created"/></url>
	leastEntry = 48
	// maxMemoryBodies is how much one document is made of, bytes, if that is more than one
	// notification. So it has not more than payload.MaxEntries entries, which is known before a
	// body is read, and not more than payload.MaxBytes, as nothing grows to its twentyfold.
	maxMemoryBodies = payload.MaxEntries * leastEntry
	// maxMemoryNotifications is how many notifications one document is made of.
	maxMemoryNotifications = 10_000
)

// span is a change notification as the search sees it.
type span struct {
	seq delivery.Seq
	id  uuid.UUID
	// from and until are whole microseconds: our documents have nothing finer.
	from, until time.Time
	bytes       int64
}

// spanOf is the notification of a summary; ok is false for other content.
func spanOf(s delivery.Summary) (sp span, ok bool) {
	if s.From == "" || s.Until == "" {
		return span{}, false
	}
	from, errFrom := payload.ParseDatetime(s.From)
	until, errUntil := payload.ParseDatetime(s.Until)
	sp = span{s.Seq, s.ID, from.Truncate(time.Microsecond), until.Truncate(time.Microsecond), s.Bytes}
	return sp, errFrom == nil && errUntil == nil && !sp.until.Before(sp.from)
}

// reaches reports whether there is something from a time on in the notification. It is false for
// those that a reader has who knows everything before that time.
func (s span) reaches(from time.Time) bool { return s.until.After(from) || !s.from.Before(from) }

// ends reports whether the notification ends exactly there, where it may have a change: an
// interval has both of its ends (core §7).
func (s span) ends(at time.Time) bool { return s.until.Equal(at) && s.from.Before(at) }

// chain is what a request is answered with: notifications without a hole between them.
type chain struct {
	from, until time.Time
	notes       []span // none: nothing newer was published
	// origin names the Capability List: the first of notes, or else the newest notification; its seq is 0
	// where that is not kept.
	origin span
}

// goneError: the requested time is not kept.
type goneError struct{ earliest time.Time }

func (e *goneError) Error() string { return "not kept; earliest " + payload.FormatDatetime(e.earliest) }

// errNoMemory: there is no notification of the topic, or too few among other content.
var errNoMemory = errors.New("nothing of this topic can be remembered")

// search looks through one log for one request.
type search struct {
	log    Memory
	topic  string // its key
	looked int
}

// find returns the notifications from a time on, zero: from the oldest. The error is a *goneError
// where the first kept one begins later, errNoMemory, or the log's.
//
// It relies on times that rise in a log. Where a Source has published in another order, a result is
// still a notification that covers the time, or the search finds nothing.
func (s *search) find(ctx context.Context, from time.Time) (chain, error) {
	state, err := s.log.State(ctx, s.topic)
	if err != nil {
		return chain{}, err
	}
	newest, ok, err := s.before(ctx, state.Head+1, state.First)
	if err != nil {
		return chain{}, err
	}
	if !ok {
		return forgotten(state, from)
	}
	found, ok, err := s.reaching(ctx, newest, state.First, from)
	if err != nil {
		return chain{}, err
	}
	if !ok {
		return nothingNewer(found, from), nil
	}
	first, err := s.first(ctx, state.First, found, from)
	if err != nil {
		return chain{}, err
	}
	if from.IsZero() {
		from = first.from
	}
	if first.from.After(from) {
		return chain{}, &goneError{first.from}
	}
	notes, err := s.joined(ctx, state.First, first, from)
	if err != nil {
		return chain{}, err
	}
	notes, err = s.follow(ctx, notes)
	return chain{from, notes[len(notes)-1].until, notes, notes[0]}, err
}

// nothingNewer is what there is for a reader who knows everything before a time, where no
// notification reaches it.
func nothingNewer(newest span, from time.Time) chain {
	c := chain{from: from, until: from, origin: newest}
	if newest.ends(from) && newest.bytes <= maxMemoryBodies {
		c.notes = []span{newest}
	}
	return c
}

// reaching returns the newest notification that reaches a time. That is the newest of all,
// unless the Source has sent old ones again; so far back is looked. If ok is false it returns one that
// ends then, or else the newest.
func (s *search) reaching(
	ctx context.Context, newest span, least delivery.Seq, from time.Time,
) (found span, ok bool, err error) {
	if newest.reaches(from) {
		return newest, true, nil
	}
	found = newest
	bound := maxReplayed
	if newest.ends(from) {
		bound = fewReplayed
	}
	for looked, below := 0, newest.seq; looked < bound && below > least; {
		step := min(bound, summariesAtOnce)
		page, err := s.log.Summaries(ctx, s.topic, below, step)
		if err != nil {
			return span{}, false, err
		}
		for _, summary := range page {
			below = summary.Seq
			one, ok := spanOf(summary)
			switch {
			case !ok || below < least:
			case one.reaches(from):
				return one, true, nil
			case one.ends(from) && !found.ends(from):
				found = one
			}
		}
		if looked += len(page); len(page) < step {
			break
		}
	}
	return found, false, nil
}

// joined returns the first notification for a reader who knows everything before a time, and
// before it the one that ends exactly then, if both go into one document.
func (s *search) joined(ctx context.Context, least delivery.Seq, first span, from time.Time) ([]span, error) {
	if !first.from.Equal(from) {
		return []span{first}, nil
	}
	one, ok, err := s.before(ctx, first.seq, least)
	if errors.Is(err, errNoMemory) {
		return []span{first}, nil
	}
	if ok && one.ends(from) && one.bytes+first.bytes <= maxMemoryBodies {
		return []span{one, first}, nil
	}
	return []span{first}, err
}

// forgotten answers for a log that keeps no notification.
func forgotten(state delivery.TopicState, from time.Time) (chain, error) {
	until, err := payload.ParseDatetime(state.Last.Until)
	if err != nil {
		return chain{}, errNoMemory
	}
	until = until.Truncate(time.Microsecond)
	if from.IsZero() {
		from = until
	}
	if from.Before(until) {
		return chain{}, &goneError{until}
	}
	return chain{from: from, until: from, origin: span{id: state.Last.ID}}, nil
}

// first returns the first notification that reaches a time, of those from a number on up to one
// that does: all before it do not, all behind it do.
func (s *search) first(ctx context.Context, least delivery.Seq, found span, from time.Time) (span, error) {
	for least < found.seq {
		middle := least + (found.seq-least)/2
		one, ok, err := s.before(ctx, middle+1, least)
		if err != nil {
			return span{}, err
		}
		if ok && one.reaches(from) {
			found = one
		} else {
			least = middle + 1
		}
	}
	return found, nil
}

// before returns the newest notification below a number, and not below another.
func (s *search) before(ctx context.Context, below, least delivery.Seq) (found span, ok bool, err error) {
	for step := 1; below > least; step = min(8*step, summariesAtOnce) {
		page, err := s.log.Summaries(ctx, s.topic, below, step)
		if err != nil {
			return span{}, false, err
		}
		for _, one := range page {
			if one.Seq < least {
				return span{}, false, nil
			}
			if found, ok := spanOf(one); ok {
				return found, true, nil
			}
			below = one.Seq
		}
		if len(page) < step {
			break
		}
		if s.looked += len(page); s.looked > maxLooked {
			return span{}, false, errNoMemory
		}
	}
	return span{}, false, nil
}

// follow returns notifications and those that follow them, as many as go into one document. It stops
// before a hole, so that no client takes the hole for covered.
func (s *search) follow(ctx context.Context, notes []span) ([]span, error) {
	size, at := int64(0), notes[len(notes)-1].seq+1
	for _, one := range notes {
		size += one.bytes
	}
	for step := 16; ; step = min(2*step, summariesAtOnce) {
		page, err := s.after(ctx, at, step)
		if err != nil || len(page) == 0 {
			return notes, err
		}
		for _, one := range page {
			next, ok := spanOf(one)
			if !ok {
				if s.looked++; s.looked > maxLooked {
					return notes, nil
				}
				continue
			}
			size += next.bytes
			if !next.from.Equal(notes[len(notes)-1].until) || size > maxMemoryBodies || len(notes) == maxMemoryNotifications {
				return notes, nil
			}
			notes = append(notes, next)
		}
		at = page[len(page)-1].Seq + 1
	}
}

// after returns some of the summaries from a number on, in order; none at the end of the log.
func (s *search) after(ctx context.Context, from delivery.Seq, limit int) ([]delivery.Summary, error) {
	page, err := s.log.Summaries(ctx, s.topic, from+delivery.Seq(limit), limit)
	if err != nil {
		return nil, err
	}
	slices.Reverse(page)
	page = slices.DeleteFunc(page, func(one delivery.Summary) bool { return one.Seq < from })
	if len(page) > 0 {
		return page, nil
	}
	// Numbers need not be consecutive.
	next, err := s.log.Summary(ctx, s.topic, from)
	if errors.Is(err, delivery.ErrEndOfLog) {
		return nil, nil
	}
	return []delivery.Summary{next}, err
}
