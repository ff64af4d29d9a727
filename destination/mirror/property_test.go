package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/payload"
)

// Whatever changes come, however often, whatever the server answers in between, and whenever the mirror
// is made anew: when what failed was tried again, the copies are what the Source has.
func TestProperty(t *testing.T) {
	uris := []string{"/a", "/A", "/a/b", "/a/b/c", "/d/", "/d/index.html", "/e?q=1"}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := newSource(t)
		defer s.Close()
		c := newCopies(t, s, func(c *mirror.Config) {
			c.Delete = rapid.Bool().Draw(rt, "delete")
			c.RetryFirst, c.RetryMax = time.Hour, time.Hour
		})
		var described []follow.Change // and not taken yet
		take := func(upTo int) {
			for upTo > 0 {
				done, err := c.Handle(t.Context(), described[:upTo])
				if err != nil {
					rt.Fatal(err)
				}
				described, upTo = described[done:], upTo-done
			}
		}
		steps := rapid.IntRange(1, 15).Draw(rt, "steps")
		for i := range steps {
			uri := rapid.SampledFrom(uris).Draw(rt, "uri")
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2, 3:
				e := s.put(uri, fmt.Sprintf("%s in step %d", uri, i))
				if rapid.Bool().Draw(rt, "hash") {
					e.Hash = ""
				}
				described = append(described, e)
			case 4:
				described = append(described, s.delete(uri))
			case 5:
				status := rapid.SampledFrom([]int{404, 500, 403, 200}).Draw(rt, "status")
				if status == 200 {
					s.behave(uri, nil)
				} else {
					s.behave(uri, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
				}
			case 6, 7, 8:
				upTo := rapid.IntRange(0, len(described)).Draw(rt, "taken")
				again := rapid.IntRange(0, upTo).Draw(rt, "again")
				before := described[:again:again]
				take(upTo)
				described = append(append([]follow.Change(nil), before...), described...) // after a crash they come again
			case 9:
				c.reopen(func(*mirror.Config) {})
			}
		}
		for _, uri := range uris {
			s.behave(uri, nil)
		}
		take(len(described))
		// A failure is due in an hour: a further change, or a baseline, tries it at once.
		l := s.list()
		if len(l.resources) == 0 {
			l.resources = append(l.resources, s.put("/one", "one").Entry)
		}
		if _, err := c.Baseline(context.Background(), l, everything); err != nil {
			rt.Fatal(err)
		}
		has := map[string]bool{}
		for _, e := range l.resources {
			got, err := c.store.Mirrored().Copy(context.Background(), e.Loc)
			if err != nil || got.State != mirror.Whole {
				rt.Fatalf("%s: %+v, %v", e.Loc, got, err)
			}
			has[got.Path] = true
			if text, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(got.Path))); err != nil || "sha-256:"+digest(string(text)) != e.Hash {
				rt.Fatalf("%s is %q, %v", got.Path, text, err)
			}
		}
		for copy, err := range c.store.Mirrored().All(context.Background()) {
			if err != nil || !has[copy.Path] && (copy.State != mirror.Gone || copy.Described.Change != payload.Deleted || c.cfg.Delete) {
				rt.Fatalf("left: %+v, %v", copy, err)
			}
		}
		if c.cfg.Delete && len(c.files()) != len(has) {
			rt.Fatalf("the files are %q", c.files())
		}
	})
	t.Logf("%d mirrors", n)
}
