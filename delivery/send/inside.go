package send

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"carillon/delivery"
	"carillon/subscription"
)

// InsideOrigin is the origin of callbacks that are inside of the hub. Its name is reserved
// (RFC 6761 §6.4): nobody outside can have it.
const InsideOrigin = "http://" + insideAuthority

const insideAuthority = "listen.invalid"

// Inside is a delivery to a callback inside of the hub. Body and Notification are shared
// with other deliveries and not to be changed.
type Inside struct {
	Subscription subscription.ID
	Callback     string
	Notification *delivery.Notification
	// Header is what the request would have, without Host and Content-Length.
	Header http.Header
	Body   []byte
}

// errNobodyInside: there is no such callback.
var errNobodyInside = errors.New("nobody listens inside of the hub")

// isInside tells whether an attempt goes to a callback inside of the hub.
func (a *Attempt) isInside(secure bool, authority string) bool {
	if a.Host != nil {
		return a.Host.inside
	}
	return !secure && authority == insideAuthority
}

// sendInside makes one attempt without a request.
func (s *HTTPSender) sendInside(ctx context.Context, a *Attempt) Outcome {
	d := Inside{
		Subscription: a.Subscription, Callback: a.Callback, Notification: a.Notification,
		Header: http.Header{}, Body: a.Notification.Body,
	}
	if a.Host != nil {
		d.Callback = a.Host.name + a.Rest
	}
	for _, f := range s.fields(a.Notification) {
		d.Header.Set(f.Name, f.Value)
	}
	if a.Secret != "" {
		_, signature, _ := strings.Cut(string(appendSignature(nil, a, s.sign)), ": ")
		d.Header.Set("X-Hub-Signature", strings.TrimSuffix(signature, "\r\n"))
	}
	status := s.inside(ctx, d)
	switch {
	case ctx.Err() != nil:
		return Outcome{Class: delivery.ClassNone, Err: context.Cause(ctx)}
	case status == 0:
		return Outcome{Class: delivery.ClassRefused, Err: errNobodyInside}
	}
	return Outcome{Class: classOfStatus(status), Status: status}
}
