package lists_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/destination/lists"
	"carillon/payload"
)

// told is a change that a Source has told of: the nth, at so many seconds after start.
type told struct{ n, second int }

var start = at("00:00")

func (c told) at() time.Time { return start.Add(time.Duration(c.second) * time.Second) }

// teller is a Source whose changes grow, and whose lists are cut anywhere.
type teller struct {
	all  []told
	cuts []int // where closed lists end, in seconds
	// How the open list is found: as the index, or as itself; and whether entries stand in order.
	byIndex, shuffled bool
}

func (s *teller) grow(t *rapid.T) {
	second := 0
	if n := len(s.all); n > 0 {
		second = s.all[n-1].second
	}
	if n := len(s.cuts); n > 0 {
		second = max(second, s.cuts[n-1])
	}
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		second += rapid.IntRange(1, 3).Draw(t, "pause")
		s.all = append(s.all, told{len(s.all), second})
	}
	if rapid.Bool().Draw(t, "cut") {
		s.cuts = append(s.cuts, second+1)
	}
}

// pages are the documents of now.
func (s *teller) pages(t *rapid.T) map[string]page {
	pages := map[string]page{}
	ends := append([]int{0}, s.cuts...)
	var parts string
	for i, from := range ends {
		until, stamp := 1<<30, ""
		if i+1 < len(ends) {
			until = ends[i+1]
			stamp = ` until="` + payload.FormatDatetime(told{0, until}.at()) + `"`
		}
		span := `from="` + payload.FormatDatetime(told{0, from}.at()) + `"` + stamp
		var inside []string
		for _, c := range s.all {
			if from <= c.second && c.second < until {
				inside = append(inside, fmt.Sprintf(`<url><loc>%s/%d</loc><rs:md change="updated" datetime="%s"/></url>`, site, c.n, payload.FormatDatetime(c.at())))
			}
		}
		if s.shuffled {
			inside = rapid.Permutation(inside).Draw(t, "order")
		}
		head := up + md(`capability="changelist" `+span)
		if len(s.cuts) > 0 {
			head += link("index", "/index")
		}
		name := fmt.Sprintf("/%d", from)
		pages[name] = tagged(urlset(head, strings.Join(inside, "")))
		if until == 1<<30 {
			pages["/list"] = pages[name]
		}
		parts += "<sitemap><loc>" + site + name + "</loc>" + md(span) + "</sitemap>"
	}
	pages["/index"] = tagged(sitemapindex(up, md(`capability="changelist" from="`+payload.FormatDatetime(start)+`"`), parts))
	if s.byIndex && len(s.cuts) > 0 {
		pages["/list"] = pages["/index"]
	}
	return pages
}

func tagged(doc string) page {
	return page{body: doc, header: map[string]string{"ETag": fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(doc)))}}
}

// Whoever asks again and again, each time from where he has come to, gets every change, in
// order, and twice only those at exactly that moment; wherever lists end, and at whichever
// he asks.
func TestNothingIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &teller{byIndex: rapid.Bool().Draw(rt, "index"), shuffled: rapid.Bool().Draw(rt, "shuffled")}
		w := newWorld(t, nil)
		c := w.client(lists.Config{})
		since, next, uri := start, 0, "/list"
		for range rapid.IntRange(1, 6).Draw(rt, "polls") {
			s.grow(rt)
			for uri, p := range s.pages(rt) {
				w.put(uri, p)
			}
			if rapid.Bool().Draw(rt, "first list") {
				uri = "/0" // it may be closed long ago
			}
			var got []told
			covered, err := c.Changes(context.Background(), site+uri, since, func(e payload.Entry) error {
				n, _ := strconv.Atoi(strings.TrimPrefix(e.Loc, site+"/"))
				got = append(got, s.all[n])
				return nil
			})
			if err != nil {
				rt.Fatalf("since %v: %v", since, err)
			}
			if !slices.IsSortedFunc(got, func(a, b told) int { return cmp.Compare(a.second, b.second) }) {
				rt.Fatalf("out of order: %v", got)
			}
			for _, c := range got {
				switch {
				case c.n == next:
					next++
				case c.n > next:
					rt.Fatalf("change %d is missed: %v since %v", next, got, since)
				case !c.at().Equal(since):
					rt.Fatalf("change %d comes again: %v since %v", c.n, got, since)
				}
			}
			if next != len(s.all) {
				rt.Fatalf("change %d is missed: %v since %v, covered %+v", next, got, since, covered)
			}
			since = covered.Until
		}
	})
}
