package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"carillon/delivery"
)

// lossInterval is how often a line reports the loss of needed notifications.
const lossInterval = time.Minute

// glimpse is what was seen of a log whose oldest notification was accepted in the future, by
// a clock that was wrong: its age is not known, but from the time on that it was seen.
type glimpse struct {
	head delivery.Seq
	at   time.Time
}

// whenever is later than everything: for what is old enough for another reason.
var whenever = time.Unix(0, math.MaxInt64)

// maxLossTopics bounds the losses remembered by topic until the next line.
const maxLossTopics = 1024

// loss is the removed part that a subscription may still have needed.
type loss struct {
	delivery.Trimmed
	byTopic map[string]delivery.Trimmed // of those that lost most
	others  int                         // topics that were in byTopic before; one that came back counts again
}

func (l *loss) add(topic string, went delivery.Trimmed) {
	if went.Notifications == 0 {
		return
	}
	l.Trimmed = sum(l.Trimmed, went)
	of, found := l.byTopic[topic]
	if !found && len(l.byTopic) == maxLossTopics {
		for _, least := range l.worst()[maxLossTopics/2:] {
			delete(l.byTopic, least)
			l.others++
		}
	}
	if l.byTopic == nil {
		l.byTopic = map[string]delivery.Trimmed{}
	}
	l.byTopic[topic] = sum(of, went)
}

func (l *loss) topics() int { return len(l.byTopic) + l.others }

// worst are the topics in byTopic, those that lost most first.
func (l *loss) worst() []string {
	return slices.SortedFunc(maps.Keys(l.byTopic), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.byTopic[b].Bytes, l.byTopic[a].Bytes), cmp.Compare(a, b))
	})
}

func sum(a, b delivery.Trimmed) delivery.Trimmed {
	return delivery.Trimmed{Notifications: a.Notifications + b.Notifications, Bytes: a.Bytes + b.Bytes}
}

// logsState is what a sweep has found that the logs take.
type logsState struct {
	bytes  int64
	oldest time.Time // zero where nothing is kept
}

// sweep is one round over all logs. Its memory is two numbers for each log that has
// anything.
type sweep struct {
	needs
	now        time.Time // by the wall clock, as far as that is believed
	young, old time.Time // nothing from young on may go, and all before old does, unless zero
	remembered time.Time // from then on what is settled stays as well, as far as RememberBytes let it
	ahead      map[string]glimpse
	logs       []holding // those that are not empty, if they are bounded by size
	found      logsState
	odd        error // of a log that could not be trimmed, though the engine is there
}

// sweep trims every log by what is settled and by age. Then, if all together take more than
// may be remembered, it trims those that take most, of the sites that take most, by what is
// settled; and if they take too much all the same, by what is not.
func (t *Trimmer) sweep(ctx context.Context, n needs) error {
	now := time.Now()
	s := &sweep{needs: n, now: time.Unix(0, t.wall.At(now)), ahead: map[string]glimpse{}, logs: t.logs[:0]}
	s.young = s.now.Add(-t.cfg.KeepAtLeast)
	s.remembered = s.now.Add(-max(t.cfg.KeepAtLeast, t.cfg.RememberFor))
	if t.since.IsZero() {
		t.since = now
	}
	// After a standstill, however long, every subscription has an attempt first for the kept
	// notifications: no pause is longer than RetryMax.
	if t.cfg.KeepFor > 0 && now.Sub(t.since) > t.cfg.RetryMax {
		s.old = s.now.Add(-t.cfg.KeepFor)
	}
	err := t.eachLog(ctx, s, t.trimLog)
	if bound := t.cfg.RememberBytes; err == nil && s.known && s.remembered.Before(s.young) && bound > 0 && s.found.bytes > bound {
		all := shareOut(s.logs, bound)
		s.logs = s.logs[:0]
		err = t.eachLog(ctx, s, func(ctx context.Context, s *sweep, state delivery.TopicState) error {
			return t.forgetLog(ctx, s, state, all)
		})
	}
	if bound := t.cfg.KeepBytes; err == nil && bound > 0 && s.found.bytes > bound {
		all := shareOut(s.logs, bound)
		err = t.eachLog(ctx, s, func(ctx context.Context, s *sweep, state delivery.TopicState) error {
			return t.shrinkLog(ctx, s, state, all)
		})
	}
	t.logs = s.logs
	t.sites.tidy(len(s.logs))
	t.ahead = s.ahead
	t.tell(now)
	if err != nil {
		return err
	}
	t.metrics.logs.Store(&s.found)
	return s.odd
}

// eachLog calls do with every log that is not empty, and goes on where one log
// alone is in trouble.
func (t *Trimmer) eachLog(
	ctx context.Context, s *sweep, do func(context.Context, *sweep, delivery.TopicState) error,
) error {
	for state, err := range t.records.Topics(ctx) {
		if err != nil {
			return fmt.Errorf("listing the topics: %w", err)
		}
		if state.First > state.Head {
			continue
		}
		if err := do(ctx, s, state); err != nil {
			err = fmt.Errorf("trimming the log of %s: %w", state.Topic, err)
			if ctx.Err() != nil || errors.Is(err, delivery.ErrUnavailable) {
				return err
			}
			s.odd = cmp.Or(s.odd, err)
		}
	}
	return nil
}

