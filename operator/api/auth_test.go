package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/operator/api"
)

// pages is a page that says what it was asked.
var pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.URL.RawQuery)
})

// guarded is a listener with a token.
func guarded(t *testing.T, token *string, log *bytes.Buffer) http.Handler {
	t.Helper()
	cfg := bareConfig()
	cfg.Service, cfg.Pages = newFakeService(), pages
	cfg.Auth = api.NewAuth(func() string { return *token }, slog.New(slog.NewTextHandler(log, nil)))
	return api.Handler(cfg)
}

// visit is a request with what a browser or a program would send.
func visit(t *testing.T, h http.Handler, line, form string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form))
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// A client without a token gets advice in its own form.
func TestStrangersAreTurnedAway(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	h := guarded(t, &token, &log)
	for line, want := range map[string]int{
		"GET /healthz": 200, "GET /readyz": 200, "GET /login": 200, "GET /static/page.css": 200,
		"GET /metrics": 401, "GET /api/v1/version": 401, "POST /api/v1/sources": 401, "GET /": 401, "POST /sources": 401,
		"GET /healthz/": 401, "GET //healthz": 401, "GET /static/../metrics": 401, "GET /login/../api/v1/version": 401, "GET /%2e/healthz": 401,
	} {
		if rec := visit(t, h, line, ""); rec.Code != want && rec.Code != http.StatusMovedPermanently {
			t.Errorf("%s: %d; want %d", line, rec.Code, want)
		} else if rec.Code == 401 && !strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v", line, rec.Header())
		}
	}
	rec := visit(t, h, "GET /topics?contains=a&limit=3", "", "Accept", "text/html,*/*")
	if rec.Code != 303 || rec.Header().Get("Location") != "/login?next="+url.QueryEscape("/topics?contains=a&limit=3") {
		t.Errorf("a browser: %d %s", rec.Code, rec.Header().Get("Location"))
	}
	if rec := visit(t, h, "POST /topics", "x=1", "Accept", "text/html"); rec.Code != 401 {
		t.Errorf("a browser that posts: %d", rec.Code)
	}
	if rec := visit(
		t, h, "GET /api/v1/version", "", "Accept", "text/html",
	); rec.Code != 401 || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("the API to a browser: %d %s", rec.Code, rec.Header().Get("Content-Type"))
	}
}

// The token is taken in one form.
func TestTokens(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	for name, test := range map[string]struct {
		header []string
		want   int
	}{
		"right":           {[]string{"Authorization", "Bearer " + goodToken}, 200},
		"in another case": {[]string{"Authorization", "bEARER   " + goodToken}, 200},
		"wrong":           {[]string{"Authorization", "Bearer " + goodToken + "x"}, 401},
		"a part":          {[]string{"Authorization", "Bearer " + goodToken[1:]}, 401},
		"nothing":         {[]string{"Authorization", "Bearer "}, 401},
		"twice":           {[]string{"Authorization", "Bearer " + goodToken, "Authorization", "Bearer " + goodToken}, 401},
		"basic":           {[]string{"Authorization", "Basic " + goodToken}, 401},
		"as a cookie":     {[]string{"Cookie", "carillon_session=" + goodToken}, 401},
	} {
		if rec := visit(t, guarded(t, &token, &log), "GET /metrics", "", test.header...); rec.Code != test.want {
			t.Errorf("%s: %d; want %d", name, rec.Code, test.want)
		}
	}
}

// login posts the form and returns the cookie.
func login(t *testing.T, h http.Handler, token, next string) (*httptest.ResponseRecorder, *http.Cookie) {
	t.Helper()
	rec := visit(t, h, "POST /login", url.Values{"token": {token}, "next": {next}}.Encode())
	for _, c := range rec.Result().Cookies() {
		return rec, c
	}
	return rec, nil
}

