package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"testing"
)

// Secrets that must never show. Each has a mark of its own, which no escaping changes.
const (
	canarySecret     = "c4nary-5ecret-of-a-subscriber"
	canaryCapability = "c4nary-capability-in-a-callback"
	canaryPassword   = "c4nary-pa55word-of-redis"
	canaryToken      = "c4nary-t0ken-that-nobody-has"
)

// canaryFixture is a hub among callbacks and topics that behave badly. It keeps everything
// that comes out of the hub.
type canaryFixture struct {
	*httptest.Server
	hub   string
	token string // of a registered Source

	mu    sync.Mutex
	shown []shown
	asked map[string]int // requests of the hub, by method and path
}

// shown is something that came out of the hub, and where.
type shown struct{ where, text string }

func newCanaryFixture(t *testing.T, hub string) *canaryFixture {
	w := &canaryFixture{hub: hub, asked: map[string]int{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *canaryFixture) keep(where, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = append(w.shown, shown{where, text})
}

func (w *canaryFixture) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[what]
}

// callback is the address of a callback that does as its name says. Every server that knows it can
// post to it.
func (w *canaryFixture) callback(name string) string {
	return w.URL + "/callback/" + name + "/" + canaryCapability + "?key=" + canaryCapability
}

func (w *canaryFixture) topic(name string) string { return w.URL + "/topic/" + name }

// ServeHTTP is every callback and topic. It removes a callback's own address from a request before it
// keeps that: no other server may get the address.
func (w *canaryFixture) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	dump, _ := httputil.DumpRequest(r, true) // the server has read it
	text := strings.ReplaceAll(string(dump), "/"+canaryCapability+"?key="+canaryCapability, "")
	if r.Method == http.MethodGet {
		text = strings.ReplaceAll(text, "&hub.verify_token="+canarySecret, "") // sent back to the callback
	}
	w.keep("a request of the hub to "+r.URL.Path, text)
	part := strings.Split(r.URL.Path, "/")
	w.mu.Lock()
	w.asked[r.Method+" "+part[1]+"/"+part[2]]++
	w.mu.Unlock()
	switch {
	case part[1] == "topic" && part[2] == "of-another-hub":
		out.Header().Set("Link", `<`+w.topic(part[2])+`>; rel="self", <http://other.example/>; rel="hub"`)
	case part[1] == "topic":
		out.Header().Set("Link", `<`+w.topic(part[2])+`>; rel="self", <`+w.hub+`>; rel="hub"`)
		_, _ = io.WriteString(out, "content")
	case r.Method == http.MethodGet:
		w.confirm(out, r, part[2])
	default:
		w.accept(out, r, part[2])
	}
}

func (w *canaryFixture) confirm(out http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "refuses":
		http.Error(out, canaryCapability+canarySecret, http.StatusNotFound)
	case "garbles-challenge":
		garbled(out, canaryCapability)
	default:
		_, _ = io.WriteString(out, r.URL.Query().Get("hub.challenge"))
	}
}

func (w *canaryFixture) accept(out http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "fails":
		out.Header().Set("X-Said", canarySecret)
		http.Error(out, canaryCapability+canarySecret, http.StatusInternalServerError)
	case "redirects":
		http.Redirect(out, r, "/callback/elsewhere/"+canaryCapability, http.StatusFound)
	case "resets":
		panic(http.ErrAbortHandler)
	case "garbles":
		garbled(out, canaryCapability+canarySecret)
	case "gone":
		out.WriteHeader(http.StatusGone)
	}
}

// garbled answers with what is no HTTP.
func garbled(out http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(out).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n%s\r\n\r\n", text, text)
}

// post sends a request to the hub and keeps what it answers.
func (w *canaryFixture) post(t *testing.T, query, contentType, body string, header ...string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.hub+query, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	dump, err := httputil.DumpResponse(resp, true)
	if err != nil {
		t.Fatal(err)
	}
	w.keep("an answer of the hub", string(dump))
	return resp.StatusCode
}

// look keeps what the listeners of the hub show.
func (w *canaryFixture) look(p *process) {
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/"} {
		_, body := look(p.ready["admin"], path)
		w.keep("the operator's "+path, body)
	}
	_, body, err := answer(http.Get(w.hub))
	w.keep("the page", fmt.Sprint(body, err))
}

// command runs a command of the program and keeps what it prints.
func (w *canaryFixture) command(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	w.keep("stderr of "+strings.Join(args, " "), errs.String())
	return out.String(), code
}

// check looks for what must not show.
func (w *canaryFixture) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.shown {
		for _, canary := range []string{canarySecret, canaryCapability, canaryPassword, canaryToken, w.token} {
			if i := strings.Index(s.text, canary); i >= 0 {
				t.Errorf("%q is in %s: …%s…", canary, s.where, s.text[max(0, i-300):min(len(s.text), i+100)])
			}
		}
	}
	if len(w.shown) < 50 {
		t.Errorf("only %d things were looked at", len(w.shown))
	}
}

// privateFile writes a file that its owner alone can read.
func privateFile(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "private")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
