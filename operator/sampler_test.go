package operator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/operator"
)

// TestSeries adds up what two processes count in steps, and forgets what is older than ten minutes.
func TestSeries(t *testing.T) {
	db := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(1, even), newFake(2, odd)
		s := &fakePeers{live: map[string]func(context.Context, []byte) []byte{}}
		ctx, stop := context.WithCancel(t.Context())
		var asked *operator.Service
		for name, f := range map[string]*fake{"a": a, "b": b} {
			d := newService(t, db, f, func(c *operator.Config) { c.Peers = fakePeer{s, name} })
			asked = d
			go func() { _ = d.Run(ctx) }()
		}
		synctest.Wait()
		step := func(f *fake, published, delivered, refused uint64, took int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.totals.Published += published
			f.totals.Attempts[delivery.ClassDelivered] += delivered
			f.totals.Attempts[delivery.ClassRefused] += refused
			f.totals.Latency[took] += delivered + refused
		}
		step(a, 1, 98, 0, 10)
		step(b, 2, 0, 2, 40)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		o, err := asked.Overview(t.Context())
		if err != nil || len(o.Series) != 1 {
			t.Fatalf("%+v %v", o.Series, err)
		}
		if got := o.Series[0]; got.Published != 3 || got.Delivered != 98 || got.Failed["refused"] != 2 || len(got.Failed) != 1 || got.Seconds > 5 {
			t.Errorf("%+v", got)
		}
		// Of a hundred attempts the two of the other process took longest.
		if got := o.Series[0]; got.P50 <= 0 || got.P50 > got.P90 || got.P90 >= got.P99/10 {
			t.Errorf("%v %v %v", got.P50, got.P90, got.P99)
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if o, err = asked.Overview(t.Context()); err != nil || len(o.Series) != 120 {
			t.Fatalf("%d steps, %v", len(o.Series), err)
		}
		for i, step := range o.Series[1:] {
			if step.At.Sub(o.Series[i].At) != 5*time.Second || step.Delivered != 0 || step.P50 != 0 {
				t.Fatalf("%+v after %+v", step, o.Series[i])
			}
		}
		stop()
		synctest.Wait()
	})
}
