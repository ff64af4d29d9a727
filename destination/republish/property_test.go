package republish_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/internal/urlpath"
	"carillon/payload"
)

// Whatever changes, fails and is killed, and whenever publishing begins: in the end what was published adds up to
// the files of the mirror, each with the link to its origin, and what came twice had the same content.
func TestProperty(t *testing.T) {
	paths := []string{"/a", "/A", "/a/b", "/a/b c", "/d/", "/e?q=1&r=ä", "/100%25"}
	events, repeated := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		a := newAggregator(t, rt)
		defer a.end()
		a.delete = rapid.Bool().Draw(rt, "delete")
		p := play{checker: rt, rt: rt, a: a, paths: paths}
		faults := 0
		a.faulty.plan = func(call string) (before, after bool) {
			if faults == 0 {
				return false, false
			}
			faults--
			switch rapid.IntRange(0, 3).Draw(rt, "fault of "+call) {
			case 0:
				return true, false
			case 1:
				return false, true
			}
			return false, false
		}
		began := rapid.IntRange(0, 6).Draw(rt, "begun")
		steps := rapid.IntRange(1, 25).Draw(rt, "steps")
		for i := range steps {
			if i == began {
				a.publish()
			}
			faults = rapid.IntRange(0, 2).Draw(rt, "faults")
			p.step(i)
		}
		faults = 0
		if a.out == nil {
			a.publish()
		}
		for _, path := range paths {
			a.from.break_(path, 0)
			if text, there := a.from.content[path]; there {
				p.described = append(p.described, a.from.put(path, text)) // what failed is due in an hour; a change is tried at once
			}
		}
		p.take()
		a.to.once(nil)
		a.drain()
		p.compare()
		n, twice := p.repetitions()
		events, repeated = events+n, repeated+twice
	})
	t.Logf("%d events, %d requests repeated", events, repeated)
}

// play is what happens to an aggregator.
type play struct {
	checker
	rt        *rapid.T
	a         *aggregator
	paths     []string
	described []follow.Change // and not done with
}

func (p *play) step(i int) {
	path := rapid.SampledFrom(p.paths).Draw(p.rt, "path")
	switch rapid.IntRange(0, 9).Draw(p.rt, "step") {
	case 0, 1, 2:
		c := p.a.from.put(path, fmt.Sprintf("%s in step %d", path, i))
		if rapid.Bool().Draw(p.rt, "via") {
			c.Links = []payload.Link{
				{Rel: "via", Href: "http://original.test" + strings.ReplaceAll(path, "ä", "x")},
				{Rel: "canonical", Href: "http://a.test/"},
			}
		}
		p.described = append(p.described, c)
	case 3:
		p.described = append(p.described, p.a.from.remove(path))
	case 4:
		p.a.from.break_(path, rapid.SampledFrom([]int{0, 404, 500}).Draw(p.rt, "status"))
	case 5:
		p.take()
	case 6, 7:
		p.handOver()
	case 8:
		p.take()
		p.handOver()
	case 9:
		p.a.kill()
		if p.a.out != nil {
			p.a.publish()
		}
	}
}

// take has the mirror take the announced changes; the first ones may come again.
func (p *play) take() {
	done, err := p.a.handle(p.described...)
	if err == nil && done < len(p.described) {
		p.Fatalf("%d of %d done", done, len(p.described))
	}
	if again := rapid.IntRange(0, 2).Draw(p.rt, "again"); again > 0 && done > 0 {
		done = max(0, done-again)
	}
	p.described = p.described[done:]
}

// handOver makes a step of the publisher, whatever becomes of it.
func (p *play) handOver() {
	if p.a.out == nil {
		return
	}
	ctx := context.Background()
	switch rapid.IntRange(0, 3).Draw(p.rt, "way") {
	case 0:
		p.a.to.once(lost)
	case 1:
		p.a.to.once(unanswered)
	}
	if p.a.faulty.Collect(ctx) == nil {
		_, _ = p.a.out.Step(ctx) // what it was is seen in the end
	}
	p.a.to.once(nil)
}

// compare adds up what was published.
func (p *play) compare() {
	p.Helper()
	has := map[string]payload.Entry{}
	for _, e := range p.a.to.published(p) {
		before, there := has[e.Loc]
		switch {
		case len(e.Links) == 0 || e.Links[0].Rel != "via" || len(e.Links) > 1:
			p.Fatalf("%s: the links are %+v", e.Loc, e.Links)
		case e.Change == payload.Created && there && before.Hash != e.Hash:
			p.Fatalf("%s is created, and was there with other content", e.Loc)
		case e.Change == payload.Updated && !there:
			p.Fatalf("%s is updated, and was not there", e.Loc)
		}
		if e.Change == payload.Deleted {
			delete(has, e.Loc)
			continue
		}
		has[e.Loc] = e
	}
	var copies []mirror.Copy
	for c, err := range p.a.store.Mirrored().All(context.Background()) {
		if p.a.check(err); c.File != nil {
			copies = append(copies, c)
		}
	}
	for _, c := range copies {
		text, err := os.ReadFile(filepath.Join(p.a.dir, filepath.FromSlash(c.Path)))
		loc := base + urlpath.Escape(c.Path)
		e, there := has[loc]
		via, _ := c.Via()
		if err != nil || !there || e.Hash != hashOf(string(text)) || e.Length != fmt.Sprint(len(text)) || e.Links[0].Href != via.Href {
			p.Fatalf("%s has %q, %v; published is %+v (%t), via is to be %s", c.Path, text, err, e, there, via.Href)
		}
		delete(has, loc)
	}
	for loc := range has {
		p.Fatalf("%s is published, and is not there", loc)
	}
}

// repetitions counts the requests that were made again. One that begins with a line of the one
// before is the same, or a part of it.
func (p *play) repetitions() (events, twice int) {
	p.Helper()
	var before []byte
	for _, body := range p.a.to.bodies {
		first, _, _ := bytes.Cut(before, []byte("\n"))
		if events++; len(before) > 0 && bytes.HasPrefix(body, first) {
			if twice++; !bytes.HasPrefix(before, body) && !bytes.HasPrefix(body, before) {
				p.Fatalf("handed over again, with other content:\n%s\nbefore\n%s", body, before)
			}
		}
		before = body
	}
	return events, twice
}
