package main

import (
	"context"
	"fmt"
)

// memory measures the memory of the hub for each connection that it keeps: with more hosts
// than it has connections for, and with as many as it kept of these.
func (b *tlsBench) memory(ctx context.Context) error {
	files, err := mostFiles()
	if err != nil {
		return err
	}
	s := spread{min(20_000/b.plan.hostShare, files-files/5), 1}
	b.report.note("Memory for each connection that is kept: %d hosts × 1, after three rounds and %s of rest, beyond the same hub before its first delivery. A process may open %d files here; with 20,000 connections the hub and the sink need some more. "+
		"A hub that does not keep all of them drops some and opens others in every round; so a second line has a hub with as many hosts as were kept.",
		s.hosts, b.plan.tlsRest, files)
	var rows [][]string
	for _, on := range b.engines {
		lines, err := b.memoryOn(ctx, on, s)
		if err != nil {
			return fmt.Errorf("memory on %s: %w", on, err)
		}
		rows = append(rows, lines...)
	}
	b.report.table([]string{"hosts × callbacks", "hub on", "attempts delivered", "connections kept", "RSS before", "RSS with them", "RSS each", "live heap each, at the last collection"}, rows)
	return nil
}

func (b *tlsBench) memoryOn(ctx context.Context, on engine, s spread) (lines [][]string, err error) {
	for range 2 {
		b.log("on %s: the memory of %d connections", on, s.hosts)
		c := &tlsContestant{on: on, n: s.hosts}
		row, kept, err := b.weighConns(ctx, c, s)
		c.stop()
		if err != nil {
			return nil, err
		}
		if lines = append(lines, row); kept == s.hosts {
			break
		}
		s.hosts = kept
	}
	return lines, nil
}

// weighConns returns a line of the table, and how many connections the hub kept.
func (b *tlsBench) weighConns(ctx context.Context, c *tlsContestant, s spread) (row []string, kept int, err error) {
	if c.town, err = b.startTLSTown(ctx, s.hosts, manner{}); err != nil {
		return nil, 0, err
	}
	c.stops = append(c.stops, c.town.stop)
	if err := c.startHub(ctx, b, s); err != nil {
		return nil, 0, err
	}
	before, err := b.weighAfter(ctx, b.plan.tlsRest, c.busy.hub)
	if err != nil {
		return nil, 0, err
	}
	for range 3 {
		if _, err := c.round(ctx, b.plan.tlsSettle); err != nil {
			return nil, 0, err
		}
	}
	after, err := b.weighAfter(ctx, b.plan.tlsRest, c.busy.hub)
	if err != nil {
		return nil, 0, err
	}
	now, err := c.town.handshakes()
	if err != nil {
		return nil, 0, err
	}
	if err := b.settle(ctx, c); err != nil {
		return nil, 0, err
	}
	each := func(a, b float64) float64 { return (a - b) / float64(now.open) / 1024 }
	b.report.put(goalTLSMemory, c.on, each(after.resident, before.resident))
	return []string{
		s.String(), c.on.String(), c.attempts, fmt.Sprint(now.open), fmt.Sprintf("%.1f MB", before.resident/1e6), fmt.Sprintf("%.1f MB", after.resident/1e6),
		fmt.Sprintf("%.1f KiB", each(after.resident, before.resident)), fmt.Sprintf("%.1f KiB", each(after.live, before.live)),
	}, int(now.open), nil
}
