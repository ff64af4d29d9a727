package hub_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/hub"
)

// TestExchanges plays the exchanges of testdata/exchanges against a real server,
// byte for byte. A file holds a comment (#) that gives the reason why, then parts, each
// begun by a line "--- request" or "--- response". {hub}, {topics} and {id}
// stand for the hub URL, the topic server and the id of a notification; with
// |escaped they are percent-encoded. Host and Content-Length are added to a
// request that has none. Of a response the status line, the header lines given,
// and the body must be equal; "Name: -" says that there is no such header.
func TestExchanges(t *testing.T) {
	files, err := filepath.Glob("../testdata/exchanges/*.http")
	if err != nil || len(files) < 15 {
		t.Fatalf("exchanges: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			w := newTown(t, func(c *hub.Config) { c.MaxBody = 2000 })
			for i, e := range readExchanges(t, file, w) {
				got, body := e.play(t, w)
				e.compare(t, i+1, got, body)
			}
		})
	}
}

type exchange struct{ request, response string }

// readExchanges reads a file and fills in the addresses.
func readExchanges(t *testing.T, file string, w *town) []exchange {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hubPath, _ := url.Parse(w.hubURL)
	text := strings.NewReplacer(
		"{hub}", w.hubURL, "{hub|escaped}", url.QueryEscape(w.hubURL), "{path}", hubPath.Path,
		"{topics}", w.topicURL, "{topics|escaped}", url.QueryEscape(w.topicURL), "{id}", theID.String(),
	).Replace(string(raw))
	var all []exchange
	for part := range strings.SplitSeq(text, "--- ") {
		kind, rest, _ := strings.Cut(part, "\n")
		switch {
		case kind == "request":
			all = append(all, exchange{request: rest})
		case kind == "response" && len(all) > 0:
			all[len(all)-1].response = rest
		case !strings.HasPrefix(part, "#"):
			t.Fatalf("%s: unexpected part %q", file, kind)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: no exchange", file)
	}
	return all
}

// play sends the request as it stands and returns the answer.
func (e exchange) play(t *testing.T, w *town) (*http.Response, string) {
	t.Helper()
	u, _ := url.Parse(w.hubURL)
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head, body, _ := strings.Cut(e.request, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	head = strings.ReplaceAll(strings.TrimSpace(head), "\n", "\r\n") + "\r\nHost: " + u.Host + "\r\nConnection: close"
	if strings.Contains(head, "Transfer-Encoding") {
		body = strings.ReplaceAll(body, "\n", "\r\n") + "\r\n\r\n"
	} else if !strings.Contains(head, "Content-Length") && !strings.HasPrefix(head, "GET") {
		head += fmt.Sprintf("\r\nContent-Length: %d", len(body))
	}
	if _, err := io.WriteString(conn, head+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(head, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, buf.String()
}

func (e exchange) compare(t *testing.T, number int, got *http.Response, body string) {
	t.Helper()
	head, wantBody, hasBody := strings.Cut(e.response, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	if got.Status != lines[0] {
		t.Errorf("exchange %d: status %q, want %q; body %q", number, got.Status, lines[0], body)
	}
	for _, line := range lines[1:] {
		name, want, _ := strings.Cut(line, ": ")
		have := strings.Join(got.Header.Values(name), ", ")
		if want == "-" {
			want = ""
		}
		if have != want {
			t.Errorf("exchange %d: %s: %q, want %q", number, name, have, want)
		}
	}
	if hasBody && strings.TrimSpace(body) != strings.TrimSpace(wantBody) {
		t.Errorf("exchange %d: body\n%q\nwant\n%q", number, body, strings.TrimSpace(wantBody))
	}
}
