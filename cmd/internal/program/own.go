package program

import (
	"io"
	"net"
	"net/http"
)

// ownOnly refuses what a browser asks for a page of another origin, on a listener for
// operators. A page may not post to it (403). And where plain HTTP comes to a
// loopback address, the Host must be an address or localhost (421): a page can have
// any other name lead there, and would count as the listener's own (DNS rebinding).
// With TLS the certificate sees to that. Where the listener is on a network its
// operator may have any name for it.
func ownOnly(handler http.Handler) http.Handler {
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		turnAway(w, http.StatusForbidden, "A page of another origin may not do this.")
	}))
	inner := own.Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && onLoopback(r) && !ownName(plainHost(r.Host)) {
			turnAway(
				w, http.StatusMisdirectedRequest,
				"Ask by address, or as localhost: the Host header must be one of them here.",
			)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func turnAway(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that has gone needs no answer
}

// onLoopback reports whether the request came to a loopback address.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}
