package send_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"carillon/delivery"
	"carillon/delivery/send"
)

// A callback inside of the hub gets the same as one outside, and no connection is opened.
func TestInside(t *testing.T) {
	w := answering(t, http.StatusOK)
	var got send.Inside
	status := 204
	s := newSender(t, send.Config{Version: "1", Inside: func(_ context.Context, d send.Inside) int {
		got = d
		return status
	}}, outlet(t))
	callback := send.InsideOrigin + "/token"
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
	s = newSender(t, send.Config{Inside: func(_ context.Context, d send.Inside) int {
		got = d
		return 200
	}}, dialing{outlet(t), func(context.Context, string) (net.Conn, error) { return nil, errOdd }})
	for _, other := range []string{"https://listen.invalid/", "http://listen.invalid:81/", "http://listen.invalid.example.invalid/"} {
		got = send.Inside{}
		equal(t, "dialed", s.Send(t.Context(), attemptOn(other, "")).Class, delivery.ClassProtocol)
		equal(t, other, got.Callback, "")
	}
}

// answeringServer is a server that returns the headers of a request.
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
