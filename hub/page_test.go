package hub_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func (w *town) get(t *testing.T, method, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, w.hubURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return do(t, req)
}

func TestPageForWhom(t *testing.T) {
	w := newTown(t, nil)
	for accept, want := range map[string]string{
		"":    "text/plain",
		"*/*": "text/plain", // curl
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "text/html", // a browser
		"text/plain":                   "text/plain",
		"text/plain, text/html;q=0.5":  "text/plain",
		"text/html;q=0":                "text/plain",
		"TEXT/HTML ; q=0.1":            "text/html",
		"application/json, text/*;q=1": "text/plain",
	} {
		status, header, body := w.get(t, http.MethodGet, accept)
		if status != 200 || header.Get("Content-Type") != want+"; charset=utf-8" || !strings.Contains(body, w.hubURL) {
			t.Errorf("Accept %q: %d %v", accept, status, header)
		}
		_, head, none := w.get(t, http.MethodHead, accept)
		if none != "" || head.Get("Content-Length") != header.Get("Content-Length") {
			t.Errorf("HEAD, Accept %q: %v, %q", accept, head, none)
		}
		if header.Get("Vary") != "Accept" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept %q: %v", accept, header)
		}
	}
}

// TestPageAlone: the page loads nothing, and its policy allows its style.
func TestPageAlone(t *testing.T) {
	w := newTown(t, nil)
	_, header, body := w.get(t, http.MethodGet, "text/html")
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(body)
	if style == nil || strings.Contains(style[1], "ZgotmplZ") {
		t.Fatal("no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") ||
		!strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
		t.Errorf("policy %q", policy)
	}
	if found := regexp.MustCompile(`(?i)<script|<img|<iframe|stylesheet|url\(|@import| style=`).FindString(body); found != "" {
		t.Errorf("the page has %q", found)
	}
}

// TestPageCommands: every command on both pages gives the answer that it promises,
// run as it stands.
func TestPageCommands(t *testing.T) {
	w := newTown(t, nil)
	for _, accept := range []string{"text/html", "text/plain"} {
		_, _, body := w.get(t, http.MethodGet, accept)
		if accept == "text/html" {
			body = html.UnescapeString(regexp.MustCompile(`</?code>|</?pre[^>]*>`).ReplaceAllString(body, "\n"))
		}
		var got []int
		for _, command := range commands(body) {
			status, _, answer := runCurl(t, command)
			if status >= 300 {
				t.Errorf("%s: %d %s", command, status, answer)
			}
			got = append(got, status)
		}
		if len(got) != 3 || got[0] != 202 || got[1] != 200 || got[2] != 204 {
			t.Errorf("%s: answers %v", accept, got)
		}
	}
	if wish := w.requests.last(t); wish.Topic != w.hubURL || wish.Callback != "https://example.com/callback" {
		t.Errorf("%#v", wish)
	}
	if p := w.publisher.all()[0]; p.Topic.String() != w.hubURL || string(p.Body) != "Hello, town!" {
		t.Errorf("%#v", p)
	}
}

// commands finds the curl commands of a page, each as the words a shell makes of it.
func commands(page string) [][]string {
	var all [][]string
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(strings.TrimSpace(lines[i]), "curl ") {
			continue
		}
		command := ""
		for ; strings.HasSuffix(lines[i], `\`); i++ {
			command += strings.TrimSuffix(lines[i], `\`)
		}
		var words []string
		for _, m := range regexp.MustCompile(`'([^']*)'|([^\s']+)('([^']*)')?`).FindAllStringSubmatch(command+lines[i], -1) {
			words = append(words, m[1]+m[2]+m[4])
		}
		all = append(all, words)
	}
	return all
}

// runCurl does what curl does with the words.
func runCurl(t *testing.T, words []string) (int, http.Header, string) {
	t.Helper()
	var address, body, contentType string
	header := http.Header{}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-i":
		case "-d", "--data-urlencode":
			name, value, _ := strings.Cut(words[i+1], "=")
			if body += "&" + name + "=" + value; words[i] != "-d" {
				body = strings.TrimSuffix(body, "&"+name+"="+value) + "&" + form(name, value)
			}
			contentType = formType
			i++
		case "-H":
			name, value, _ := strings.Cut(words[i+1], ": ")
			header.Add(name, value)
			i++
		case "--data-binary":
			body = words[i+1]
			i++
		default:
			address = words[i]
		}
	}
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(strings.TrimPrefix(body, "&")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	return do(t, req)
}
