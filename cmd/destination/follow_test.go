package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/destination/follow"
	"carillon/payload"
)

// archive is a site that has Change Lists too.
type archive struct {
	*site
	mu   sync.Mutex
	next time.Time
	urls []string // guarded by mu: the entries of its Change List
}

func newArchive(t *testing.T) *archive {
	a := &archive{site: newSite(t), next: time.Now().Add(-time.Hour).UTC().Truncate(time.Second)}
	begin := a.next
	mux := http.NewServeMux()
	inner := a.Config.Handler
	mux.Handle("/websub/", inner)
	document := func(path, capability, more string, body func() string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href=%q/><rs:md capability=%q %s/>%s</urlset>`, a.URL+"/caps.xml", capability, more, body())
		})
	}
	mux.HandleFunc("/set/change/", func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r) // it writes no body
		w.Header().Add("Link", "<"+a.URL+"/caps.xml>; rel=resourcesync")
	})
	document("/caps.xml", "capabilitylist", "", func() string {
		return fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="changelist"/></url><url><loc>%s</loc><rs:md capability="change-notification"/></url>
<url><loc>%s</loc><rs:md capability="resourcelist"/></url>`, a.URL+"/changes.xml", a.topic(), a.URL+"/resources.xml")
	})
	document("/changes.xml", "changelist", fmt.Sprintf("from=%q", payload.FormatDatetime(begin)), func() string {
		a.mu.Lock()
		defer a.mu.Unlock()
		return strings.Join(a.urls, "")
	})
	document("/resources.xml", "resourcelist", fmt.Sprintf("at=%q", payload.FormatDatetime(begin)), func() string {
		return `<url><loc>http://example.com/old</loc></url>`
	})
	a.Config.Handler = mux
	return a
}

