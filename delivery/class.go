package delivery

// Class is the kind of outcome of a delivery attempt: a closed set, fit for the
// label of a metric. The numbers are stored and never change.
type Class uint8

// The classes of outcomes.
const (
	ClassNone        Class = 0  // no attempt was made
	ClassDelivered   Class = 1  // 2xx
	ClassGone        Class = 2  // 410: the callback wants no more
	ClassRedirect    Class = 3  // 3xx: not followed, a failure (WebSub §7)
	ClassClientError Class = 4  // 4xx
	ClassServerError Class = 5  // 5xx
	ClassTimeout     Class = 6  // the deadline passed
	ClassRefused     Class = 7  // no connection, or it broke
	ClassDNS         Class = 8  // the host's name did not resolve
	ClassTLS         Class = 9  // the handshake or the certificate failed
	ClassForbidden   Class = 10 // the address is not one that may be dialed
	ClassProtocol    Class = 11 // the answer was not HTTP, or beyond its limits
)

// Classes is how many there are, ClassNone included.
const Classes = int(ClassProtocol) + 1

var classNames = [...]string{
	ClassNone: "none", ClassDelivered: "delivered", ClassGone: "gone",
	ClassRedirect: "redirect", ClassClientError: "client_error", ClassServerError: "server_error",
	ClassTimeout: "timeout", ClassRefused: "refused", ClassDNS: "dns", ClassTLS: "tls",
	ClassForbidden: "forbidden", ClassProtocol: "protocol",
}

// String returns the class's name as metrics and logs show it.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown"
}

// String returns the reason's name as metrics and logs show it.
func (r GapReason) String() string {
	switch r {
	case GapGivenUp:
		return "given_up"
	case GapTrimmed:
		return "trimmed"
	}
	return "unknown"
}
