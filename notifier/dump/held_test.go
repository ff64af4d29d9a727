package dump_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// oneDead is a Source of several servers, of which one does not answer until it is back.
type oneDead struct {
	back  atomic.Bool
	asked atomic.Int64 // how often the dead one was asked
}

func (s *oneDead) Open(ctx context.Context, e *payload.Entry) (*dump.Content, error) {
	if strings.HasPrefix(e.Loc, "http://dead.example/") && !s.back.Load() {
		s.asked.Add(1)
		return nil, &dump.LeftOutError{Reason: dump.Unreachable, Text: "no answer"}
	}
	return texts{}.Open(ctx, e)
}

// resources gives the notifier resources of a host.
func (a *archived) resources(host string, n int) {
	a.t.Helper()
	var all []notifier.Event
	for i := range n {
		all = append(all, notifier.Event{
			Sets:  []string{"a"},
			Entry: payload.Entry{Loc: fmt.Sprintf("http://%s/%03d", host, i), Change: payload.Created},
		})
	}
	if err := a.Append(context.Background(), all); err != nil {
		a.t.Fatal(err)
	}
}

// packed returns the moment of the Resource Dump that is served, and the entries of its packages.
func (a *archived) packed() (at string, entries int) {
	a.t.Helper()
	if a.ask("a/resourcedump.xml").Code == http.StatusNotFound {
		return "", 0
	}
	h, packages := a.read("a/resourcedump.xml")
	for _, p := range packages {
		_, all := a.read(linkOf(p.Links, "contents"))
		entries += len(all)
	}
	return h.At, entries
}

// TestServerThatStaysDead checks that a server that is away holds up the dumps of a set for
// Config.Every only. After that they appear without its resources, as often as ever, until it is
// back. The server is not asked for each of its resources.
func TestServerThatStaysDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		site := &oneDead{}
		a := &archived{t: t, fs: vfs.NewMem(), dir: t.TempDir(), keep: 2 * time.Hour, source: site, lists: 50_000}
		a.start()
		defer func() { a.stop() }()
		a.resources("a.example", 700)
		a.resources("dead.example", 600)
		time.Sleep(50 * time.Minute)
		if at, _ := a.packed(); at != "" {
			t.Errorf("a dump of %s is served, though a server may be back in a moment", at)
		}
		time.Sleep(80 * time.Minute)
		before, entries := a.packed()
		if entries != 700 {
			t.Fatalf("the dump of %q has %d entries\n%s", before, entries, &a.log)
		}
		for _, want := range []string{`msg="a server is given up for this dump`, "host=dead.example", "left_out=600"} {
			if !strings.Contains(a.log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, &a.log)
			}
		}
		asked := site.asked.Load()
		time.Sleep(65 * time.Minute)
		at, entries := a.packed()
		if at == before || entries != 700 {
			t.Errorf("an hour later the dump is that of %s, with %d entries", at, entries)
		}
		if more := site.asked.Load() - asked; more == 0 || more >= 300 {
			t.Errorf("the dead server was asked %d times for its 600 resources", more)
		}
		site.back.Store(true)
		time.Sleep(65 * time.Minute)
		if _, entries := a.packed(); entries != 1300 {
			t.Errorf("when the server is back the dump has %d entries", entries)
		}
	})
}

// TestServerOfMost checks that a set whose resources are mostly of a dead server is not dumped
// without them, however long that takes.
func TestServerOfMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archived{t: t, fs: vfs.NewMem(), dir: t.TempDir(), keep: 2 * time.Hour, source: &oneDead{}, lists: 50_000}
		a.start()
		defer func() { a.stop() }()
		a.resources("a.example", 100)
		a.resources("dead.example", 200)
		time.Sleep(5 * time.Hour)
		if at, entries := a.packed(); at != "" {
			t.Errorf("a dump of %s with %d entries is served", at, entries)
		}
		if !strings.Contains(a.log.String(), "more than half") {
			t.Errorf("the log does not say why:\n%s", &a.log)
		}
	})
}

// TestAskedWhileOneIsMade checks that a dump that is asked for has what was there before the
// request, also where another was being made at that moment: it begins after the request.
func TestAskedWhileOneIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{})
	w.put("a", "a1", payload.Created)
	reached, goOn := make(chan struct{}), make(chan struct{})
	w.shelf.trouble(func(ctx context.Context, _ string, opened int) error {
		if opened == 1 {
			close(reached)
			<-goOn
		}
		return nil
	})
	first := make(chan dump.Answer, 1)
	go func() { first <- w.tryAsk() }()
	<-reached
	w.tell(entry("b", "b1", payload.Created)) // whose content comes when the shelf is free
	second := make(chan dump.Answer, 1)
	told := make(chan dump.Progress, 100)
	go func() { second <- w.tryAskTold(func(p dump.Progress) { told <- p }) }()
	if p := <-told; !p.Earlier {
		t.Errorf("the progress of the first dump is told as that of the second: %+v", p)
	}
	close(goOn)
	w.shelf.trouble(nil)
	w.shelf.put(loc("b"), "b1")
	one, two := <-first, <-second
	if one.Entries != 1 || one.Error != "" || two.Entries != 2 || two.Error != "" || !two.At.After(one.At) {
		t.Errorf("the first dump is %+v, that which was asked for meanwhile is %+v", one, two)
	}
}
