// Package page is the operator's page: a Desk's answers, as HTML that works without JavaScript and
// needs nothing from anywhere else.
//
//	/  /topics  /topic  /notification  /subscriptions  /subscription/{id}  /sources  /listen  /check
//	/find         a pasted text: an ID, a topic or a part of a name
//	/live         the parts of the overview that change, as server-sent events
//	/listen/live  the notifications of a test callback, likewise
//	/check/live   the findings of a check, likewise
//	/log-level    takes the level of this process's log lines
//	/login        the form to sign in by; /static/ needs no session either
//
// Each change is a page that states the effect, and whose form posts to its own address. Package api
// (api.Auth) checks the clients of the pages. It also takes the posts to /login, a token and where to
// go next, and those to /logout.
//
// The pages show mostly foreign text. It goes through html/template only, and a policy for the browser
// (CSP) lets nothing run or load that is not a file of this package.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"carillon/internal/legible"
	"carillon/operator/api"
)

// Config is what the pages show.
type Config struct {
	// Desk answers.
	Service api.Service
	// Version is that of the program.
	Version string
	// Open reports that every client may publish, registered or not.
	Open bool
	// Level is changed on the overview; nil: it cannot be.
	Level api.Level
	// Auth knows the signed-in clients; nil: no sign-in is needed.
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

// renderer writes pages and live parts of them.
type renderer struct {
	cfg     Config
	views   map[string]*template.Template
	assets  map[string]asset
	streams chan struct{} // has an element for each that is open
}

// asset is a file that the pages name.
type asset struct {
	content  []byte
	mimeType string
	etag     string
}

// policy is what a browser may do with a page: show it, with the files of this package.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// handler writes a page, or returns an error in its place.
type handler func(w http.ResponseWriter, r *http.Request) error

// page puts the headers of every answer on, bounds the question, and shows an error as a page.
func (p *renderer) page(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer the Origin of a form is null, where browsers send no Sec-Fetch-Site.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := h(w, r); err != nil && !errors.Is(err, errGone) {
			t := p.errorPageFor(r, err)
			p.show(w, r, "error", sheet{Title: http.StatusText(t.Status), Error: t})
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
	Error *errorPage
	Body  any
	// The rest is for show to say.
	Done    string // the completed action, in a sentence
	Version string
	SignOut bool
	Assets  map[string]asset
}

// show writes a page.
func (p *renderer) show(w http.ResponseWriter, r *http.Request, view string, s sheet) {
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

// errorPageFor returns the error page of an error, nil without one. An unforeseen error goes to the
// log, and the page does not show it.
func (p *renderer) errorPageFor(r *http.Request, err error) *errorPage {
	if t := errorPageOf(err); t != nil || err == nil {
		return t
	}
	if r.Context().Err() == nil {
		p.cfg.Logger.Error("a page has no answer", "path", r.URL.Path, "error", err)
	}
	return &errorPage{
		Status: http.StatusInternalServerError, Title: "Something went wrong inside the hub",
		Advice: "The hub's log says what. Deliveries are not affected by this page.",
	}
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
		views[name] = template.Must(
			template.New(name).Funcs(functions).ParseFS(files, "html/layout.html", "html/parts.html", "html/"+e.Name()),
		)
	}
	return views
}

// readAssets reads what is under /static/.
func readAssets() map[string]asset {
	types := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
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

// errGone: no client is left to answer.
var errGone = errors.New("the client is gone, or has signed out")
