package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

var goalFirst = atMost(2, "publish → first delivery on an idle hub ÷ one synced append + one bare POST", "")

// firstWithin is the time for a delivery to come; a run that meets it has failed.
const firstWithin = 30 * time.Second

// first measures how soon a notification is there when the hub has nothing else
// to do. This process is publisher and callback at once, so one clock times both.
func first(ctx context.Context, e *env) error {
	e.report.section("The first delivery")
	e.report.note("One subscription, an idle hub, %d publications one after the other, %d bytes; between them one synced append to the bare store and one bare POST on a kept connection to the same callback. Medians.",
		e.plan.firsts, e.plan.bodyBytes)
	var rows [][]string
	err := e.onEach(ctx, func(on engine, s *store) error {
		f, err := e.firsts(ctx, s)
		if err != nil {
			return err
		}
		arrived, yardstick := quantile(f.arrived, 0.5), quantile(f.appended, 0.5)+quantile(f.posted, 0.5)
		rows = append(rows, []string{
			on.String(), ms(arrived), ms(quantile(f.answered, 0.5)), ms(quantile(f.arrived, 0.99)),
			ms(quantile(f.appended, 0.5)), ms(quantile(f.posted, 0.5)), fmt.Sprintf("%.2f", arrived/yardstick),
		})
		e.report.put(goalFirst, on, arrived/yardstick)
		return nil
	})
	e.report.table([]string{"", "publication sent → delivery arrived", "sent → answered 200", "arrived, p99", "one append", "one POST", "÷ both"}, rows)
	return err
}

// firstTimes are what each publication took, in milliseconds.
type firstTimes struct{ arrived, answered, appended, posted []float64 }

func (e *env) firsts(ctx context.Context, s *store) (f firstTimes, err error) {
	listeners, err := listenHosts(1)
	if err != nil {
		return f, err
	}
	defer listeners[0].Close()
	here := &sink{arrived: make(chan int64, 1024)} // more than can be under way
	go here.accept(listeners[0])
	callback := "http://" + listeners[0].Addr().(*net.TCPAddr).String() + pathCallback + "0"
	topic := e.town.topic("first")
	if err := e.moveIn(ctx, s, group(1, topic, func(int) string { return callback })); err != nil {
		return f, err
	}
	writers, err := openAppenders(ctx, s, 1, e.plan.bodyBytes)
	if err != nil {
		return f, err
	}
	defer writers.close()
	h, err := startHub(ctx, e.binary, s.flag())
	if err != nil {
		return f, err
	}
	defer h.stop()
	if _, err := h.awaitSubscriptions(ctx, 1); err != nil {
		return f, err
	}
	client, body := newClient(), content(e.plan.bodyBytes)
	for i := range e.plan.firsts + 1 {
		one := firstTimes{}
		if err := one.measure(ctx, h, topic, body, here.arrived, writers[0], func() error { return fastPost(client, callback, body) }); err != nil {
			return f, err
		}
		if i == 0 {
			continue // it opens the connections
		}
		f.add(one)
	}
	return f, nil
}

func (f *firstTimes) add(one firstTimes) {
	f.arrived = append(f.arrived, one.arrived...)
	f.answered = append(f.answered, one.answered...)
	f.appended = append(f.appended, one.appended...)
	f.posted = append(f.posted, one.posted...)
}

// measure publishes one notification, then takes the yardsticks.
func (f *firstTimes) measure(
	ctx context.Context, h *hub, topic string, body []byte, arrived <-chan int64, writer appender, bare func() error,
) error {
	begin := time.Now()
	answered, err := h.publication(topic, append(stamp(nil, begin, 0), body...)[:len(body)]).send()
	if err != nil {
		return err
	}
	select {
	case at := <-arrived:
		f.arrived = []float64{millis(time.Duration(at - begin.UnixNano()))}
	case <-time.After(firstWithin):
		return errors.New("a delivery did not come")
	case <-ctx.Done():
		return ctx.Err()
	}
	f.answered = []float64{millis(answered)}
	for _, yardstick := range []struct {
		do   func() error
		took *[]float64
	}{{writer.append, &f.appended}, {bare, &f.posted}} {
		if err := pause(ctx, pauseBetween); err != nil {
			return err
		}
		begin := time.Now()
		if err := yardstick.do(); err != nil {
			return err
		}
		*yardstick.took = []float64{millis(time.Since(begin))}
	}
	return pause(ctx, pauseBetween)
}
