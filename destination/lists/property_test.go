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

// announced is the nth change of a Source, so many seconds after start.
type announced struct{ n, second int }

var start = at("00:00")

func (c announced) at() time.Time { return start.Add(time.Duration(c.second) * time.Second) }

// teller is a Source whose changes grow, and whose lists are cut anywhere.
type teller struct {
	all  []announced
	cuts []int // where closed lists end, in seconds
	// How the open list is found: as the index, or as itself; and whether entries stand in order.
	byIndex, shuffled bool
	// archived is how many of the closed lists are in the archive only. It may grow at any time.
	archived int
	dumps    bool // the lists are Change Dumps, of which each package has one change
}

func (s *teller) capability() string {
	if s.dumps {
		return payload.CapChangeDump
	}
	return payload.CapChangeList
}

// entry is a change, or the package that has it.
func (s *teller) entry(c announced) string {
	loc := fmt.Sprintf("<url><loc>%s/%d</loc>", site, c.n)
	if !s.dumps {
		return loc + fmt.Sprintf(`<rs:md change="updated" datetime="%s"/></url>`, payload.FormatDatetime(c.at()))
	}
	end := c.at().Add(time.Second)
	return loc + fmt.Sprintf(`<rs:md from="%s" until="%s"/></url>`, payload.FormatDatetime(c.at()), payload.FormatDatetime(end))
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
		s.all = append(s.all, announced{len(s.all), second})
	}
	if rapid.Bool().Draw(t, "cut") {
		s.cuts = append(s.cuts, second+1)
	}
}

// pages are the documents of now.
func (s *teller) pages(t *rapid.T) map[string]page {
	pages := map[string]page{}
	ends := append([]int{0}, s.cuts...)
	var parts, archived string
	archives := ""
	if s.archived > 0 {
		archives = link("archives", "/archive")
	}
	for i, from := range ends {
		until, stamp := 1<<30, ""
		if i+1 < len(ends) {
			until = ends[i+1]
			stamp = ` until="` + payload.FormatDatetime(announced{0, until}.at()) + `"`
		}
		span := `from="` + payload.FormatDatetime(announced{0, from}.at()) + `"` + stamp
		var inside []string
		for _, c := range s.all {
			if from <= c.second && c.second < until {
				inside = append(inside, s.entry(c))
			}
		}
		if s.shuffled {
			inside = rapid.Permutation(inside).Draw(t, "order")
		}
		head := up + archives + md(`capability="`+s.capability()+`" `+span)
		if len(s.cuts) > 0 {
			head += link("index", "/index")
		}
		name := fmt.Sprintf("/%d", from)
		pages[name] = tagged(urlset(head, strings.Join(inside, "")))
		if until == 1<<30 {
			pages["/list"] = pages[name]
		}
		if i < s.archived {
			archived += "<url><loc>" + site + name + "</loc>" + md(span) + "</url>"
			continue
		}
		parts += "<sitemap><loc>" + site + name + "</loc>" + md(span) + "</sitemap>"
	}
	from := payload.FormatDatetime(announced{0, ends[s.archived]}.at())
	pages["/index"] = tagged(sitemapindex(up, archives, md(`capability="`+s.capability()+`" from="`+from+`"`), parts))
	pages["/archive"] = tagged(urlset(up, md(`capability="`+s.capability()+`-archive"`), archived))
	if s.byIndex && len(s.cuts) > 0 {
		pages["/list"] = pages["/index"]
	}
	return pages
}

func tagged(doc string) page {
	return page{body: doc, header: map[string]string{"ETag": fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(doc)))}}
}

// A Destination that asks again and again, each time from where it has come to, gets every change in
// order, and twice only those at exactly that moment; wherever lists end, at whichever it asks, and
// though the lists that it lags behind are in the archive alone.
func TestNothingIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &teller{
			byIndex: rapid.Bool().Draw(rt, "index"), shuffled: rapid.Bool().Draw(rt, "shuffled"), dumps: rapid.Bool().Draw(rt, "dumps"),
		}
		w := newNetwork(t, nil)
		c := w.client(lists.Config{})
		since, next, uri := start, 0, "/list"
		for range rapid.IntRange(1, 6).Draw(rt, "polls") {
			for range rapid.IntRange(1, 3).Draw(rt, "growths") {
				s.grow(rt)
			}
			s.archived = rapid.IntRange(s.archived, len(s.cuts)).Draw(rt, "archived")
			for uri, p := range s.pages(rt) {
				w.put(uri, p)
			}
			if rapid.Bool().Draw(rt, "first list") {
				uri = "/0" // it may be closed long ago
			}
			got, covered, err := s.poll(c, uri, since)
			if err != nil {
				rt.Fatalf("since %v: %v", since, err)
			}
			if !slices.IsSortedFunc(got, func(a, b announced) int { return cmp.Compare(a.second, b.second) }) {
				rt.Fatalf("out of order: %v", got)
			}
			for _, c := range got {
				switch {
				case c.n == next:
					next++
				case c.n > next:
					rt.Fatalf("change %d is missed: %v since %v", next, got, since)
				case s.dumps || !c.at().Equal(since):
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

// poll reads the changes at an address, or the packages that have them.
func (s *teller) poll(c *lists.Client, uri string, since time.Time) (got []announced, covered lists.Covered, err error) {
	take := func(loc string) {
		n, _ := strconv.Atoi(strings.TrimPrefix(loc, site+"/"))
		got = append(got, s.all[n])
	}
	if s.dumps {
		covered, err = c.ChangeDump(context.Background(), site+uri, since, func(p lists.Package) error {
			take(p.URI)
			return nil
		})
		return got, covered, err
	}
	covered, err = c.Changes(context.Background(), site+uri, since, func(e payload.Entry) error {
		take(e.Loc)
		return nil
	})
	return got, covered, err
}
