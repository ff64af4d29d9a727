package check_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"carillon/check"
)

// renewed replaces the files of an open site when a path is first requested, before the answer.
func renewed(at string, change func(*site)) func(*site) {
	return func(s *site) {
		done := false
		s.before = func(r *http.Request) {
			if !done && r.URL.Path == at {
				done = true
				change(s)
			}
		}
	}
}

// everywhere replaces a text in some files of an open site.
func everywhere(old, with string, names ...string) func(*site) {
	return func(s *site) {
		for _, name := range names {
			if !strings.Contains(s.files[name], old) {
				s.t.Errorf("%s does not have %q", name, old)
			}
			s.files[name] = strings.ReplaceAll(s.files[name], old, with)
		}
	}
}

// repacked makes a package of an open site again, and says so in its dump.
func repacked(name, dump string) func(*site) {
	return func(s *site) {
		old := s.files[name]
		s.files[name] = s.pack(s.packs[name])
		s.files[dump] = strings.NewReplacer(sha256Of(old), sha256Of(s.files[name]),
			fmt.Sprintf("length=%q", fmt.Sprint(len(old))), fmt.Sprintf("length=%q", fmt.Sprint(len(s.files[name])))).Replace(s.files[dump])
	}
}

// anew are Sources that make their documents anew while they are checked. They are right before
// and after.
var anew = []struct {
	name string
	// at is the request before which everything changes.
	at     string
	change func(*site)
}{
	{"a Resource List with its index", "/a/resourcelist-2.xml", both(
		everywhere("2026-01-05T00:10:00Z", "2026-01-05T00:12:00Z", "a/resourcelist.xml", "a/resourcelist-2.xml"),
		everywhere("2026-01-05T00:05:00Z", "2026-01-05T00:06:00Z", "a/resourcelist.xml", "a/resourcelist-1.xml", "a/resourcelist-2.xml"),
	)},
	{"parts with other addresses", "/a/resourcelist-2.xml", func(s *site) {
		everywhere("/resourcelist-2.xml", "/resourcelist-3.xml", "a/resourcelist.xml")(s)
		s.files["a/resourcelist-3.xml"] = s.files["a/resourcelist-2.xml"]
		delete(s.files, "a/resourcelist-2.xml")
	}},
	{"an index and its parts with other addresses", "/a/resourcelist-2.xml", func(s *site) {
		everywhere("/a/resourcelist.xml", "/a/new.xml", "a/capabilitylist.xml", "a/resourcelist-1.xml", "a/resourcelist-2.xml")(s)
		everywhere("/a/resourcelist-1", "/a/new-1", "a/resourcelist.xml")(s)
		everywhere("/a/resourcelist-2", "/a/new-2", "a/resourcelist.xml")(s)
		for _, of := range []string{"", "-1", "-2"} {
			s.files["a/new"+of+".xml"] = s.files["a/resourcelist"+of+".xml"]
			delete(s.files, "a/resourcelist"+of+".xml")
		}
	}},
	{"packages with other addresses", "/a/rd-2.zip", func(s *site) {
		everywhere("/rd-2.zip", "/rd-3.zip", "a/resourcedump.xml")(s)
		s.files["a/rd-3.zip"] = s.files["a/rd-2.zip"]
		delete(s.files, "a/rd-2.zip")
	}},
	{"a package at its address", "/a/rd-2.zip", both(
		everywhere(" completed=\"2026-01-05T00:10:00Z\"", "", "a/resourcedump.xml", "a/rd-2-manifest.xml"),
		repacked("a/rd-2.zip", "a/resourcedump.xml"),
	)},
	{"lists and packages with another resource", "/a/rd-2.zip", both(
		everywhere("/r/3.txt", "/r/5.txt", "a/resourcelist-2.xml", "a/rd-2-manifest.xml"),
		func(s *site) { s.files["r/5.txt"] = s.files["r/3.txt"] },
		repacked("a/rd-2.zip", "a/resourcedump.xml"),
	)},
	{"a Change List that is closed", "/a/changelist-2.xml", both(
		everywhere(`<rs:md from="2026-01-06T00:00:00Z"/>`, `<rs:md from="2026-01-06T00:00:00Z" until="2026-01-07T00:00:00Z"/>`, "a/changelist.xml"),
		everywhere(`from="2026-01-06T00:00:00Z"`, `from="2026-01-06T00:00:00Z" until="2026-01-07T00:00:00Z"`, "a/changelist-2.xml"),
	)},
	{"a Capability List without its dumps", "/a/changedump.xml", func(s *site) {
		list := s.files["a/capabilitylist.xml"]
		start := strings.Index(list, "  <url>\n    <loc>"+s.base+"/a/changedump.xml")
		end := start + strings.Index(list[start:], "</url>\n") + len("</url>\n")
		s.files["a/capabilitylist.xml"] = list[:start] + list[end:]
		delete(s.files, "a/changedump.xml")
		delete(s.files, "a/cd-1.zip")
	}},
}

// The contents of two documents are compared in versions that belong together.
func TestMadeAnew(t *testing.T) {
	for _, tt := range anew {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.open()
			renewed(tt.at, tt.change)(s)
			found, sum := s.look(check.Config{}, "/a/capabilitylist.xml")
			if len(found) > 0 || !sum.Complete {
				t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
			}
			if sum.Requests > 100 {
				t.Errorf("%d requests", sum.Requests)
			}
		})
	}
}

