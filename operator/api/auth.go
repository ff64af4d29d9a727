package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"carillon/source"
)

// Auth checks the clients of the listener. Programs send the operator's token (Authorization: Bearer
// TOKEN), browsers log in with it and have a session from then on (sessions). There is one token, and
// its holder may do everything. A nil Auth lets every client in.
//
// Health checks, the login and the files of its page need no token; /readyz gives clients without one
// the status alone.
type Auth struct {
	// Proxies are the networks of proxies that end TLS, whose X-Forwarded-Proto counts. It is
	// set before the first request.
	Proxies []netip.Prefix

	token    func() string
	logger   *slog.Logger
	sessions sessions
	pace     tokenThrottle
}

// NewAuth returns an Auth by the token that the function returns, which may change: then all
// sessions are over. It must be cheap, and never return "".
func NewAuth(token func() string, logger *slog.Logger) *Auth {
	return &Auth{token: token, logger: logger, sessions: newSessions(), pace: newTokenThrottle()}
}

// maxLogin bounds the form of a login, bytes.
const maxLogin = 8 << 10

// Where browsers log in.
const (
	loginPath  = "/login"
	logoutPath = "/logout"
	staticRoot = "/static/" // what the login page is made of, too
)

// open reports what is for everybody.
func open(path string) bool {
	switch path {
	case "/healthz", "/readyz", loginPath, logoutPath:
		return true
	}
	return strings.HasPrefix(path, staticRoot)
}

// verdict gives the outcome of who comes.
type verdict int

const (
	welcome verdict = iota
	unknown         // no token, and no session
	refused         // a wrong token
	hasty           // a wrong token, after too many others
)

