package main

import (
	"context"
	"fmt"
	"time"
)

var goalFirst = atMost(2, "publish → first delivery on an idle hub ÷ one synced append + one bare POST", "")

// first measures how soon a notification arrives if the hub has nothing else to do.
func first(ctx context.Context, e *env) error {
	e.report.section("The first delivery")
	e.report.note("One subscription, an idle hub, %d publications one after the other, %d bytes. Between them: one synced append "+
		"to the bare store and one bare POST on a kept connection to the same callback. Medians.", e.plan.firsts, e.plan.bodyBytes)
	var rows [][]string
	err := e.onEach(ctx, func(on engine, s *store) error {
		f, err := e.firstsOn(ctx, s)
		if err != nil {
			return err
		}
		arrived, appended, posted := quantile(f.arrived, 0.5), quantile(f.appended, 0.5), quantile(f.posted, 0.5)
		ratio := arrived / (appended + posted)
		rows = append(rows, cells("%s|%s|%s|%s|%s|%s|%.2f", on, ms(arrived), ms(quantile(f.answered, 0.5)),
			ms(quantile(f.arrived, 0.99)), ms(appended), ms(posted), ratio))
		e.report.put(goalFirst, on, ratio)
		return nil
	})
	e.report.table(
		cells("|publication sent → delivery arrived|sent → answered 200|arrived, p99|one append|one POST|÷ both"),
		rows,
	)
	return err
}

// firstTimes are what each publication took, in milliseconds.
type firstTimes struct{ arrived, answered, appended, posted []float64 }

func (e *env) firstsOn(ctx context.Context, s *store) (f firstTimes, err error) {
	topic, callback := e.town.topic("first"), e.town.callback(0, pathCallback, 0)
	writers, err := openAppenders(ctx, s, 1, e.plan.bodyBytes)
	if err != nil {
		return f, err
	}
	defer writers.close()
	b, err := e.newBusy(ctx, s, topic, group(1, topic, func(int) string { return callback }))
	if err != nil {
		return f, err
	}
	defer b.hub.stop()
	client, body := newClient(), content(e.plan.bodyBytes)
	yardsticks := []func() error{
		writers[0].append,
		func() error { return fastPost(client, callback, body) },
	}
	for i := range e.plan.firsts + 1 {
		if i == 1 {
			f = firstTimes{} // the first one opened the connections
		}
		if err := f.measure(ctx, b, i, yardsticks); err != nil {
			return f, err
		}
	}
	return f, nil
}

// measure publishes one notification, then takes the yardsticks.
func (f *firstTimes) measure(ctx context.Context, b *busyHub, number int, yardsticks []func() error) error {
	before, err := b.town.counted()
	if err != nil {
		return err
	}
	if _, err := b.town.ways(); err != nil { // drops those of earlier scenarios
		return err
	}
	answered, err := b.hub.publication(b.topic, stamped(time.Now(), number, b.plan.bodyBytes)).send()
	if err != nil {
		return err
	}
	if err := b.town.await(ctx, before+1); err != nil {
		return err
	}
	ways, err := b.town.ways()
	if err != nil {
		return err
	}
	if len(ways) != 1 || ways[0].Burst != int64(number) {
		return fmt.Errorf("the sink timed %v, not one arrival of publication %d", ways, number)
	}
	f.arrived = append(f.arrived, millis(time.Duration(ways[0].Took)))
	f.answered = append(f.answered, millis(answered))
	for i, took := range []*[]float64{&f.appended, &f.posted} {
		if err := pause(ctx, pauseBetween); err != nil {
			return err
		}
		begin := time.Now()
		if err := yardsticks[i](); err != nil {
			return err
		}
		*took = append(*took, millis(time.Since(begin)))
	}
	return pause(ctx, pauseBetween)
}
