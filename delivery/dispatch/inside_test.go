package dispatch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/internal/egress"
)

// The dispatcher's own way to a callback, in two parts, ends there too.
func TestInsideOfADispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan send.Inside, 10)
		s := insideSender(t, func(_ context.Context, d send.Inside) int {
			heard <- d
			return http.StatusOK
		})
		e := newEngine()
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, send.InsideOrigin+"/token?a=b")
		d.publish("x")
		got := <-heard
		equal(t, "callback", got.Callback, sub.Callback)
		equal(t, "subscription", got.Subscription, sub.ID)
		equal(t, "signature", got.Header.Get("X-Hub-Signature"), "")
		synctest.Wait()
		equal(t, "behind", d.Totals().Behind, 0)
	})
}

// insideSender delivers inside of the hub, and fails the test where it dials.
func insideSender(t *testing.T, inside func(context.Context, send.Inside) int) *send.HTTPSender {
	t.Helper()
	out, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := send.NewHTTPSender(send.Config{Hub: "https://hub.example/", Inside: inside}, undialed{out, t})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// undialed is an Outlet that no connection may use.
type undialed struct {
	*egress.Dialer
	t *testing.T
}

func (u undialed) DialContext(context.Context, string, string) (net.Conn, error) {
	u.t.Error("somebody is dialed")
	return nil, errors.New("no")
}
