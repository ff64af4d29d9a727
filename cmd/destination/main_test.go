package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// site is a topic and its hub over real HTTP. The hub verifies each request and reports it to the
// test.
type site struct {
	*httptest.Server
	asked chan url.Values // verified requests
	t     *testing.T
	wg    sync.WaitGroup
}

func newSite(t *testing.T) *site {
	s := &site{asked: make(chan url.Values, 10), t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/set/change/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Link", fmt.Sprintf("<%s>; rel=\"self\", <%s/websub/>; rel=\"hub\"", s.topic(), s.URL))
	})
	mux.HandleFunc("POST /websub/", s.hub)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() { s.wg.Wait(); s.Close() })
	return s
}

func (s *site) topic() string { return s.URL + "/set/change/" }

// hub accepts and then verifies, as WebSub §5.1.2 wants it: after the answer.
func (s *site) hub(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.t.Error(err)
	}
	w.WriteHeader(http.StatusAccepted)
	form := r.PostForm
	s.wg.Go(func() {
		const challenge = "a-challenge"
		q := url.Values{
			"hub.mode": {form.Get("hub.mode")}, "hub.topic": {form.Get("hub.topic")},
			"hub.challenge": {challenge}, "hub.lease_seconds": {"3600"},
		}
		resp, err := http.Get(form.Get("hub.callback") + "?" + q.Encode())
		if err != nil {
			s.t.Errorf("verifying: %v", err)
			return
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(body) != challenge {
			s.t.Errorf("the verification is answered %s %q", resp.Status, body)
		}
		s.asked <- form
	})
}

func (s *site) deliver(to url.Values, id, body string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, to.Get("hub.callback"), strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	mac := hmac.New(sha256.New, []byte(to.Get("hub.secret")))
	_, _ = io.WriteString(mac, body)
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set("X-Hub-Notification-Id", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		s.t.Errorf("the delivery is answered %s", resp.Status)
	}
}

