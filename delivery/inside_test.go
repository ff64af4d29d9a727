package delivery_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"carillon/delivery"
)

// A callback inside of the hub gets what one outside does, and nobody is dialed.
func TestInside(t *testing.T) {
	w := answering(t, http.StatusOK)
	var got delivery.Inside
	status := 204
	s := newSender(t, delivery.SenderConfig{Version: "1", Inside: func(_ context.Context, d delivery.Inside) int {
		got = d
		return status
	}}, outlet(t))
	callback := delivery.InsideOrigin + "/token"
	out := s.Send(t.Context(), attemptOn(callback, "key"))
	equal(t, "class", out.Class, delivery.ClassDelivered)
	equal(t, "status", out.Status, 204)
	equal(t, "callback", got.Callback, callback)
	equal(t, "body", string(got.Body), string(notification.Body))
	equal(t, "notification", got.Notification, notification)

	s.Send(t.Context(), attemptOn(w.URL, "key"))
	want := <-w.headers
	want.Del("Content-Length")
	for name := range want {
		equal(t, name, got.Header.Get(name), want.Get(name))
	}
	equal(t, "fields", len(got.Header), len(want))

	for answer, want := range map[int]delivery.Class{
		0: delivery.ClassRefused, 410: delivery.ClassGone, 500: delivery.ClassServerError,
	} {
		status = answer
		equal(t, "class", s.Send(t.Context(), attemptOn(callback, "")).Class, want)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	equal(t, "class at the end", s.Send(over, attemptOn(callback, "")).Class, delivery.ClassNone)
	s = newSender(t, delivery.SenderConfig{Inside: func(_ context.Context, d delivery.Inside) int {
		got = d
		return 200
	}}, dialing{outlet(t), func(context.Context, string) (net.Conn, error) { return nil, errOdd }})
	for _, other := range []string{"https://listen.invalid/", "http://listen.invalid:81/", "http://listen.invalid.example.invalid/"} {
		got = delivery.Inside{}
		equal(t, "dialed", s.Send(t.Context(), attemptOn(other, "")).Class, delivery.ClassProtocol)
		equal(t, other, got.Callback, "")
	}
}

// The dispatcher's own way to a callback, in two parts, ends there too.
func TestInsideOfADispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan delivery.Inside, 10)
		s := newSender(t, delivery.SenderConfig{Inside: func(_ context.Context, d delivery.Inside) int {
			heard <- d
			return http.StatusOK
		}}, dialing{outlet(t), func(context.Context, string) (net.Conn, error) {
			t.Error("somebody is dialed")
			return nil, errors.New("no")
		}})
		e := newEngine()
		d := start(t, e, delivery.Config{}, s)
		sub := d.subscribe(e, delivery.InsideOrigin+"/token?a=b")
		d.publish("x")
		got := <-heard
		equal(t, "callback", got.Callback, sub.Callback)
		equal(t, "subscription", got.Subscription, sub.ID)
		equal(t, "signature", got.Header.Get("X-Hub-Signature"), "")
		synctest.Wait()
		equal(t, "behind", d.Totals().Behind, 0)
	})
}

// answering is a server that tells of the headers that it got.
type answeringServer struct {
	*httptest.Server
	headers chan http.Header
}

func answering(t *testing.T, status int) *answeringServer {
	a := &answeringServer{headers: make(chan http.Header, 10)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.headers <- r.Header.Clone()
		w.WriteHeader(status)
	}))
	t.Cleanup(a.Close)
	return a
}
