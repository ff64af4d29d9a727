package send

import (
	"net/http"
	"strings"

	"carillon/delivery"
	"carillon/internal/egress"
	"carillon/subscription"
	"carillon/topic"
)

// Attempt is one try to deliver a notification to a callback.
type Attempt struct {
	Subscription subscription.ID
	// Callback stands byte for byte as in the subscription request (WebSub §8.3).
	Callback string
	// Secret signs the delivery; empty: no signature.
	Secret subscription.Secret
	// Notification is shared with other attempts and not to be changed.
	Notification *delivery.Notification
	// Number is 1 for the first attempt, one more after each failure in a row.
	Number uint32
	// Traceparent is the field of that name for the callback (W3C Trace Context); empty: none.
	// It is for Senders that wrap another.
	Traceparent string

	// Host is the callback's, where Aim has split that: then Callback is empty, and the
	// name of Host and Rest make it up.
	Host *Host
	Rest string
	// Wire belongs to the notification and is shared by its attempts; nil: this one has its own.
	Wire *Wire
	// Shared: other subscriptions to the topic may have the same secret, so that a
	// signature is worth keeping.
	Shared bool
}

// Host is what callbacks with one scheme, name and port have in common. It never changes.
type Host struct {
	name string
	// authority is the name and port as requests spell them, empty where that takes the
	// whole callback; secure: https.
	authority string
	secure    bool
	inside    bool // it is InsideOrigin
}

// NewHost returns the host of an origin (Origin).
func NewHost(origin string) Host {
	h := Host{name: origin, inside: origin == InsideOrigin}
	h.secure, h.authority = plainAuthority(origin)
	return h
}

// Name returns the origin.
func (h *Host) Name() string { return h.name }

// Aim has the attempt go to a callback of the host, given what follows the host's name there, and
// reports whether it can. The HTTPSender takes a plain callback in two parts, so that it
// need not be put together to be cut again; any other goes into Callback.
func (a *Attempt) Aim(h *Host, rest string) bool {
	if h.authority == "" || !plainTarget(rest) {
		return false
	}
	a.Host, a.Rest = h, rest
	return true
}

// target returns what a request to the callback needs: whether it is https, its host
// as it is spelled, and what stands in the request line.
func (a *Attempt) target() (secure bool, authority, target string, err error) {
	if a.Host != nil {
		return a.Host.secure, a.Host.authority, a.Rest, nil
	}
	return egress.RequestTarget(a.Callback)
}

// longestPlain is how long a host may be that surely is no longer than a name can be.
const longestPlain = 253

// Origin returns the name of a callback's host, which may be a part of the callback.
func Origin(callback string) string {
	rest, secure := strings.CutPrefix(callback, "https://")
	if !secure {
		var plain bool
		if rest, plain = strings.CutPrefix(callback, "http://"); !plain {
			return topic.Origin(callback)
		}
	}
	end, port := 0, false
	for ; end < len(rest) && rest[end] != '/' && rest[end] != '?' && rest[end] != '#'; end++ {
		switch c := rest[end]; {
		case port && (c < '0' || c > '9'):
			return topic.Origin(callback)
		case 'A' <= c && c <= 'Z', c >= 0x80, c == '@', c == '[', c == '%':
			return topic.Origin(callback)
		case c == ':' && (end == 0 || rest[end-1] == '.'), c == '0' && end > 0 && rest[end-1] == ':':
			return topic.Origin(callback)
		case c == ':':
			port = true
		}
	}
	name := rest[:end]
	if end == 0 || end > longestPlain || name[end-1] == '.' || name[end-1] == ':' || strings.HasSuffix(name, ":80") || strings.HasSuffix(name, ":443") {
		return topic.Origin(callback)
	}
	return callback[:len(callback)-len(rest)+end]
}

// plainAuthority returns whether a host is https, and its name and port; empty where a
// request would spell them otherwise.
func plainAuthority(host string) (secure bool, authority string) {
	secure, authority, _, err := egress.RequestTarget(host + "/")
	if err != nil || !strings.HasSuffix(host, "://"+authority) {
		return false, ""
	}
	return secure, authority
}

// plainTarget reports whether what follows the host in a callback is, byte for byte, what
// stands in the request line.
func plainTarget(rest string) bool {
	if rest == "" || rest[0] != '/' || strings.HasPrefix(rest, "//") {
		return false
	}
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// InsideOrigin is the origin of callbacks that are inside of the hub. Its name is reserved (RFC 6761
// §6.4): no server outside can have it.
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

// isInside reports whether an attempt goes to a callback inside of the hub.
func (a *Attempt) isInside(secure bool, authority string) bool {
	if a.Host != nil {
		return a.Host.inside
	}
	return !secure && authority == insideAuthority
}