const notification = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-02T03:04:00Z" until="2026-01-02T03:05:00Z"/>
<url><loc>http://example.com/res1</loc><rs:md change="created" datetime="2026-01-02T03:04:05.123456Z" length="8876" type="application/pdf"/></url>
</urlset>`

// process is the command, run in this process.
type process struct {
	t      *testing.T
	lines  *bufio.Scanner
	logs   logBuffer
	stop   context.CancelFunc
	status chan int
}

// logBuffer is a bytes.Buffer for the program and for the commands that it runs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, args ...string) *process {
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	p := &process{t: t, lines: bufio.NewScanner(out), stop: stop, status: make(chan int, 1)}
	go func() {
		status := run(ctx, args, in, &p.logs)
		in.Close()
		p.status <- status
	}()
	return p
}

func (p *process) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no further line; status %d, stderr:\n%s", <-p.status, p.logs.String())
	}
	return p.lines.Text()
}

// end stops the command, and returns its status when it has printed nothing more.
func (p *process) end() int {
	p.t.Helper()
	p.stop()
	for p.lines.Scan() {
		p.t.Errorf("a further line: %s", p.lines.Text())
	}
	return <-p.status
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	args := []string{"--topic", s.topic(), "--listen", "127.0.0.1:0", "--data", t.TempDir()}

	p := start(t, args...)
	ready := p.line()
	var address, base string
	if _, err := fmt.Sscanf(ready, "destination ready listen=%s url=%s", &address, &base); err != nil || base != "http://"+address+"/" {
		t.Fatalf("the first line is %q: %v", ready, err)
	}
	if _, _, err := net.SplitHostPort(address); err != nil || strings.HasSuffix(address, ":0") {
		t.Errorf("listen=%s is not where it listens", address)
	}
	sub := <-s.asked
	if !strings.HasPrefix(sub.Get("hub.callback"), base) {
		t.Errorf("the callback %s is not under %s", sub.Get("hub.callback"), base)
	}
	go s.deliver(sub, "n1", notification)
	if got, want := p.line(), "2026-01-02T03:04:05.123456Z created http://example.com/res1 length=8876 type=application/pdf"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	s.deliver(sub, "n1", notification)
	if status := p.end(); status != 0 {
		t.Errorf("status %d after a stop:\n%s", status, p.logs.String())
	}
	unsub := <-s.asked
	if unsub.Get("hub.mode") != "unsubscribe" || unsub.Get("hub.callback") != sub.Get("hub.callback") {
		t.Errorf("at the stop the hub was asked %v", unsub)
	}

	// The data directory knows what was printed; NDJSON has objects only.
	p = start(t, append(args, "--json")...)
	var first struct{ Ready, Listen, URL string }
	if err := json.Unmarshal([]byte(p.line()), &first); err != nil || first.Ready != "destination" || first.Listen == "" || first.URL == "" {
		t.Errorf("the ready line is %+v: %v", first, err)
	}
	sub = <-s.asked
	s.deliver(sub, "n1", notification)
	go s.deliver(sub, "n2", strings.NewReplacer("03:05:00Z", "03:06:00Z", "03:04:0", "03:05:0").Replace(notification))
	var change struct{ Loc, Change, Datetime, Topic, Notification string }
	if err := json.Unmarshal([]byte(p.line()), &change); err != nil || change.Notification != "n2" ||
		change.Topic != s.topic() || change.Loc != "http://example.com/res1" || change.Change != "created" {
		t.Errorf("the change is %+v: %v", change, err)
	}
	if status := p.end(); status != 0 {
		t.Errorf("status %d after a stop:\n%s", status, p.logs.String())
	}
	<-s.asked
	if strings.Contains(p.logs.String(), "gap") {
		t.Errorf("a gap where there is none:\n%s", p.logs.String())
	}
}

// TestDenied: the hub says no, and that is the end, with its reason.
func TestDenied(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	mux.HandleFunc("/topic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</hub>; rel=hub")
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	mux.HandleFunc("/hub", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form := r.PostForm
		w.WriteHeader(http.StatusAccepted)
		wg.Go(func() {
			q := url.Values{"hub.mode": {"denied"}, "hub.topic": {form.Get("hub.topic")}, "hub.reason": {"closed on Sundays"}}
			if resp, err := http.Get(form.Get("hub.callback") + "?" + q.Encode()); err == nil {
				resp.Body.Close()
			}
		})
	})
	p := start(t, "--topic", srv.URL+"/topic", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	p.line()
	if status := <-p.status; status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	p.stop()
	if got := p.logs.String(); !strings.Contains(got, "destination: the hub denied the subscription to "+srv.URL+"/topic: closed on Sundays\n") {
		t.Errorf("stderr: %s", got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const topic = "http://127.0.0.1:1/"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no topic":         {nil, "--topic"},
		"unknown flag":     {[]string{"--topic", topic, "--tpoic", topic}, "--tpoic"},
		"bad topic":        {[]string{"--topic", "source.example"}, "--topic: "},
		"bad URL":          {[]string{"--topic", topic, "--url", "ftp://x/"}, "--url: "},
		"bad lease":        {[]string{"--topic", topic, "--lease", "soon"}, "--lease"},
		"fractional lease": {[]string{"--topic", topic, "--lease", "1500ms"}, "--lease: "},
		"address in use":   {[]string{"--topic", topic, "--listen", taken.Addr().String()}, "--listen " + taken.Addr().String()},
		"data is a file":   {[]string{"--topic", topic, "--data", file}, file},
	} {
		t.Run(name, func(t *testing.T) {
			var out, logs bytes.Buffer
			args := append([]string{"--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")}, tt.args...)
			status := run(t.Context(), args, &out, &logs)
			got := logs.String()
			if status == 0 || out.Len() != 0 || !strings.HasPrefix(got, "destination: ") || !strings.Contains(got, tt.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("status %d, stdout %q, stderr %q; want one line on stderr with %q", status, out.String(), got, tt.want)
			}
		})
	}
}