// A browser logs in, goes where it was going, and out again.
func TestLogin(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	h := guarded(t, &token, &log)
	rec, cookie := login(t, h, " "+goodToken+"\n", "/topics?contains=a")
	if rec.Code != 303 || rec.Header().Get("Location") != "/topics?contains=a" {
		t.Errorf("the login: %d %s", rec.Code, rec.Header().Get("Location"))
	}
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.Path != "/" || len(cookie.Value) < 40 {
		t.Fatalf("the cookie: %+v", cookie)
	}
	for line, want := range map[string]int{"GET /": 200, "GET /metrics": 200, "GET /api/v1/version": 200} {
		if rec := visit(t, h, line, "", "Cookie", cookie.String(), "Sec-Fetch-Site", "same-origin"); rec.Code != want {
			t.Errorf("%s with a session: %d", line, rec.Code)
		}
	}
	if rec := visit(
		t, h, "POST /logout", "", "Cookie", cookie.String(),
	); rec.Code != 303 || rec.Header().Get("Location") != "/login" || rec.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("the logout: %d %v", rec.Code, rec.Header())
	}
	if rec := visit(t, h, "GET /metrics", "", "Cookie", cookie.String()); rec.Code != 401 {
		t.Errorf("after the logout: %d", rec.Code)
	}
	for next, want := range map[string]string{
		"//evil.test/": "/", "///evil.test/": "/", "https://evil.test/": "/", "/\\evil.test": "/", "evil": "/", "": "/", "/a\r\nX: y": "/", "/subscription/1": "/subscription/1",
	} {
		if rec, _ := login(t, h, goodToken, next); rec.Header().Get("Location") != want {
			t.Errorf("a login leads from %q to %q; want %q", next, rec.Header().Get("Location"), want)
		}
	}
	if strings.Contains(log.String(), goodToken) {
		t.Errorf("the log tells the token: %s", &log)
	}
}

// With TLS the cookie goes nowhere else.
func TestCookieWithTLS(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	server := httptest.NewTLSServer(guarded(t, &token, &log))
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.PostForm(server.URL+"/login", url.Values{"token": {goodToken}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	if cookies := resp.Cookies(); len(cookies) != 1 || !cookies[0].Secure || cookies[0].Name != "carillon_session_"+port {
		t.Errorf("%+v", cookies)
	}
}

// Behind a proxy that ends TLS the cookie goes nowhere else either. Headers about the way of the
// request count only from that proxy.
func TestCookieBehindAProxyWithTLS(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	cfg := bareConfig()
	cfg.Service, cfg.Pages = newFakeService(), pages
	cfg.Auth = api.NewAuth(func() string { return token }, slog.New(slog.NewTextHandler(&log, nil)))
	cfg.Auth.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	h := api.Handler(cfg)
	for _, test := range []struct {
		from, proto string
		secure      bool
	}{
		{"10.0.0.7:4000", "https", true},
		{"[::ffff:10.0.0.7]:4000", "HTTPS", true},
		{"10.0.0.7:4000", "https, http", true},
		{"10.0.0.7:4000", "http, https", false},
		{"10.0.0.7:4000", "http", false},
		{"10.0.0.7:4000", "", false},
		{"192.0.2.1:4000", "https", false},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader("token="+goodToken))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Forwarded-Proto", test.proto)
		req.RemoteAddr = test.from
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if cookies := rec.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != test.secure {
			t.Errorf("%+v: %v", test, cookies)
		}
	}
}

// A wrong token is the form again, with its status; so are too many.
func TestWrongLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := goodToken
		var log bytes.Buffer
		h := guarded(t, &token, &log)
		for n := range api.MaxWrong {
			rec, cookie := login(t, h, "wrong", "/topics")
			if rec.Code != 401 || cookie != nil || rec.Body.String() != "GET /login failed=1&next=%2Ftopics" {
				t.Fatalf("wrong token %d: %d %s", n, rec.Code, rec.Body)
			}
		}
		rec, cookie := login(t, h, "wrong", "/topics")
		if rec.Code != 429 || cookie != nil || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), "failed=pace") {
			t.Errorf("one more: %d %s", rec.Code, rec.Body)
		}
		if rec, cookie := login(t, h, goodToken, "/topics"); rec.Code != 303 || cookie == nil {
			t.Errorf("the right one after too many wrong ones: %d", rec.Code)
		}
		if told := strings.Count(log.String(), "wrong tokens"); told != 1 || strings.Contains(log.String(), "wrong\"") {
			t.Errorf("it was told %d times: %s", told, &log)
		}
		time.Sleep(7 * time.Second)
		if rec, _ := login(t, h, "wrong", "/topics"); rec.Code != 401 {
			t.Errorf("a wrong one after a pause: %d", rec.Code)
		}
	})
}

