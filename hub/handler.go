package hub

import (
	"crypto/subtle"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"
)

// Handler serves the hub: its endpoint at the path of Config.URL, with a slash at
// the end and without, and 404 everywhere else.
func (h *Hub) Handler() http.Handler {
	// The path is matched as it was sent: cleaning it would answer a POST
	// with a redirect.
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	paths := endpointPaths(h.cfg.URL)
	for _, path := range paths {
		r.Path(path).Methods(http.MethodGet, http.MethodHead).Handler(h.handle(h.getPage))
		r.Path(path).Methods(http.MethodPost).Handler(h.handle(h.post))
		r.Path(path).Handler(h.handle(methodNotAllowed))
	}
	below := paths[len(paths)-1]
	if h.answers != nil {
		r.Path(below + answersPath + "{id}").Handler(h.handle(h.answers.get))
	}
	if h.parts.Memory != nil {
		r.Path(below + memoryPath).Handler(h.handle(h.memory.get))
	}
	r.Path(below + selfPath + "{nonce}").Methods(http.MethodGet).Handler(h.handle(h.getSelf))
	r.NotFoundHandler = h.handle(h.notFound)
	return postsFirst(paths, h.handle(h.post), r)
}

// postsFirst gives the POSTs at one of the paths to post without asking the router, which
// would give them to it too: publishing is what is done most often by far.
func postsFirst(paths []string, post, router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && slices.Contains(paths, r.URL.EscapedPath()) {
			post.ServeHTTP(w, r)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// errForeignPage refuses what a page of another origin has a visitor's browser send: the
// hub may be where only the visitor can reach it, and limits count his address.
var errForeignPage = refuse(
	http.StatusForbidden,
	"A web page of another origin may not have a visitor's browser send this. Send it from a server.",
)

// post decides by the media type what a POST means.
func (h *Hub) post(w http.ResponseWriter, r *http.Request) (string, error) {
	if h.closing.Load() {
		return kindOther, errClosing
	}
	if h.origin.Check(r) != nil {
		return kindOther, errForeignPage
	}
	media, params, err := mediaType(r.Header)
	if err != nil {
		return kindOther, err
	}
	if media == "application/x-www-form-urlencoded" {
		return h.form(w, r, params["charset"])
	}
	return kindPublish, h.publish(w, r, media)
}

// mediaType reads Content-Type, and refuses codings: the content itself is relayed, and signatures are
// made over it.
func mediaType(header http.Header) (media string, params map[string]string, err error) {
	values := header.Values("Content-Type")
	if len(values) != 1 {
		return "", nil, refuse(http.StatusUnsupportedMediaType,
			"Exactly one Content-Type is needed: application/x-www-form-urlencoded for hub.mode, or the media type of what is published.")
	}
	media, params, err = mime.ParseMediaType(values[0])
	if err != nil || !strings.Contains(media, "/") {
		return "", nil, refuse(http.StatusUnsupportedMediaType, "Content-Type is not a media type.")
	}
	for _, coding := range header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return "", nil, refuse(
				http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body without one.",
			)
		}
	}
	return media, params, nil
}

// getPage answers GET and HEAD: with HTML to those who ask for it by name, as
// browsers do, and else with text, as it suits a terminal.
func (h *Hub) getPage(w http.ResponseWriter, r *http.Request) (string, error) {
	header, body := w.Header(), h.page.text
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if acceptsHTML(r.Header.Values("Accept")) {
		body = h.page.html
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", h.page.policy)
		header.Set("Referrer-Policy", "no-referrer")
	}
	header.Set("Vary", "Accept")
	header.Set("Link", h.page.link)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
	return kindPage, nil
}

// acceptsHTML reports whether HTML is named and not ranked below plain text.
// Wildcards do not count.
func acceptsHTML(accept []string) bool {
	quality := map[string]float64{}
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, _ := strings.Cut(item, ";")
		q := 1.0
		for param := range strings.SplitSeq(params, ";") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(param), "q="); ok {
				q, _ = strconv.ParseFloat(value, 64)
			}
		}
		quality[strings.ToLower(strings.TrimSpace(name))] = q
	}
	html := max(quality["text/html"], quality["application/xhtml+xml"])
	return html > 0 && html >= quality["text/plain"]
}

func (h *Hub) getSelf(w http.ResponseWriter, r *http.Request) (string, error) {
	if subtle.ConstantTimeCompare([]byte(mux.Vars(r)["nonce"]), []byte(h.nonce)) != 1 {
		return h.notFound(w, r)
	}
	w.WriteHeader(http.StatusNoContent)
	return kindOther, nil
}
