package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/payload"
)

// TestKilledArchives kills the program at random moments while events come in and Change Lists are
// closed, archived and let go at once: the archived lists and those that are live have each event
// that was accepted exactly once, without a gap or an overlap, and each has what its archive says.
func TestKilledArchives(t *testing.T) {
	t.Parallel()
	const kills, senders, full = 5, 3, 50
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	server := httptest.NewServer(&moodyHub{calm: true})
	defer server.Close()
	args := []string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--url", "http://source.example/", "--hub", server.URL,
		"--data", t.TempDir(), "--max-wait", "10ms", "--log-level", "error",
		"--archive", "default", "--resource-list", "default", "--changelist-entries", strconv.Itoa(full), "--keep", "1ms",
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
	p := startProcess(t, args...)
	defer p.kill()
	for open := full; open == full; { // the surplus goes into the next list, when this one is closed
		_, all := readDocument(t, p, "/default/changelist/open.xml")
		open = len(all)
	}
	live, lists := readDocument(t, p, "/default/changelist.xml")
	if live.Root != payload.RootSitemapIndex {
		lists = []payload.Entry{{Loc: "/default/changelist.xml", From: live.From}}
	}
	_, archived := readDocument(t, p, "/default/changelist-archive.xml")
	t.Logf("%d events accepted, %d open; %d lists are archived, %d live", events.count("accepted"), events.count("open"), len(archived), len(lists))
	if events.count("accepted") < 50 || len(archived) < 5 || lists[0].From <= archived[0].From {
		t.Error("too little was archived and let go for this test to mean anything")
	}
	end := archived[len(archived)-1].Until
	for _, l := range lists {
		if l.From >= end {
			archived = append(archived, l)
		}
	}
	told := map[string]int{}
	for i, l := range archived {
		head, entries := readDocument(t, p, l.Loc)
		if head.From != l.From || i > 0 && l.From != archived[i-1].Until {
			t.Errorf("%s is from %s, is said to be from %s, and the one before is until %s", l.Loc, head.From, l.From, archived[max(0, i-1)].Until)
		}
		for _, e := range entries {
			told[e.Loc]++
		}
	}
	for loc, state := range events.state {
		if n := told[loc]; n > 1 || state == "accepted" && n != 1 {
			t.Errorf("%s (%s) is there %d times", loc, state, n)
		}
	}
}

// readDocument reads a document of a notifier.
func readDocument(t *testing.T, p *process, uri string) (head payload.Header, all []payload.Entry) {
	t.Helper()
	client := http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		r.URL.Host = p.listen // as the world reaches it
		return nil
	}}
	resp, err := client.Get("http://" + p.listen + strings.TrimPrefix(uri, "http://source.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", uri, resp.Status)
	}
	r := payload.NewReader(resp.Body, payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		all = append(all, e)
	}
	if head, err = r.Header(); err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	return head, all
}

// TestArchiveRefusals: bad settings of archives are one line, at a start and by config check.
func TestArchiveRefusals(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--archive: "b" is no set here`:                          {"--archive", "b"},
		"--archive-every must be 1m0s to 87600h0m0s, not 1s":     {"--archive", "default", "--archive-every", "1s"},
		"--archive-every must be over 0, not 0s":                 {"--archive-every", "0s"},
		"--archive-for must be over 0, not 0s":                   {"--archive-for", "0s"},
		"--archive-for must be at least keep, which is 744h0m0s": {"--archive", "default", "--archive-for", "24h"},
		"--archive-for must be at least archive-every":           {"--archive", "default", "--archive-for", "24h", "--keep", "1h"},
	} {
		data := t.TempDir()
		code, stdout, stderr := runOnce(t, "", append([]string{"--data", data}, args...)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
		var out, errs bytes.Buffer
		check := append([]string{"config", "check", "--data", data, "--url", "http://source.example/"}, args...)
		if code := run(t.Context(), check, &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("config check %v: status %d, stderr %q; want %q", args, code, &errs, want)
		}
	}
}
