package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

var (
	goalBounded = atMost(2, "retention: largest store (directory; in Redis: memory) while far more is published ÷ --keep-bytes", "")
	goalRefused = atMost(0, "retention: publications refused meanwhile", "")
	goalGaps    = atLeast(1, "retention: gaps recorded for who does not keep up", "")
)

// trimmedGaps is the metric of what subscriptions lose to the bounds of the log.
const trimmedGaps = `carillon_delivery_gaps_total{reason="trimmed"}`

// retention publishes much more than the hub may keep, with one subscriber that
// keeps up and one that hangs: hours of a busy hub, in less than a minute.
func retention(ctx context.Context, e *env) error {
	e.report.section("Storage over a long run")
	flags := retentionFlags(e.plan)
	e.report.note("`hub %s`; %s of %d bytes a second, one subscriber that takes them, one that hangs.",
		strings.Join(flags, " "), e.plan.retainFor, e.plan.retainRate)
	var rows [][]string
	err := e.onEach(ctx, func(on engine, s *store) error {
		l, err := e.longRun(ctx, s, flags)
		if err != nil {
			return err
		}
		sizes := l.files
		if on == onRedis {
			sizes = l.memory
		}
		bounded := float64(slices.Max(sizes)) / float64(e.plan.keepBytes)
		rows = append(rows, append([]string{on.String(), mb(l.published)}, l.row(sizes, bounded)...))
		if on == onRedis {
			rows = append(rows, append([]string{"Redis's files", ""}, halves(l.files)...))
		}
		e.report.put(goalBounded, on, bounded)
		e.report.put(goalRefused, on, float64(l.refused))
		e.report.put(goalGaps, on, l.gaps)
		return nil
	})
	e.report.table([]string{
		"", "published", "largest in the first half", "in the second half", "at the end", "largest ÷ --keep-bytes",
		"delivered to who keeps up", "refused", "gaps recorded as trimmed",
	}, rows)
	return err
}

func (l *longRun) row(sizes []int64, bounded float64) []string {
	return append(halves(sizes), fmt.Sprintf("%.2f", bounded),
		fmt.Sprintf("%d of %d", l.delivered, l.publications), fmt.Sprint(l.refused), fmt.Sprintf("%.0f", l.gaps))
}

// halves tells whether sizes go on growing.
func halves(sizes []int64) []string {
	half := len(sizes) / 2
	return []string{mb(slices.Max(sizes[:max(1, half)])), mb(slices.Max(sizes[half:])), mb(sizes[len(sizes)-1])}
}

func retentionFlags(p plan) []string {
	return []string{
		"--keep-at-least", "5s", "--keep-bytes", fmt.Sprint(p.keepBytes),
		"--delivery-timeout", "2s", "--retry-first", "1s", "--retry-max", "2s",
	}
}

// longRun is what was seen of one.
type longRun struct {
	published             int64   // bytes
	files, memory         []int64 // bytes of the store's files, and in Redis, now and then
	publications, refused int
	delivered             int64
	gaps                  float64
}

func (e *env) longRun(ctx context.Context, s *store, flags []string) (l longRun, err error) {
	topic := e.town.topic("long")
	err = e.moveIn(ctx, s, group(1, topic, func(int) string { return e.town.callback(0, pathCallback, 0) }).
		and(group(1, topic, func(int) string { return e.town.callback(1, pathHang, 0) })))
	if err != nil {
		return l, err
	}
	h, err := startHub(ctx, e.binary, s.flag(), flags...)
	if err != nil {
		return l, err
	}
	defer h.kill()
	if _, err := h.awaitSubscriptions(ctx, 2); err != nil {
		return l, err
	}
	before, err := e.town.count()
	if err != nil {
		return l, err
	}
	if err := e.publishLong(ctx, h, s, topic, &l); err != nil {
		return l, err
	}
	if err := e.town.quiet(ctx, time.Second); err != nil {
		return l, err
	}
	if err := l.look(ctx, s); err != nil {
		return l, err
	}
	after, err := e.town.count()
	if err != nil {
		return l, err
	}
	l.delivered = after - before
	l.gaps, err = h.metric(trimmedGaps)
	return l, err
}

// lookEvery is how often the size of the store is looked at.
const lookEvery = time.Second

// publishLong publishes in a steady rhythm, and looks at the size now and then.
func (e *env) publishLong(ctx context.Context, h *hub, s *store, topic string, l *longRun) error {
	one := h.publication(topic, content(e.plan.retainBytes))
	every := time.Duration(float64(time.Second) * float64(e.plan.retainBytes) / float64(e.plan.retainRate))
	begin := time.Now()
	looked := begin
	for sent := 0; time.Since(begin) < e.plan.retainFor; sent++ {
		if err := pause(ctx, time.Until(begin.Add(time.Duration(sent)*every))); err != nil {
			return err
		}
		status, _, err := one.try()
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			l.publications++
			l.published += int64(e.plan.retainBytes)
		default:
			l.refused++
		}
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			if err := l.look(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// look takes down how large the store is now.
func (l *longRun) look(ctx context.Context, s *store) error {
	size, err := s.size()
	if err != nil {
		return err
	}
	l.files = append(l.files, size)
	if s.redis == nil {
		return nil
	}
	memory, err := s.redis.memory(ctx)
	l.memory = append(l.memory, memory)
	return err
}

func mb(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