// guard lets through who may.
func (a *Auth) guard(inner http.Handler) http.Handler {
	if a == nil {
		return inner
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r.URL.Path) {
			inner.ServeHTTP(w, r)
			return
		}
		if found := a.judge(r); found != welcome {
			a.refuse(w, r, found)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// judge looks at a request's token, or else at its session.
func (a *Auth) judge(r *http.Request) verdict {
	switch token, err := source.BearerToken(r.Header.Values("Authorization")); {
	case errors.Is(err, source.ErrNoToken):
		if a.sessions.use(sessionOf(r), a.hash()) {
			return welcome
		}
		return unknown
	case err != nil:
		return refused
	default:
		return a.try(r, string(token))
	}
}

// try compares a token. The right one is welcome however many wrong ones came from the same address:
// an operator who shares it with a guesser, on one machine or behind one proxy, is not shut out.
func (a *Auth) try(r *http.Request, token string) verdict {
	if a.ours(token) {
		return welcome
	}
	who := clientOf(r)
	if !a.pace.allows(who) {
		return hasty
	}
	if a.pace.wrong(who) {
		a.logger.Warn(
			"a client sends wrong tokens to the operator's listener: they are answered 429 for a while",
			"client", who,
		)
	}
	return refused
}

// ours compares a token with that of the hub, in a time that reveals nothing.
func (a *Auth) ours(token string) bool {
	sent, kept := sha256.Sum256([]byte(token)), a.hash()
	return subtle.ConstantTimeCompare(sent[:], kept[:]) == 1
}

// hash is that of the token as it is now.
func (a *Auth) hash() [sha256.Size]byte { return sha256.Sum256([]byte(a.token())) }

// May reports whether who sent a request may see what operators see, now: streams ask again and again,
// which does not count as use of a session.
func (a *Auth) May(r *http.Request) bool {
	if a == nil {
		return true
	}
	token, err := source.BearerToken(r.Header.Values("Authorization"))
	if err != nil {
		return a.sessions.holds(sessionOf(r), a.hash())
	}
	return a.ours(string(token))
}

// LoggedIn reports whether a browser has a session, which it can log out of.
func (a *Auth) LoggedIn(r *http.Request) bool {
	return a != nil && a.sessions.holds(sessionOf(r), a.hash())
}

// refuse refuses in the way that who asks understands.
func (a *Auth) refuse(w http.ResponseWriter, r *http.Request, found verdict) {
	status, text := http.StatusUnauthorized, "This needs the operator's token: Authorization: Bearer TOKEN."
	switch found {
	case refused:
		text = "This is not the operator's token."
		w.Header().Set("WWW-Authenticate", `Bearer realm="carillon", error="invalid_token"`)
	case hasty:
		status, text = http.StatusTooManyRequests, "This is not the operator's token, and too many wrong ones were sent from your address. Wait."
		w.Header().Set("Retry-After", paceRetryAfter)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="carillon"`)
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		Refusal(status, text).write(w)
	case found == unknown && reads && strings.Contains(r.Header.Get("Accept"), "text/html"):
		w.Header().Del("WWW-Authenticate")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, loginPath+"?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	default:
		plain(w, status, text)
	}
}

// paths are the login and its end. GET /login is a page like any other, which has in its query
// where to go next, and what is to be said: failed=1 for a wrong token, failed=pace for too many.
func (a *Auth) paths(r *mux.Router, pages http.Handler) {
	r.Path(logoutPath).Methods(http.MethodPost).HandlerFunc(a.logout)
	r.Path(loginPath).Methods(http.MethodPost).HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { a.login(w, r, pages) },
	)
	if a == nil {
		r.Path(loginPath).HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) },
		)
	}
}

// login begins a session and leads on to where the browser was going.
func (a *Auth) login(w http.ResponseWriter, r *http.Request, pages http.Handler) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		plain(w, http.StatusBadRequest, "The form is not understood.")
		return
	}
	next := OwnPath(r.PostForm.Get("next"))
	if a == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	switch a.try(r, strings.TrimSpace(r.PostForm.Get("token"))) {
	case welcome:
		a.sessions.end(sessionOf(r))
		http.SetCookie(w, a.sessionCookie(r, a.sessions.begin(a.hash())))
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, next, http.StatusSeeOther)
	case hasty:
		w.Header().Set("Retry-After", paceRetryAfter)
		again(w, r, pages, http.StatusTooManyRequests, "pace", next)
	default:
		again(w, r, pages, http.StatusUnauthorized, "1", next)
	}
}

// again shows the login page once more, with what went wrong as its status.
func again(w http.ResponseWriter, r *http.Request, pages http.Handler, status int, what, next string) {
	if pages == nil {
		plain(w, status, "This is not the operator's token, or too many wrong ones were sent.")
		return
	}
	page := r.Clone(r.Context())
	page.Method, page.Body, page.ContentLength, page.Form, page.PostForm = http.MethodGet, http.NoBody, 0, nil, nil
	page.URL = &url.URL{Path: loginPath, RawQuery: url.Values{"next": {next}, "failed": {what}}.Encode()}
	pages.ServeHTTP(&withStatus{ResponseWriter: w, status: status}, page)
}

// withStatus gives a page that was found another status.
type withStatus struct {
	http.ResponseWriter
	status int
	begun  bool
}

func (w *withStatus) WriteHeader(status int) {
	if status == http.StatusOK {
		status = w.status
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *withStatus) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// logout ends a session.
func (a *Auth) logout(w http.ResponseWriter, r *http.Request) {
	if a != nil {
		a.sessions.end(sessionOf(r))
		gone := a.sessionCookie(r, "")
		gone.MaxAge = -1
		http.SetCookie(w, gone)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

// OwnPath is a path of this listener with its query, or else the first page: a login leads to no other
// site.
func OwnPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || len(next) > maxText*2 {
		return "/"
	}
	return next
}

// clientOf is the address that a request came from, or its /64 where that is one of IPv6:
// an IPv6 client has that many.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return site(host)
}

// sessionCookie is for this listener alone: no script reads it, and no page of another site has
// it sent.
func (a *Auth) sessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/",
		HttpOnly: true, Secure: r.TLS != nil || a.behindTLS(r), SameSite: http.SameSiteStrictMode,
	}
}

// behindTLS reports whether the browser reached a trusted proxy by https. Of a list the first
// element is what the browser spoke.
func (a *Auth) behindTLS(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(
		a.Proxies, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) },
	) {
		return false
	}
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(first), "https")
}
