package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/internal/together"
	"carillon/payload"
)

// asProgram in the environment makes the test binary be the program.
const asProgram = "NOTIFIER_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
	}
	together.Wait()
	os.Exit(m.Run())
}

// process is a notifier in a process of its own.
type process struct {
	cmd            *exec.Cmd
	listen, intake string
	ended          chan struct{}
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	p.cmd.Stderr = &stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	listen, rest, found := strings.Cut(ready, " intake=")
	if err != nil || !found {
		t.Fatalf("no ready line, but %q, %v; stderr: %s", ready, err, stderr.String())
	}
	p.intake, _, _ = strings.Cut(rest, " ")
	_, p.listen, _ = strings.Cut(listen, " listen=")
	go func() { _ = p.cmd.Wait(); close(p.ended) }() // killed: its status says nothing
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // SIGKILL; it may have ended
	<-p.ended
}

// moodyHub takes POSTs, or drops the connection before or after taking one, or
// answers 503.
type moodyHub struct {
	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool
	posts [][]byte // in the order of arrival, repeats included
	moods [4]int
	sent  int // events in the notifications that were answered with 200
}

func (h *moodyHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the notifier was killed while it sent
	}
	h.mu.Lock()
	mood := 3
	if !h.calm {
		mood = h.rng.IntN(6)
	}
	h.moods[min(mood, 3)]++
	h.posts = append(h.posts, body)
	if mood >= 3 {
		h.sent += bytes.Count(body, []byte("<url>"))
	}
	h.mu.Unlock()
	switch mood {
	case 0:
		panic(http.ErrAbortHandler) // taken or not: no answer either way
	case 1:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 2:
		// Taken, and the answer is cut off.
		w.Header().Set("Content-Length", "100")
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, "ok")
}

// TestKilledNotifier kills the program at random moments while events come in
// and the hub is moody, and holds what the hub got to the promise: every event
// that was answered with 202 exactly once over the chain of notifications, no
// gap, no overlap, and repeats byte for byte.
func TestKilledNotifier(t *testing.T) {
	t.Parallel()
	const kills, senders = 4, 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	hub := &moodyHub{rng: rand.New(rand.NewPCG(seed, 1))}
	server := httptest.NewServer(hub)
	defer server.Close()
	args := []string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--url", "http://source.example/", "--hub", server.URL,
		"--data", t.TempDir(), "--max-wait", "30ms", "--max-entries", "40", "--log-level", "error",
	}
	events := &senderLog{state: map[string]string{}}
	for round := range kills {
		p := startProcess(t, args...)
		ctx, cancel := context.WithCancel(t.Context())
		var g sync.WaitGroup
		for s := range senders {
			g.Go(func() { events.send(ctx, p.intake, fmt.Sprintf("%d-%d", round, s)) })
		}
		<-time.After(time.Duration(300+rng.IntN(900)) * time.Millisecond)
		p.kill()
		cancel()
		g.Wait()
	}
	hub.mu.Lock()
	hub.calm = true
	hub.mu.Unlock()
	drainWithStdin(t, args)
	t.Logf("%d events accepted, %d open, %d POSTs (%v by mood)", events.count("accepted"), events.count("open"), len(hub.posts), hub.moods)
	if events.count("accepted") < 100 {
		t.Error("too few events were accepted for this test to mean anything")
	}
	checkPosts(t, hub.posts, events.state)
}

// drainWithStdin runs the program until everything is published.
func drainWithStdin(t *testing.T, args []string) {
	t.Helper()
	var stderr bytes.Buffer
	if code := runWith(t.Context(), append(args, "--stdin"), strings.NewReader(""), io.Discard, &stderr); code != 0 {
		t.Fatalf("draining ended with %d: %s", code, stderr.String())
	}
}

// senderLog knows the outcome of each event: accepted (202), or open (its
// request got no answer, or a 5xx).
type senderLog struct {
	mu    sync.Mutex
	state map[string]string
}

func (l *senderLog) count(state string) (n int) {
	for _, s := range l.state {
		if s == state {
			n++
		}
	}
	return n
}

// send posts events, a few at a time, until ctx ends.
func (l *senderLog) send(ctx context.Context, intake, name string) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := 0; ctx.Err() == nil; i++ {
		var body strings.Builder
		var locs []string
		for k := range 1 + i%7 {
			locs = append(locs, fmt.Sprintf("http://a.example/%s/%d/%d", name, i, k))
			fmt.Fprintf(&body, `{"loc":%q,"change":"created"}`+"\n", locs[k])
		}
		state := "open"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+intake+"/sets/default/events", strings.NewReader(body.String()))
		if err != nil {
			return
		}
		req.GetBody = nil // so that the transport sends nothing twice
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := client.Do(req)
		if err == nil {
			if resp.StatusCode == http.StatusAccepted {
				state = "accepted"
			}
			_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
			resp.Body.Close()
		}
		l.mu.Lock()
		for _, loc := range locs {
			l.state[loc] = state
		}
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// checkPosts judges what the hub got.
func checkPosts(t *testing.T, posts [][]byte, state map[string]string) {
	t.Helper()
	byFrom := map[string][]byte{}
	told := map[string]int{}
	until := ""
	for i, body := range posts {
		n, err := payload.ValidateNotification(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("POST %d: %v", i, err)
		}
		if first, repeated := byFrom[n.From]; repeated {
			if !bytes.Equal(first, body) {
				t.Fatalf("POST %d repeats the notification from %s with other bytes", i, n.From)
			}
			continue
		}
		byFrom[n.From] = body
		if until != "" && n.From != until {
			t.Fatalf("POST %d is from %s; the one before ends at %s", i, n.From, until)
		}
		until = n.Until
		for _, loc := range locsOf(t, body) {
			told[loc]++
		}
	}
	for loc, s := range state {
		if n := told[loc]; n > 1 || s == "accepted" && n != 1 {
			t.Errorf("%s (%s) was told %d times", loc, s, n)
		}
	}
	for loc := range told {
		if state[loc] == "" {
			t.Errorf("%s was told, but never sent", loc)
		}
	}
}

func locsOf(t *testing.T, body []byte) (locs []string) {
	t.Helper()
	r := payload.NewReader(bytes.NewReader(body), payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return locs
		}
		if err != nil {
			t.Fatal(err)
		}
		locs = append(locs, e.Loc)
	}
}
