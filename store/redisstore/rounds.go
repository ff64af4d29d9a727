package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"carillon/subscription"
)

// schedule is when rounds are due, and how the last ones went.
type schedule struct {
	next     time.Time // when the next round is due
	begun    time.Time // when the first one was sent
	last     time.Time // when the last one was sent
	looked   bool      // the last one asked about the shards of others
	failing  bool      // the last one did not succeed
	trouble  time.Time // since when
	failures int       // how many since then
	mercy    time.Time // until when others may find back to a server that was away
	proven   bool      // one succeeded, so that Sure was called
	renewal  time.Time // when the last one that succeeded was sent
}

// ask begins an exchange with the server, if there is something to ask: a round,
// when one is due, or what should not wait for the next.
func (k *keeper) ask(ctx context.Context, answered chan<- round) {
	r := round{sent: time.Now()}
	if r.full = !r.sent.Before(k.rounds.next); r.full {
		k.everything(&r)
	} else {
		k.errands(&r)
	}
	if len(r.answers) == 0 {
		return
	}
	k.asking = true
	go func() {
		limited, cancel := context.WithTimeout(ctx, k.takeover/2)
		defer cancel()
		known := make(chan error, 1)
		if known <- nil; r.full {
			<-known
			go func() { known <- k.engine.identity(limited) }()
		}
		r.answers = k.engine.exchange(limited, r.answers, k.takeover/4)
		r.err = k.identified(known)
		answered <- r
	}()
}

// everything asks about all that a round is about.
func (k *keeper) everything(r *round) {
	if k.rounds.begun.IsZero() {
		k.rounds.begun = r.sent
	}
	k.rounds.last, k.rounds.next = r.sent, r.sent.Add(k.takeover/4)
	young := r.sent.Sub(k.rounds.begun) < k.takeover
	if young {
		k.rounds.next = r.sent.Add(k.takeover / 8) // before it ceases to be a member
	}
	if !k.ending {
		r.add(ask{verb: join, young: young})
	} else if !k.left {
		r.add(ask{verb: leave})
	}
	r.looked = !k.ending && (!k.rounds.proven || k.owned() < k.fair)
	for s := range subscription.Shard(subscription.Shards) {
		switch l := &k.leases[s]; {
		case l.phase == afar:
			if l.known = false; r.looked {
				r.add(ask{verb: look, shard: s})
			}
		case l.phase == givenUp:
			r.add(ask{verb: release, shard: s, epoch: l.epoch})
		case !l.fenced:
			r.add(ask{verb: renew, shard: s, epoch: l.epoch})
		}
	}
}

// identified waits for the answer about the store. In a Cluster its server may be one that hangs
// while others have answered: then that is not for long.
func (k *keeper) identified(known <-chan error) error {
	if k.engine.url.kind != cluster {
		return <-known
	}
	select {
	case err := <-known:
		return err
	case <-time.After(k.takeover / 16):
		return errSlower
	}
}

// errands asks what others wait for, and what this process waits for.
func (k *keeper) errands(r *round) {
	for i := range subscription.Shards {
		s := k.ordered(i)
		switch l := &k.leases[s]; {
		case l.phase == givenUp && !l.silent:
			r.add(ask{verb: release, shard: s, epoch: l.epoch})
		case l.wanted:
			r.add(ask{verb: take, shard: s})
		}
	}
}

// applyRound goes on after an exchange.
func (k *keeper) applyRound(r round) {
	k.asking = false
	err, reached := r.err, r.reached()
	var news tidings
	for i := range r.answers {
		a := &r.answers[i]
		switch a.verb {
		case join:
			k.joined(a.members)
			err = cmp.Or(err, a.err)
		case leave:
			k.left = a.err == nil
		case renew:
			if l := &k.leases[a.shard]; l.epoch == a.epoch && l.phase != afar && l.phase != givenUp {
				err = cmp.Or(err, k.afterRenewal(a, l, r.sent, reached, &news))
			}
		default:
			k.answered(a, r.sent, &news)
		}
	}
	news.tell(k.log)
	k.missed(news.gone)
	if !r.full {
		return
	}
	k.rounds.looked = r.looked
	switch {
	case err != nil:
		k.failed(r, err)
	case k.rounds.failing:
		k.rounds.failing = false
		k.rounds.mercy = time.Now().Add(k.takeover / 4)
		k.log.Info(
			"the leases of the shards are renewed again", "failed", k.rounds.failures,
			"after", r.sent.Sub(k.rounds.trouble).Round(time.Millisecond),
		)
	}
	if err == nil {
		k.rounds.renewal = r.sent
	}
	// Where a part of a Cluster is away the shards of the others are as sure as ever. The first
	// time all must be there, as this process knows its part by that.
	if err == nil || k.rounds.proven && reached && errors.Is(err, subscription.ErrUnavailable) {
		sure := k.vouch(r.sent)
		if k.engine.url.kind == cluster {
			k.engine.absence.note(r.sent, sure, err)
		}
	}
}

// reached reports whether something of a round was answered.
func (r *round) reached() bool {
	return slices.ContainsFunc(r.answers, func(a answer) bool {
		return a.err == nil && (a.verb == join || a.verb == renew)
	})
}

// tidings are the shards that a round found lost, by the reason.
type tidings struct{ fenced, doubted, unreached, gone []subscription.Shard }

func (t tidings) tell(log *slog.Logger) {
	if len(t.fenced) > 0 {
		log.Warn("shards have another owner by now", "shards", fmt.Sprint(t.fenced))
	}
	if len(t.doubted) > 0 {
		log.Warn(
			"the server was restarted or replaced, or its replication began anew: the shards are read anew",
			"shards", fmt.Sprint(t.doubted),
		)
	}
	if len(t.unreached) > 0 {
		log.Warn("shards could not be kept, as their server is away", "shards", fmt.Sprint(t.unreached))
	}
}

