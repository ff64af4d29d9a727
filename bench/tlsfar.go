package main

import (
	"context"
	"fmt"
)

// far measures how long a round takes if every host is far away.
func (b *tlsBench) far(ctx context.Context) error {
	s, m := spread{10_000 / b.plan.hostShare, 1}, manner{roundTrip: b.plan.roundTrip}
	b.log("%s away", m.roundTrip)
	field, err := b.field(ctx, s, m, s.hosts)
	if err != nil {
		return err
	}
	defer stopAll(field)
	rounds, err := b.runTLS(ctx, field, m)
	if err != nil {
		return fmt.Errorf("%s away: %w", m.roundTrip, err)
	}
	b.report.note("%d hosts × 1, each a round trip of %s away (opening a connection takes one, its handshake one, a delivery one). Time from publishing until the last is served; the loop has a worker for each host. Medians, and of the ratios of each round.",
		s.hosts, m.roundTrip)
	var rows [][]string
	for _, part := range []struct {
		name   string
		rounds [][]tlsUsage
		goal   goal
	}{{"first: connections are opened", rounds.first, goalTLSFarFirst}, {"later: connections are kept", rounds.later, goalTLSFarLater}} {
		for i := 1; i < len(field); i++ {
			ratio := median(part.rounds, func(r []tlsUsage) float64 { return r[i].Wall.Seconds() / r[0].Wall.Seconds() })
			figures := costs(part.rounds, i, ratio)
			rows = append(rows, []string{
				part.name, field[i].on.String(), field[i].attempts, figures[3], figures[4], fmt.Sprintf("%.2f", ratio), figures[0], figures[1], figures[5], figures[6],
			})
			b.report.put(part.goal, field[i].on, ratio)
		}
	}
	b.report.table([]string{
		"round", "hub on", "attempts delivered, in all rounds", "time", "of the loop", "÷", "CPU each", "of the loop", "handshakes each (full + resumed)", "of the loop",
	}, rows)
	return nil
}
