package hub

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"strconv"
	"strings"
	texttemplate "text/template"

	"carillon/internal/weblink"
)

//go:embed page.html
var pageHTML string

//go:embed page.txt
var pageText string

// page is what a person finds at the hub URL. It is also a topic: it names this
// hub and itself, so that the commands it shows can be tried as they stand.
type page struct {
	html, text []byte
	policy     string // Content-Security-Policy of html
	link       string
}

// newPage writes the page once: it is the same for everybody.
func newPage(cfg Config, registered bool) (page, error) {
	p := page{link: weblink.Link{URI: cfg.URL, Rel: []string{relHub}}.String() + ", " +
		weblink.Link{URI: cfg.URL, Rel: []string{relSelf}}.String()}
	data := struct {
		URL, Arg, Link, MaxBody string
		Registered              bool // only registered Sources may publish
	}{
		URL:     cfg.URL,
		Arg:     shellQuote(cfg.URL),
		Link:    shellQuote("Link: " + p.link),
		MaxBody: strconv.FormatInt(cfg.MaxBody, 10), Registered: registered,
	}
	html, err := htmltemplate.New("page").Parse(pageHTML)
	if err != nil {
		return page{}, fmt.Errorf("HTML: %w", err)
	}
	text, err := texttemplate.New("page").Parse(pageText)
	if err != nil {
		return page{}, fmt.Errorf("text: %w", err)
	}
	var h, t bytes.Buffer
	if err := errors.Join(html.Execute(&h, data), text.Execute(&t, data)); err != nil {
		return page{}, err
	}
	p.html, p.text = h.Bytes(), t.Bytes()
	p.policy = contentSecurityPolicy(h.String())
	return p, nil
}

// contentSecurityPolicy allows the page its own style and nothing else.
func contentSecurityPolicy(html string) string {
	_, style, _ := strings.Cut(html, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// shellQuote writes s as one word of a shell's command line.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
