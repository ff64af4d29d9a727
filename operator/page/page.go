// Package page is the operator's page: what a Desk answers, as HTML that works without
// JavaScript and needs nothing from anywhere else.
//
//	/  /topics  /topic  /notification  /subscriptions  /subscription/{id}  /sources  /listen  /check
//	/find         what somebody pasted: an ID, a topic or a part of a name
//	/live         the parts of the overview that change, as server-sent events
//	/listen/live  what a test callback hears, likewise
//	/check/live   what a check finds, likewise
//	/log-level    takes the level of this process's log lines
//	/login        the form to sign in by; /static/ is for who has not
//
// Each change is a page that says what will happen, and whose form posts to its own
// address. Who is allowed to see a page is for package api to say (api.Auth), which also
// takes what /login posts, a token and where to go next, and what posts to /logout.
//
// What is shown is foreign text for the most part. It goes through html/template only, and
// a policy for the browser (CSP) lets nothing run or load that is not a file of this package.
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"carillon/internal/legible"
	"carillon/operator/api"
)

// Config is what the pages show.
type Config struct {
	// Desk answers.
	Desk api.Desk
	// Version is that of the program.
	Version string
	// Open tells that everybody may publish, registered or not.
	Open bool
	// Level is changed on the overview; nil: it cannot be.
	Level api.Level
	// Auth knows who has signed in; nil: nobody needs to.
	Auth *api.Auth
	// Every is how often live parts are looked at again; 0: 2 s.
	Every time.Duration
	// Stopping is closed when the hub ends: then live parts do; nil: never.
	Stopping <-chan struct{}
	// Logger takes errors that are ours.
	Logger *slog.Logger
}

// Limits of what one visitor may cost.
const (
	askWithin  = 20 * time.Second // one answer of the Desk
	maxForm    = 256 << 10        // what a form posts: a Source may have 100 prefixes
	maxStreams = 64               // live pages that are open at a time
)

//go:embed html static
var files embed.FS

// Pages serves the operator's page.
type Pages struct {
	cfg     Config
	views   map[string]*template.Template
	assets  map[string]asset
	streams chan struct{} // has an element for each that is open
	latest  latest
	handler http.Handler
}

// asset is a file that the pages name.
type asset struct {
	content  []byte
	mimeType string
	etag     string
}

// New returns the pages.
func New(cfg Config) *Pages {
	cfg.Every = cmp.Or(cfg.Every, 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pages{cfg: cfg, streams: make(chan struct{}, maxStreams)}
	p.views, p.assets = readViews(), readAssets()
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(p.page(func(http.ResponseWriter, *http.Request) error {
		return &trouble{Status: http.StatusForbidden, Title: "This was posted by a page of somebody else", Advice: "Nothing was changed. Do it from here, if you meant it."}
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
	get("/", p.overview)
	get("/find", p.find)
	get("/topics", p.topics)
	get("/topic", p.topic)
	change("/topic/trim", p.trim)
	get("/notification", p.notification)
	get("/subscriptions", p.subscriptions)
	get("/subscription/{id}", p.subscription)
	change("/subscription/{id}/retry", p.retry)
	change("/subscription/{id}/replay", p.replay)
	change("/subscription/{id}/remove", p.remove)
	change("/sources", p.sources)
	change("/sources/{name}/rotate", p.rotate)
	change("/sources/{name}/revoke", p.revoke)
	get("/listen", p.listen)
	get("/check", p.check)
	change("/log-level", p.logLevel)
	get("/login", p.login)
	get("/live", p.live)
	get("/listen/live", p.listenLive)
	get("/check/live", p.checkLive)
	get("/static/{name}", p.static)
	r.NotFoundHandler = p.page(func(http.ResponseWriter, *http.Request) error {
		return &trouble{Status: http.StatusNotFound, Title: "There is no such page", Advice: "The navigation above leads to all there are."}
	})
	r.MethodNotAllowedHandler = p.page(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", "GET, HEAD")
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", "GET, HEAD, POST")
		}
		return &trouble{Status: http.StatusMethodNotAllowed, Title: "This page takes no such request", Advice: "The navigation above leads to all there are."}
	})
	return r
}

// ServeHTTP serves a page.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// policy is what a browser may do with a page: show it, with the files of this package.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// handler writes a page, or returns why there is none.
type handler func(w http.ResponseWriter, r *http.Request) error

// page puts the headers of every answer on, bounds the question, and shows an error as a page.
func (p *Pages) page(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer the Origin of a form is null, where browsers send no Sec-Fetch-Site.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := h(w, r); err != nil && !errors.Is(err, errGone) {
			t := p.troubleOf(r, err)
			p.show(w, r, "trouble", sheet{Title: http.StatusText(t.Status), Error: t})
		}
	})
}

