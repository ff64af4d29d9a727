package main

import (
	"context"
	"fmt"
)

// memory measures the memory of the hub for each connection that it keeps.
func (b *tlsBench) memory(ctx context.Context) error {
	files, err := mostFiles()
	if err != nil {
		return err
	}
	s := spread{min(20_000/b.plan.hostShare, files-files/5), 1}
	b.report.note("Memory for each connection that is kept: %d hosts × 1, after three rounds and %s of rest, beyond the same hub before its first delivery. A process may open %d files here; with 20,000 connections the hub and the sink need some more.",
		s.hosts, b.plan.tlsRest, files)
	var rows [][]string
	for _, on := range b.engines {
		b.log("on %s: the memory of %d connections", on, s.hosts)
		c := &tlsContestant{on: on, n: s.hosts}
		row, err := b.weighConns(ctx, c, s)
		c.stop()
		if err != nil {
			return fmt.Errorf("memory on %s: %w", on, err)
		}
		rows = append(rows, row)
	}
	b.report.table([]string{"hub on", "attempts delivered", "connections kept", "RSS before", "RSS with them", "RSS each", "live heap each, at the last collection"}, rows)
	return nil
}

func (b *tlsBench) weighConns(ctx context.Context, c *tlsContestant, s spread) (row []string, err error) {
	if c.town, err = b.startTLSTown(ctx, s.hosts, manner{}); err != nil {
		return nil, err
	}
	c.stops = append(c.stops, c.town.stop)
	if err := c.startHub(ctx, b, s); err != nil {
		return nil, err
	}
	before, err := b.weighAfter(ctx, b.plan.tlsRest, c.busy.hub)
	if err != nil {
		return nil, err
	}
	for range 3 {
		if _, err := c.round(ctx, b.plan.tlsSettle); err != nil {
			return nil, err
		}
	}
	after, err := b.weighAfter(ctx, b.plan.tlsRest, c.busy.hub)
	if err != nil {
		return nil, err
	}
	kept, err := c.town.handshakes()
	if err != nil {
		return nil, err
	}
	if err := b.settle(ctx, c); err != nil {
		return nil, err
	}
	each := func(a, b float64) float64 { return (a - b) / float64(kept.open) / 1024 }
	b.report.put(goalTLSMemory, c.on, each(after.resident, before.resident))
	return []string{
		c.on.String(), c.attempts, fmt.Sprint(kept.open), fmt.Sprintf("%.1f MB", before.resident/1e6), fmt.Sprintf("%.1f MB", after.resident/1e6),
		fmt.Sprintf("%.1f KiB", each(after.resident, before.resident)), fmt.Sprintf("%.1f KiB", each(after.live, before.live)),
	}, nil
}
