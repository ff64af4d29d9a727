package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkInText = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading    = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	ownAnchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	linkedText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// TestLinks checks that every link between the repository's files has a target, and its heading.
func TestLinks(t *testing.T) {
	files, links := markdown(t), 0
	for _, name := range files {
		for _, target := range linksOf(t, name) {
			address, err := url.Parse(target)
			if err != nil {
				t.Errorf("%s: %s: %v", name, target, err)
				continue
			}
			if address.Scheme != "" {
				continue
			}
			links++
			file := name
			if address.Path != "" {
				file = filepath.Join(filepath.Dir(name), filepath.FromSlash(address.Path))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: there is no such file", name, target)
				continue
			}
			if address.Fragment != "" && !anchors(t, file)[address.Fragment] {
				t.Errorf("%s: %s: there is no such heading", name, target)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found in %d files", links, len(files))
	}
}

// markdown returns all pages of the repository.
func markdown(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// prose calls line with each line of a file outside fenced blocks.
func prose(t *testing.T, file string, line func(string)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for l := range strings.SplitSeq(string(text), "\n") {
		if fenceLine.MatchString(l) {
			fenced = !fenced
		} else if !fenced {
			line(l)
		}
	}
}

func linksOf(t *testing.T, file string) (targets []string) {
	t.Helper()
	prose(t, file, func(line string) {
		for _, m := range linkInText.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
			targets = append(targets, m[1])
		}
	})
	return targets
}

// anchors returns the anchors of a page's headings as forges make them: in small letters, with
// hyphens for spaces, and no characters but letters, digits, hyphens and underscores. It adds
// the page's own anchors.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	prose(t, file, func(line string) {
		for _, m := range ownAnchor.FindAllStringSubmatch(line, -1) {
			all[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		text := linkedText.ReplaceAllString(m[1], "$1")
		name := strings.Map(func(r rune) rune {
			switch r = unicode.ToLower(r); {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return r
			}
			return -1
		}, text)
		again := name
		for i := 1; all[again]; i++ {
			again = fmt.Sprintf("%s-%d", name, i)
		}
		all[again] = true
	})
	return all
}
