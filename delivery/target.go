package delivery

import (
	"strings"

	"carillon/internal/egress"
)

// hostOf returns what callbacks of one host share: scheme, name and port. What
// cannot be told apart is one host.
func hostOf(callback string) string { return egress.Origin(callback) }

// aim fills in where an attempt goes. The HTTPSender takes a plain callback in two
// parts, so that it need not be put together to be cut again.
func (d *Dispatcher) aim(a *Attempt, h *host, e *entry) {
	if rest := e.rest(); d.splits && h.authority != "" && plainTarget(rest) {
		a.host, a.rest = h, rest
		return
	}
	a.Callback = e.callback()
}

// target returns what a request to the callback needs: whether it is https, its host
// as it is spelled, and what stands in the request line.
func (a *Attempt) target() (secure bool, authority, target string, err error) {
	if a.host != nil {
		return a.host.secure, a.host.authority, a.rest, nil
	}
	return egress.RequestTarget(a.Callback)
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

// plainTarget tells whether what follows the host in a callback is, byte for byte, what
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