// ask bounds what a page asks of the Desk.
func ask(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), askWithin)
}

// sheet is a page as the layout shows it.
type sheet struct {
	Title string
	Here  string // the entry of the navigation that the page belongs to
	// Error is shown above the body, and its status is that of the answer; nil: all is well.
	Error *trouble
	Body  any
	// The rest is for show to say.
	Done    string // what was just done, in a sentence
	Version string
	SignOut bool
	Assets  map[string]asset
}

// show writes a page.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, view string, s sheet) {
	s.Version, s.SignOut, s.Assets = p.cfg.Version, p.cfg.Auth.LoggedIn(r), p.assets
	s.Done = doneText(r)
	status := http.StatusOK
	if s.Error != nil {
		s.Done, status = "", s.Error.Status
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "5")
		}
	}
	var page bytes.Buffer
	if err := p.views[view].ExecuteTemplate(&page, "layout", s); err != nil {
		p.cfg.Logger.Error("a page cannot be written", "view", view, "error", err)
		http.Error(w, "The page cannot be written; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(legible.HTML(page.Bytes())) // the client is gone
}

// readViews parses every view with the layout and the parts that views share.
func readViews() map[string]*template.Template {
	views := map[string]*template.Template{}
	entries, err := files.ReadDir("html")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		views[name] = template.Must(template.New(name).Funcs(functions).ParseFS(files, "html/layout.html", "html/parts.html", "html/"+e.Name()))
	}
	return views
}

// readAssets reads what is under /static/.
func readAssets() map[string]asset {
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	assets := map[string]asset{}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		content, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err) // likewise
		}
		sum := sha256.Sum256(content)
		assets[e.Name()] = asset{content, types[path.Ext(e.Name())], hex.EncodeToString(sum[:8])}
	}
	return assets
}

// URL is the address of an asset. It changes with the content, so that a browser keeps no
// other version's.
func (a asset) URL(name string) string { return "/static/" + name + "?v=" + a.etag }

// Asset is the address of an asset.
func (s sheet) Asset(name string) string { return s.Assets[name].URL(name) }

func (p *Pages) static(w http.ResponseWriter, r *http.Request) error {
	a, ok := p.assets[mux.Vars(r)["name"]]
	if !ok {
		return &trouble{Status: http.StatusNotFound, Title: "There is no such file"}
	}
	w.Header().Set("Content-Type", a.mimeType)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+a.etag+`"`)
	r.Header.Del("Range") // it is sent whole: thousands of small ranges would cost many times as much
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return nil
}

// login shows the form to sign in by. Where to go next is a path of this listener only.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	body := struct{ Next string }{ownPath(q.Get("next"))}
	s := sheet{Title: "Sign in", Body: body}
	// The status is for admin to say, which shows this page.
	switch q.Get("failed") {
	case "":
	case "pace":
		s.Error = &trouble{Status: http.StatusOK, Title: "Too many wrong tokens were sent from your address", Advice: "That was not the right one either. It is in the file that --admin-token-file names, and is taken at any time."}
	default:
		s.Error = &trouble{
			Status: http.StatusOK, Title: "That is not the token of this hub",
			Advice: "It is in the file that --admin-token-file names, or in HUB_ADMIN_TOKEN of the hub's environment.",
		}
	}
	p.show(w, r, "login", s)
	return nil
}

// ownPath returns next if it is a path of this listener, and else /.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\t\r\n") {
		return "/"
	}
	return next
}

// see sends the browser to another page, after a change: it may be loaded again.
func see(w http.ResponseWriter, r *http.Request, to string) error {
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// done is a path with a note of what was done, for doneText.
func done(to, what string) string {
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	return fmt.Sprintf("%s%sdone=%s", to, separator, what)
}