// publish makes a change, and returns the notification of it.
func (a *archive) publish() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := a.next
	a.next = a.next.Add(time.Second)
	url := fmt.Sprintf(
		`<url><loc>http://example.com/%d</loc><rs:md change="updated" datetime=%q/></url>`,
		len(a.urls), payload.FormatDatetime(from.Add(time.Millisecond)),
	)
	a.urls = append(a.urls, url)
	return fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from=%q until=%q/>%s</urlset>`, payload.FormatDatetime(from), payload.FormatDatetime(a.next), url)
}

// changeLine is a line of --ndjson.
type changeLine struct{ Ready, Loc, Change, Key, Via, Topic string }

func (p *process) change() (c changeLine) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.line()), &c); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// wantChanges reads changes that came by a way, and nothing else.
func (p *process) wantChanges(via follow.Via, from, until int) {
	p.t.Helper()
	for i := from; i < until; i++ {
		if c := p.change(); c.Loc != fmt.Sprintf("http://example.com/%d", i) || c.Via != string(via) || c.Key == "" || c.Topic == "" {
			p.t.Errorf("change %d is %+v", i, c)
		}
	}
}

// A Destination that was away: its subscription stays, what it missed is read from the
// Change List, and push goes on.
func TestFollow(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	args := []string{
		"follow", "--topic", a.topic(), "--listen", "127.0.0.1:0", "--data", t.TempDir(),
		"--settle", "1ms", "--start", payload.FormatDatetime(a.next),
	}
	p := start(t, args...)
	if c := p.change(); c.Ready != name {
		t.Fatalf("the first line is %+v", c)
	}
	sub := <-a.asked
	a.deliver(sub, "n0", a.publish())
	if c := p.change(); c.Loc != "http://example.com/0" { // by push, or by the first look at the list
		t.Errorf("the first change is %+v", c)
	}
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, &p.logs)
	}
	if len(a.asked) > 0 {
		t.Errorf("at the stop the hub was asked %v", <-a.asked)
	}
	for range 10 {
		a.publish()
	}
	p = start(t, args...)
	p.line()
	p.wantChanges(follow.ChangeList, 1, 11)
	sub = <-a.asked
	a.deliver(sub, "n11", a.publish())
	if c := p.change(); c.Loc != "http://example.com/11" { // the list does not tell where it ends
		t.Errorf("change 11 is %+v", c)
	}
	a.deliver(sub, "n12", a.publish())
	p.change()
	a.publish() // lost
	a.deliver(sub, "n14", a.publish())
	p.wantChanges(follow.ChangeList, 13, 14)
	p.wantChanges(follow.Push, 14, 15)
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}

	// The directory is of this topic, and of one process.
	p = start(t, "follow", "--source", a.URL+"/changes.xml", "--topic", "http://127.0.0.1:1/", "--listen", "127.0.0.1:0", "--data", args[6])
	if status := <-p.status; status != 1 || !strings.Contains(p.logs.String(), "it belongs to") {
		t.Errorf("with another topic: status %d: %s", status, &p.logs)
	}
}

// A change that is kept nowhere any more ends the program, which names the gap.
func TestFollowGap(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	p := start(
		t, "follow", "--topic", a.topic(), "--changelist", "none", "--listen", "127.0.0.1:0",
		"--data", t.TempDir(), "--settle", "1ms", "--unsubscribe",
	)
	p.line()
	sub := <-a.asked
	a.deliver(sub, "n0", a.publish())
	p.wantChanges(follow.Push, 0, 1)
	a.publish()
	a.deliver(sub, "n2", a.publish())
	if unsub := <-a.asked; unsub.Get("hub.mode") != "unsubscribe" {
		t.Errorf("the hub is asked %v", unsub)
	}
	if status := p.end(); status != 1 || !strings.Contains(p.logs.String(), "changes are missing") {
		t.Errorf("status %d: %s", status, &p.logs)
	}
}

// A Source that is found from its site, without a hub that could be asked: the state first,
// then its Change List; each by a command that fails at first.
func TestFollowExec(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for range 3 {
		a.publish()
	}
	dir := t.TempDir()
	out, tried := filepath.Join(dir, "out"), filepath.Join(dir, "tried")
	command := fmt.Sprintf(
		`test -e %s || { touch %s; exit 1; }; read -r line; echo "$CARILLON_CHANGE $CARILLON_VIA $CARILLON_LOC" >>%s; echo "$line"`,
		tried, tried, out,
	)
	p := start(
		t, "follow", "--source", a.URL+"/caps.xml", "--listen", "127.0.0.1:0", "--data",
		filepath.Join(dir, "data"), "--start", "baseline", "--exec", command,
	)
	if ready := p.line(); !strings.HasPrefix(ready, "destination ready listen=127.0.0.1:") {
		t.Errorf("the ready line is %q", ready)
	}
	if c := p.change(); c.Loc != "http://example.com/old" || c.Via != "resourcelist" {
		t.Errorf("the first change is %+v", c)
	}
	p.wantChanges(follow.ChangeList, 0, 3)
	<-a.asked
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
	got, err := os.ReadFile(out)
	if want := "created resourcelist http://example.com/old\nupdated changelist http://example.com/0\nupdated changelist http://example.com/1\nupdated changelist http://example.com/2\n"; err != nil || string(got) != want {
		t.Errorf("the commands wrote %q, %v", got, err)
	}
	if !strings.Contains(p.logs.String(), "--exec: exit status 1") {
		t.Errorf("the failure is not told: %s", &p.logs)
	}
}

// A command that takes too long is ended, with what it started; one that is running when the
// program stops may finish.
func TestExecBounds(t *testing.T) {
	change := []follow.Change{{Entry: payload.Entry{Loc: "http://example.com/" + strings.Repeat("x", maxVariable)}, Key: "k"}}
	logger := slog.New(slog.DiscardHandler)
	r := &runner{command: "sleep 1000", timeout: 10 * time.Millisecond, stdout: io.Discard, stderr: io.Discard, logger: logger}
	if done, err := r.Handle(t.Context(), change); done != 0 || err == nil || !strings.Contains(err.Error(), "longer than 10ms") {
		t.Errorf("done %d: %v", done, err)
	}
	// The pipe ends when the last holder has closed it.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r = &runner{
		command: "sleep 1000 & echo started >&2; sleep 1000", timeout: time.Minute,
		stop: time.Nanosecond, kill: 100 * time.Millisecond, stdout: write,
		stderr: &stopper{io.Discard, cancel}, logger: logger,
	}
	if done, err := r.Handle(ctx, change); done != 0 || err == nil {
		t.Errorf("done %d: %v", done, err)
	}
	write.Close()
	if left, err := io.ReadAll(read); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	t.Setenv("CARILLON_LOC", "of another")
	var out bytes.Buffer
	ctx, cancel = context.WithCancel(t.Context())
	r = &runner{
		command: `echo "$CARILLON_KEY${CARILLON_LOC-unset}"`, timeout: time.Minute,
		stdout: &stopper{&out, cancel}, stderr: io.Discard, logger: logger,
	}
	if done, err := r.Handle(ctx, append(change, change...)); done != 1 || !errors.Is(err, context.Canceled) || out.String() != "kunset\n" {
		t.Errorf("done %d: %v; %q", done, err, &out)
	}
}

// stopper stops the program when something is written.
type stopper struct {
	io.Writer
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) { s.stop(); return s.Writer.Write(p) }

// Lines are whole, also where writing breaks off within one.
func TestLines(t *testing.T) {
	t.Parallel()
	var changes []follow.Change
	for i := range 5 {
		changes = append(
			changes,
			follow.Change{
				Entry: payload.Entry{Loc: fmt.Sprintf("http://example.com/%d", i), Change: payload.Deleted},
				Key:   fmt.Sprint("k", i), Via: follow.Push, Notification: "n",
			},
		)
	}
	var whole bytes.Buffer
	if n, err := (&lines{w: &whole, topic: "t"}).Handle(t.Context(), changes); n != len(changes) || err != nil {
		t.Fatal(n, err)
	}
	if first, _, _ := strings.Cut(whole.String(), "\n"); first != `{"loc":"http://example.com/0","change":"deleted","topic":"t","notification":"n","key":"k0","via":"push"}` {
		t.Errorf("a line is %s", first)
	}
	for _, room := range []int{1, 7, 100, 150, 400} {
		w := &narrow{room: room}
		l, left := &lines{w: w, topic: "t"}, slices.Clone(changes)
		for range 1000 {
			n, err := l.Handle(t.Context(), left)
			if left = left[n:]; len(left) == 0 {
				break
			}
			if err == nil {
				t.Fatal("nothing was said")
			}
		}
		if w.String() != whole.String() {
			t.Errorf("by %d bytes at a time: %q", room, w)
		}
	}
}

// narrow takes so many bytes at a time.
type narrow struct {
	bytes.Buffer
	room int
}

func (n *narrow) Write(p []byte) (int, error) {
	if len(p) <= n.room {
		return n.Buffer.Write(p)
	}
	_, _ = n.Buffer.Write(p[:n.room])
	return n.room, io.ErrShortWrite
}

func TestFollowRefusals(t *testing.T) {
	t.Parallel()
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	const topic = "http://127.0.0.1:1/"
	for want, args := range map[string][]string{
		"--topic or --source":         {},
		"is not an absolute http":     {"--source", "x"},
		"--topic: ":                   {"--topic", "ftp://x/"},
		"--change-memory: ":           {"--topic", topic, "--change-memory", "yes"},
		"--changelist: ":              {"--topic", topic, "--changelist", "ftp://x/"},
		"--start: \"soon\"":           {"--topic", topic, "--start", "soon"},
		"lies in the future":          {"--topic", topic, "--start", "2999-01-01"},
		"choose one":                  {"--topic", topic, "--exec", "true", "--ndjson"},
		"--on-gap baseline needs":     {"--topic", topic, "--on-gap", "baseline"},
		"--on-gap must be one of":     {"--topic", topic, "--on-gap", "cry"},
		"--poll must be over 0":       {"--topic", topic, "--poll", "0s"},
		"--trust-host: ":              {"--topic", topic, "--trust-host", "a b"},
		"--source: ":                  {"--source", nothing.URL},
		"--lease: must be whole":      {"--topic", topic, "--lease", "1500ms"},
		"--url: must not have a quer": {"--topic", topic, "--url", "http://a.test/?x"},
	} {
		t.Run(want, func(t *testing.T) {
			var out, logs bytes.Buffer
			args := append([]string{"follow", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")}, args...)
			status := run(t.Context(), args, &out, &logs)
			got := logs.String()
			if i := strings.LastIndex(strings.TrimSpace(got), "\n"); i >= 0 {
				got = got[i+1:] // the earlier log lines
			}
			if status != 1 || out.Len() != 0 || !strings.HasPrefix(got, "destination: ") || !strings.Contains(got, want) {
				t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), logs.String())
			}
		})
	}
}
