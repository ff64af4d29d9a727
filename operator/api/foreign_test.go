package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"carillon/operator/api"
)

// A foreign page can link to a page here, and can make no other request. That holds also where the
// browser names only the origin (plain HTTP on a network).
func TestPagesOfOthersAskNothing(t *testing.T) {
	const elsewhere, here = "http://wiki.example", "http://hub.example:8081"
	embeds := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	links := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	frames := []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}
	origin := func(of string) []string { return []string{"Origin", of} }
	refers := func(of string) []string { return []string{"Referer", of + "/page"} }
	// Of a browser that says nothing: a page at another port of the host may see to that.
	session := []string{"Cookie", "carillon_session=x"}
	const version, profile = "/api/v1/version", "/debug/pprof/cmdline"
	cfg := bareConfig()
	cfg.Service, cfg.Pages, cfg.Profiles = newFakeService(), pages, true
	h := api.Handler(cfg)
	for _, test := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/topics", embeds, 403},
		{"/metrics", embeds, 403},
		{profile, embeds, 403},
		{version, embeds, 403},
		{"/healthz", embeds, 200},
		{"/readyz", embeds, 200},
		{"/static/page.css", embeds, 200},
		{"/topics", frames, 403},
		{"/metrics", frames, 403},
		{"/topics", links, 200},
		{"/metrics", links, 200},
		{profile, links, 403},
		{version, links, 403},
		{"/topics", origin(elsewhere), 403},
		{"/metrics", origin("null"), 403},
		{version, origin(elsewhere), 403},
		{profile, origin(elsewhere), 403},
		{"/topics", origin(here), 200},
		{version, origin(here), 200},
		{profile, origin(here), 404},
		{"/topics", refers(elsewhere), 200},
		{version, refers(elsewhere), 403},
		{profile, refers(elsewhere), 403},
		{version, refers(here), 200},
		{"/topics", nil, 200},
		{version, nil, 200},
		{profile, nil, 404},
		{version, []string{"Sec-Fetch-Site", "none"}, 200},
		{version, session, 403},
		{profile, session, 403},
		{"/topics", session, 200},
		{version, append(refers(here), session...), 200},
		{version, append(refers(elsewhere), session...), 403},
		{version, append([]string{"Authorization", "Bearer x"}, session...), 200},
		{version, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://name.before.a.proxy"}, 200},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, here+test.path, nil)
		for i := 0; i < len(test.header); i += 2 {
			req.Header.Set(test.header[i], test.header[i+1])
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if rec.Code != test.want {
			t.Errorf("%s with %v: %d; want %d", test.path, test.header, rec.Code, test.want)
		}
	}
}