// trimLog trims a log by what is settled and by age, and counts what is left of it.
func (t *Trimmer) trimLog(ctx context.Context, s *sweep, state delivery.TopicState) error {
	if s.found.oldest.IsZero() || state.Oldest.Before(s.found.oldest) {
		s.found.oldest = state.Oldest
	}
	before, young := t.settledOf(s, state)
	if young.Equal(s.young) {
		young = s.remembered
	}
	var settled, aged delivery.Trimmed
	var err error
	if s.known && before > state.First && state.Oldest.Before(young) {
		settled, err = t.records.Trim(ctx, state.Topic, before, young)
		t.metrics.trim(trimSettled, settled)
	}
	if err == nil && state.Oldest.Before(s.old) {
		aged, err = t.records.Trim(ctx, state.Topic, state.Head+1, s.old)
		t.metrics.trim(trimAge, aged)
		t.age.add(state.Topic, aged)
	}
	if left := state.Bytes - settled.Bytes - aged.Bytes; left > 0 {
		s.found.bytes += left
		t.hold(s, state.Topic, left)
	}
	return err
}

// hold counts what a log takes, where there are bounds.
func (t *Trimmer) hold(s *sweep, topic string, bytes int64) {
	if t.cfg.KeepBytes > 0 || t.cfg.RememberBytes > 0 {
		s.logs = append(s.logs, holding{t.sites.of(topic), bytes})
	}
}

// settledOf is below which number no subscription needs a log any more, and from when on
// nothing of it may go.
func (t *Trimmer) settledOf(s *sweep, state delivery.TopicState) (before delivery.Seq, young time.Time) {
	young, seen := t.youngOf(s, state)
	before = min(state.Head, seen) + 1
	if settled, subscribed := s.lowest[state.Topic]; subscribed {
		before = min(before, settled+1)
	}
	return before, young
}

// forgetLog trims a log to its share of the remembered notifications, if its site is one that pays. It
// removes settled notifications only: one that a subscription waits for never pays for the others.
func (t *Trimmer) forgetLog(ctx context.Context, s *sweep, state delivery.TopicState, all shares) error {
	left := state.Bytes
	defer func() { t.hold(s, state.Topic, left) }()
	level, pays := all.levels[t.sites.of(state.Topic)]
	if !pays || state.Bytes <= level {
		return nil
	}
	before, young := t.settledOf(s, state)
	if before <= state.First || !state.Oldest.Before(young) {
		return nil
	}
	went, err := t.records.Shrink(ctx, state.Topic, level, before, young)
	t.metrics.trim(trimSettled, went)
	s.found.bytes -= went.Bytes
	left -= went.Bytes
	return err
}

// youngOf is from when on nothing of a log may go, and up to which notification it was seen
// for as long. It is the same for all, but for logs that begin in the future.
func (t *Trimmer) youngOf(s *sweep, state delivery.TopicState) (young time.Time, upTo delivery.Seq) {
	if !state.Oldest.After(s.now.Add(MaxAhead)) {
		return s.young, delivery.MaxSeq
	}
	g, seen := t.ahead[state.Topic]
	if !seen {
		g = glimpse{state.Head, time.Now()}
	}
	if time.Since(g.at) < t.cfg.KeepAtLeast {
		s.ahead[state.Topic] = g
		return s.young, delivery.MaxSeq
	}
	s.ahead[state.Topic] = glimpse{state.Head, time.Now()}
	return whenever, g.head
}

// shrinkLog trims a log to its share, if its site is one that pays. Young notifications stay where
// there is one site: they displace nothing of others. Else they go as well, or a flood would stand on
// top of the bound until the disk is full.
func (t *Trimmer) shrinkLog(ctx context.Context, s *sweep, state delivery.TopicState, all shares) error {
	level, pays := all.levels[t.sites.of(state.Topic)]
	if !pays || state.Bytes <= level {
		return nil
	}
	young, seen := whenever, delivery.MaxSeq
	if all.alone {
		young, seen = t.youngOf(s, state)
	}
	if !state.Oldest.Before(young) {
		return nil
	}
	went, err := t.records.Shrink(ctx, state.Topic, level, min(state.Head, seen)+1, young)
	t.metrics.trim(trimSize, went)
	t.size.add(state.Topic, went)
	s.found.bytes -= went.Bytes
	return err
}

// waterLevel is what each log, or site, may take so that all together take no more than
// bound: those that take less give what is left over to the others, so that only
// those that take most are cut, and all of them to the same.
func waterLevel(sizes []int64, bound int64) int64 {
	slices.Sort(sizes)
	for i, size := range sizes {
		share := bound / int64(len(sizes)-i)
		if size > share {
			return share
		}
		bound -= size
	}
	return math.MaxInt64
}

// tell logs the removed part that a subscription may have needed, in a line now and then. Whether that
// is a gap shows when it is to be read: memory may have it still.
func (t *Trimmer) tell(now time.Time) {
	if t.age.Notifications+t.size.Notifications == 0 || now.Sub(t.told) < lossInterval {
		return
	}
	t.told = now
	for _, l := range []struct {
		*loss
		bound string
		limit any
	}{
		{&t.age, "keep-for", t.cfg.KeepFor},
		{&t.size, "keep-bytes", t.cfg.KeepBytes},
	} {
		if l.Notifications > 0 {
			worst := l.worst()[0]
			t.log.Warn("notifications were trimmed that not every subscription is known to have: who still needs them may have a gap",
				"bound", l.bound, "limit", l.limit, "notifications", l.Notifications, "bytes", l.Bytes,
				"topics", l.topics(), "topic", worst, "notifications_of_topic", l.byTopic[worst].Notifications)
		}
		*l.loss = loss{}
	}
}