// afterRenewal applies the answer to a renewal. The error is that of a renewal that leaves open
// whether the shard is still this process's. reached reports that another server of a Cluster has
// answered.
func (k *keeper) afterRenewal(a *answer, l *lease, sent time.Time, reached bool, news *tidings) error {
	switch {
	case a.err != nil:
		if !reached || sent.Sub(l.renewed) <= k.takeover {
			return a.err
		}
		// The other shards need not wait for what is lost in any case.
		l.fenced, news.unreached = true, append(news.unreached, a.shard)
	case a.verdict == leaseKept:
		l.renewed = sent
		return nil
	case a.verdict == leaseDoubts:
		if l.renewed = sent; !l.mine() || l.again {
			return nil
		}
		l.again, news.doubted = true, append(news.doubted, a.shard)
	case a.verdict == leaseGone:
		k.gone(a.shard, news)
		l.fenced = true
	default:
		l.fenced, news.fenced = true, append(news.fenced, a.shard)
	}
	k.partWith(l)
	return nil
}

// gone records that nothing is left of a shard that this process had: its server has lost its data.
// That was logged already where the store was found emptied since.
func (k *keeper) gone(s subscription.Shard, news *tidings) {
	if k.engine.emptiedAt().Before(k.leases[s].renewed) {
		news.gone = append(news.gone, s)
	}
}

// missed reports the shards that are gone.
func (k *keeper) missed(gone []subscription.Shard) {
	if len(gone) == 0 {
		return
	}
	k.log.Error(
		"a part of the store was emptied: what was acknowledged before is lost",
		"store", k.engine.url, "shards", fmt.Sprint(gone),
	)
	k.engine.noteEmptied(fmt.Sprintf("the shards %v were found emptied, as of a node that lost its data", gone))
}

// failed goes on after a round that was not answered, or not wholly.
func (k *keeper) failed(r round, err error) {
	if !k.rounds.failing {
		k.rounds.failing, k.rounds.trouble, k.rounds.failures = true, r.sent, 0
		missed := 0
		for _, a := range r.answers {
			if a.verb == renew && a.err != nil {
				missed++
			}
		}
		k.log.Warn(
			"the leases of shards could not be renewed; their deliveries pause before these run out",
			"shards", missed, "error", err,
		)
	}
	k.rounds.failures++
	if next := r.sent.Add(k.takeover / 10); next.Before(k.rounds.next) {
		k.rounds.next = next
	}
}

// vouch calls Sure with the time until which no other process can own the gained shards. The leases
// are counted from before they were requested; the margin is for clocks that run at different rates.
// Doubted are shards without a renewal in this round, and those of another process that are not lost
// yet. It returns how many are sure.
func (k *keeper) vouch(sent time.Time) (sure int) {
	var doubted []subscription.Shard
	for s := range k.leases {
		l := &k.leases[s]
		switch doubtful := l.fenced || l.renewed.Before(sent); {
		case !l.entrusted():
		case doubtful:
			doubted = append(doubted, subscription.Shard(s))
		default:
			sure++
		}
	}
	k.holder.Sure(sent.Add(k.takeover-k.takeover/10), doubted...)
	k.rounds.proven = true
	return sure
}

// joined reckons this process's part: the first of the processes have one shard
// more where the shards cannot be shared equally.
func (k *keeper) joined(members []member) {
	me := slices.IndexFunc(members, func(m member) bool { return m.process == k.engine.cfg.Process })
	if me < 0 {
		return // it was not answered
	}
	n := len(members)
	fair := subscription.Shards / n
	if me < subscription.Shards%n {
		fair++
	}
	if n != k.processes || fair != k.fair {
		k.log.Info("the shards are shared", "processes", n, "part", fair)
	}
	k.processes, k.fair, k.first = n, fair, me*subscription.Shards/n
	// A process that stays silent has lost its part when its membership ends.
	for _, m := range members {
		if at := k.spaced(time.Now().Add(m.left + time.Millisecond)); at.Before(k.rounds.next) {
			k.rounds.next = at
		}
	}
}

// answered applies what was answered about a shard.
func (k *keeper) answered(a *answer, sent time.Time, news *tidings) {
	l := &k.leases[a.shard]
	switch a.verb {
	case look:
		if l.phase == afar {
			l.known, l.freeAt = a.err == nil, free(a.left)
			if a.left < 0 && l.freeAt.Before(k.rounds.mercy) {
				l.freeAt = k.rounds.mercy
			}
		}
	case take:
		k.answeredTake(a, l, sent, news)
	case release:
		if l.epoch == a.epoch && l.phase == givenUp {
			if l.silent = a.err != nil; !l.silent {
				l.forget()
				l.known = false // others heard of it first
			}
		}
	}
}

// free is when a shard can be taken that is another's for so long.
func free(left time.Duration) time.Time {
	if left <= 0 {
		return time.Time{}
	}
	return time.Now().Add(left + time.Millisecond)
}

func (k *keeper) answeredTake(a *answer, l *lease, sent time.Time, news *tidings) {
	if a.granted == 0 {
		// Where it was not answered the shard may be this process's: look shows it.
		l.known, l.freeAt, l.unsure = a.err == nil, free(a.left), a.err != nil
		if k.ending && l.unsure {
			*l = lease{phase: givenUp}
		}
		return
	}
	if a.first && !l.renewed.IsZero() {
		k.gone(a.shard, news)
	}
	*l = lease{phase: taken, epoch: a.granted, renewed: sent, failures: l.failures, retryAt: l.retryAt}
	if k.ending {
		l.phase = givenUp
	}
}
