package page

import (
	"bytes"
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"carillon/operator/api"
)

// Pages serves the operator's page.
type Pages struct {
	*renderer
	handler http.Handler
}

// New returns the pages.
func New(cfg Config) *Pages {
	cfg.Every = cmp.Or(cfg.Every, 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pages{renderer: &renderer{cfg, readViews(), readAssets(), make(chan struct{}, maxStreams)}}
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(p.page(func(http.ResponseWriter, *http.Request) error {
		return &errorPage{
			Status: http.StatusForbidden, Title: "This was posted by a foreign page",
			Advice: "Nothing was changed. Do it from here, if you meant it.",
		}
	}))
	p.handler = own.Handler(p.routes())
	return p
}

func (p *Pages) routes() http.Handler {
	r := mux.NewRouter()
	get := func(at string, h handler) { r.Path(at).Methods(http.MethodGet, http.MethodHead).Handler(p.page(h)) }
	// change is a page with a form that posts to the page's own address.
	change := func(at string, h handler) {
		r.Path(at).Methods(http.MethodGet, http.MethodHead, http.MethodPost).Handler(p.page(h))
	}
	hub := &hubPages{renderer: p.renderer, desk: p.cfg.Service}
	get("/", hub.overview)
	get("/live", hub.live)
	get("/listen", hub.listen)
	get("/listen/live", hub.listenLive)
	get("/check", hub.check)
	get("/check/live", hub.checkLive)
	change("/log-level", hub.logLevel)
	topics := &topicPages{p.renderer, p.cfg.Service}
	get("/topics", topics.topics)
	get("/topic", topics.topic)
	change("/topic/trim", topics.trim)
	get("/notification", topics.notification)
	subs := &subscriptionPages{p.renderer, p.cfg.Service}
	get("/subscriptions", subs.subscriptions)
	get("/subscription/{id}", subs.of(subs.subscription))
	change("/subscription/{id}/retry", subs.of(subs.retry))
	change("/subscription/{id}/replay", subs.of(subs.replay))
	change("/subscription/{id}/remove", subs.of(subs.remove))
	sources := &sourcePages{p.renderer, p.cfg.Service}
	change("/sources", sources.sources)
	change("/sources/{name}/rotate", sources.of(sources.rotate))
	change("/sources/{name}/revoke", sources.of(sources.revoke))
	get("/find", p.find)
	get("/login", p.login)
	get("/static/{name}", p.static)
	r.NotFoundHandler = p.page(func(http.ResponseWriter, *http.Request) error {
		return &errorPage{
			Status: http.StatusNotFound, Title: "There is no such page",
			Advice: "The navigation above leads to all there are.",
		}
	})
	r.MethodNotAllowedHandler = p.page(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", "GET, HEAD")
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", "GET, HEAD, POST")
		}
		return &errorPage{
			Status: http.StatusMethodNotAllowed, Title: "This page takes no such request",
			Advice: "The navigation above leads to all there are.",
		}
	})
	return r
}

// ServeHTTP serves a page.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// find leads to the page of a text pasted into the box of every page.
func (p *Pages) find(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	if q == "" {
		return see(w, r, "/subscriptions")
	}
	if id, err := uuid.Parse(q); err == nil {
		if _, err := p.cfg.Service.Subscription(ctx, id); err == nil {
			return see(w, r, "/subscription/"+id.String())
		}
		return see(w, r, "/notification?id="+id.String())
	}
	if web(q) != "" {
		if _, err := p.cfg.Service.Topic(ctx, q); err == nil {
			return see(w, r, "/topic?topic="+url.QueryEscape(q))
		}
		return see(w, r, "/topics?contains="+url.QueryEscape(q))
	}
	return see(w, r, "/subscriptions?contains="+url.QueryEscape(q))
}

// login shows the form to sign in by. Where to go next is a path of this listener only.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	body := struct{ Next string }{api.OwnPath(q.Get("next"))}
	s := sheet{Title: "Sign in", Body: body}
	// The status is for admin to say, which shows this page.
	switch q.Get("failed") {
	case "":
	case "pace":
		s.Error = &errorPage{
			Status: http.StatusOK, Title: "Too many wrong tokens were sent from your address",
			Advice: "That was not the right one either. It is in the file that --admin-token-file names, and is taken at any time.",
		}
	default:
		s.Error = &errorPage{
			Status: http.StatusOK, Title: "That is not the token of this hub",
			Advice: "It is in the file that --admin-token-file names, or in HUB_ADMIN_TOKEN of the hub's environment.",
		}
	}
	p.show(w, r, "login", s)
	return nil
}

func (p *renderer) static(w http.ResponseWriter, r *http.Request) error {
	a, ok := p.assets[mux.Vars(r)["name"]]
	if !ok {
		return &errorPage{Status: http.StatusNotFound, Title: "There is no such file"}
	}
	w.Header().Set("Content-Type", a.mimeType)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+a.etag+`"`)
	r.Header.Del("Range") // it is sent whole: thousands of small ranges would cost many times as much
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return nil
}