// One client's wrong tokens do not count for another, and in any number they are forgotten.
func TestWrongTokensByClient(t *testing.T) {
	token := goodToken
	var log bytes.Buffer
	auth := api.NewAuth(func() string { return token }, slog.New(slog.NewTextHandler(&log, nil)))
	cfg := bareConfig()
	cfg.Auth = auth
	h := api.Handler(cfg)
	from := func(address, token string) int {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		req.RemoteAddr = address
		req.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec.Code
	}
	for range api.MaxWrong {
		from("[2001:db8::1]:1", "wrong")
		from("192.0.2.1:1", "wrong")
	}
	for address, want := range map[string]int{
		"[2001:db8::2]:9": 429, "[2001:db8:0:1::1]:1": 401, "192.0.2.1:7": 429,
		"[::ffff:192.0.2.1]:7": 429, "192.0.2.2:1": 401,
	} {
		if got := from(address, "wrong"); got != want {
			t.Errorf("%s: %d; want %d", address, got, want)
		}
		if got := from(address, goodToken); got != 200 {
			t.Errorf("%s with the right token: %d", address, got)
		}
	}
	for n := range api.MaxClients + 10 {
		from(fmt.Sprintf("10.%d.%d.%d:1", n>>16&255, n>>8&255, n&255), "wrong")
	}
	if auth.Clients() > api.MaxClients {
		t.Errorf("%d clients are remembered", auth.Clients())
	}
	if got := from("192.0.2.1:7", "wrong"); got != 429 {
		t.Errorf("who sent most was forgotten before who sent least: %d", got)
	}
}

// Sessions end when they are not used, when they are old, when the token is another, and when there
// are too many.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := goodToken
		var log bytes.Buffer
		h := guarded(t, &token, &log)
		alive := func(c *http.Cookie) bool { return visit(t, h, "GET /metrics", "", "Cookie", c.String()).Code == 200 }
		_, idle := login(t, h, goodToken, "")
		_, used := login(t, h, goodToken, "")
		for range int(api.SessionMax / api.SessionIdle) {
			time.Sleep(api.SessionIdle - time.Minute)
			if !alive(used) {
				t.Fatal("a session that is used has ended")
			}
		}
		if alive(idle) {
			t.Error("a session that nobody used lives")
		}
		time.Sleep(api.SessionIdle - time.Minute)
		if alive(used) {
			t.Error("a session lives for ever")
		}
		_, old := login(t, h, goodToken, "")
		token = "another-" + goodToken
		if alive(old) {
			t.Error("a session outlives its token")
		}
		_, first := login(t, h, token, "")
		time.Sleep(time.Second)
		_, second := login(t, h, token, "")
		time.Sleep(time.Second)
		for range api.MaxSessions - 1 {
			login(t, h, token, "")
		}
		if alive(first) || !alive(second) {
			t.Errorf("of too many sessions the first lives: %t, the second: %t", alive(first), alive(second))
		}
	})
}

// Without a token everybody is the operator, and there is nothing to log in to.
func TestWithoutAToken(t *testing.T) {
	cfg := bareConfig()
	cfg.Service, cfg.Pages = newFakeService(), pages
	h := api.Handler(cfg)
	for line, want := range map[string]int{
		"GET /": 200, "GET /metrics": 200, "GET /api/v1/version": 200, "GET /login": 303,
		"POST /login": 303, "POST /logout": 303,
	} {
		if rec := visit(t, h, line, ""); rec.Code != want {
			t.Errorf("%s: %d; want %d", line, rec.Code, want)
		}
	}
	if cfg.Auth.LoggedIn(httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)) {
		t.Error("somebody is logged in")
	}
}