// A fault is found though the documents are made anew all the time, and though they are made anew once.
func TestFaultsOfWhatIsMadeAnew(t *testing.T) {
	for name, before := range map[string]func(*site){
		"once": renewed("/a/resourcelist-2.xml", everywhere("</sitemapindex>", "<!-- new --></sitemapindex>", "a/resourcelist.xml")),
		"always": func(s *site) {
			n := 0
			s.before = func(*http.Request) {
				n++
				s.files["a/resourcelist.xml"] += fmt.Sprintf("<!-- %d -->", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.edit("a/resourcelist.xml", `<rs:md at="2026-01-05T00:05:00Z"`, `<rs:md at="2026-01-05T00:06:00Z"`)
			s.open()
			before(s)
			found, sum := s.look(check.Config{}, "/a/capabilitylist.xml")
			if lines := s.lines(found); len(lines) != 1 || !strings.HasPrefix(lines[0], "error core 10.2 /a/resourcelist.xml:") || !sum.Complete {
				t.Errorf("%+v\n%s", sum, strings.Join(lines, "\n"))
			}
		})
	}
}

// The findings of a round are reported where a limit ends the next round.
func TestLimitsBetweenRounds(t *testing.T) {
	look := func(requests int) ([]string, check.Summary) {
		s := newSite(t)
		s.edit("a/resourcelist.xml", `<rs:md at="2026-01-05T00:05:00Z"`, `<rs:md at="2026-01-05T00:06:00Z"`)
		s.edit("a/resourcelist-1.xml", `rel="index" href="{base}/a/resourcelist.xml"`, `rel="index" href="{base}/nothing.xml"`)
		s.open()
		renewed("/a/resourcelist-2.xml", everywhere("</sitemapindex>", "<!-- new --></sitemapindex>", "a/resourcelist.xml"))(s)
		found, sum := s.look(check.Config{Limits: check.Limits{Requests: requests}}, "/a/capabilitylist.xml")
		return s.lines(found), sum
	}
	const fault = "error core 10.1 /a/resourcelist-1.xml "
	_, all := look(1000)
	judged := false
	for n := 1; n <= all.Requests; n++ {
		lines, sum := look(n)
		is := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, fault) })
		if judged && !is || sum.Complete && n < all.Requests {
			t.Errorf("%d requests: %+v\n%s", n, sum, strings.Join(lines, "\n"))
		}
		judged = judged || is
	}
	if !judged {
		lines, sum := look(1000)
		t.Errorf("the fault was never found: %+v\n%s", sum, strings.Join(lines, "\n"))
	}
}

// A document that is read again takes the memory of the one it replaces.
func TestMemoryOfRounds(t *testing.T) {
	look := func(memory int, before func(*site)) check.Summary {
		s := newSite(t)
		s.open()
		before(s)
		_, sum := s.look(check.Config{Limits: check.Limits{Memory: memory}}, "/a/capabilitylist.xml")
		return sum
	}
	memory := 1000
	for !look(memory, func(*site) {}).Complete {
		memory += 1000
	}
	if sum := look(memory, renewed("/a/resourcelist-2.xml", anew[0].change)); !sum.Complete {
		t.Errorf("with %d bytes: %+v", memory, sum)
	}
}

// Where documents never stay as they are for long enough, a note says so, and no error is made of it.
func TestNeverTheSame(t *testing.T) {
	s := newSite(t)
	s.open()
	index, part, n := s.files["a/resourcelist.xml"], s.files["a/resourcelist-2.xml"], 0
	s.before = func(r *http.Request) {
		if r.URL.Path != "/a/resourcelist.xml" {
			return
		}
		// Each version has parts at addresses of its own, and the former ones are gone.
		delete(s.files, fmt.Sprintf("a/part-%d.xml", n-1))
		n++
		name := fmt.Sprintf("a/part-%d.xml", n)
		s.files["a/resourcelist.xml"] = strings.Replace(index, "a/resourcelist-2.xml", name, 1)
		s.files[name] = part
	}
	drop := s.before
	s.before = func(r *http.Request) {
		drop(r)
		if strings.HasPrefix(r.URL.Path, "/a/part-") {
			delete(s.files, strings.TrimPrefix(r.URL.Path, "/"))
		}
	}
	found, sum := s.look(check.Config{}, "/a/capabilitylist.xml")
	if sum.Errors > 0 || sum.Complete || !limited(found, "made anew") || sum.Requests > 150 {
		t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
	}
}

// A Capability List with several addresses is one set: capabilities that they do not share are found.
func TestAddressesOfOneSet(t *testing.T) {
	missing := edited("a/rd-2-manifest.xml", "/r/3.txt</loc>", "/r/3-other.txt</loc>")
	for _, tt := range []struct {
		name   string
		place  string
		change func(*site)
	}{
		{"a redirect", "/a/resourcedump.xml", both(missing, redirected("a/list", "capabilitylist.xml"),
			edited("a/resourcedump.xml", "/a/capabilitylist.xml", "/a/list"))},
		{"a copy", "/a/resourcedump.xml", both(missing, edited("a/resourcedump.xml", "/a/capabilitylist.xml", "/a/list.xml"), func(s *site) {
			s.files["a/list.xml"] = s.files["a/capabilitylist.xml"]
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.change(s)
			found, _ := s.look(check.Config{}, tt.place)
			var have []string
			for i := range found {
				if found[i].Clause == "core 9" && strings.Contains(found[i].What, "Resource Dump") {
					have = append(have, strings.TrimPrefix(found[i].URI, s.base))
				}
			}
			if strings.Join(have, " ") != "/a/rd-2.zip!/manifest.xml /a/resourcelist-2.xml" && strings.Join(have, " ") != "/a/resourcelist-2.xml /a/rd-2.zip!/manifest.xml" {
				t.Errorf("%q\n%s", have, strings.Join(s.lines(found), "\n"))
			}
		})
	}
}
