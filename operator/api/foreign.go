package api

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// Foreign reports whether a page of another origin made a browser send the request. Browsers do not
// let that page read the answer, but listening changes something, and streams are few.
//
// Browsers mark such requests by Sec-Fetch-Site, to https and loopback only. To other servers they
// name the page's origin, which is compared with the requested host: no proxy that ends TLS is
// between. Our own pages always name theirs (Referrer-Policy). A page at another port of this host has
// the session's cookie sent, too, and can hide its origin: so a request with a session that names no
// page is foreign.
func Foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the user's own doing
		return false
	case "":
		from := cmp.Or(r.Header.Get("Origin"), r.Header.Get("Referer"))
		if from == "" {
			return sessionOf(r) != "" && r.Header.Get("Authorization") == ""
		}
		u, err := url.Parse(from)
		return err != nil || !strings.EqualFold(u.Host, r.Host)
	}
	return true
}

// own refuses what a page of another origin has a browser ask, by an image or in a frame: pages
// walk logs, and profiles stop the process. A link to a page leads there. The API looks for itself.
func own(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if intrudes(r) {
			plain(w, http.StatusForbidden, "A page of another origin may not ask this.")
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func intrudes(r *http.Request) bool {
	header := r.Header
	switch path := r.URL.Path; {
	case path == "/healthz", path == "/readyz", strings.HasPrefix(path, staticRoot), strings.HasPrefix(path, "/api/"):
		return false
	case strings.HasPrefix(path, profilesPath):
		return Foreign(r)
	case header.Get("Sec-Fetch-Site") == "":
		return header.Get("Origin") != "" && Foreign(r) // a link has a Referer, and no Origin
	}
	followed := header.Get("Sec-Fetch-Mode") == "navigate" && header.Get("Sec-Fetch-Dest") == "document"
	return !followed && Foreign(r)
}
