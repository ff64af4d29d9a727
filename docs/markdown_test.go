package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	page       string
	line       int // of the fence
	lang       string
	directives []directive
	lines      []string
}

// directive is a comment before a block, <!-- KIND: TEXT -->.
//
//	file: NAME         the block is that file, in the directory of the commands
//	runs: NAME         the command runs on; its first lines are those of the block
//	from: NAME         the block is the next output of the program NAME
//	after: NAME TEXT   first wait until the log of NAME has a line with TEXT
//	stop: NAME         end NAME first, as Ctrl-C does
//	until: TEXT        the command is given again until it prints what the block shows
//
// Other comments, and directives of other tests, are ignored.
type directive struct{ kind, text string }

func (b block) directive(kind string) (string, bool) {
	for _, n := range b.directives {
		if n.kind == kind {
			return n.text, true
		}
	}
	return "", false
}

var (
	directiveLine = regexp.MustCompile(`^<!-- (\w+): (.+?) -->$`)
	fenceLine     = regexp.MustCompile("^\\s*```(.*)$")
)

// readPage reads the text and the blocks of a page.
func readPage(t *testing.T, page string) (string, []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	var directives []directive
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		if n := directiveLine.FindStringSubmatch(lines[i]); n != nil {
			directives = append(directives, directive{n[1], n[2]})
			continue
		}
		fence := fenceLine.FindStringSubmatch(lines[i])
		if fence == nil {
			if strings.TrimSpace(lines[i]) != "" {
				directives = nil
			}
			continue
		}
		b := block{page: page, line: i + 1, lang: fence[1], directives: directives}
		for i++; i < len(lines) && fenceLine.FindStringSubmatch(lines[i]) == nil; i++ {
			b.lines = append(b.lines, lines[i])
		}
		if i == len(lines) {
			t.Fatalf("%s:%d: the block has no end", page, b.line)
		}
		all, directives = append(all, b), nil
	}
	return string(text), all
}

// TestEveryBlockIsHeld checks that each fenced block is run, checked, or marked as unchecked.
func TestEveryBlockIsHeld(t *testing.T) {
	held := map[string]bool{
		"console": true, "sh": true, "go": true, "python": true, "js": true,
		"yaml": true, "json": true, "text": true, "nginx": true, "mermaid": true,
	}
	for _, page := range pages(t) {
		_, blocks := readPage(t, page)
		for _, b := range blocks {
			if !held[b.lang] && !(b.lang == "" && heldElsewhere[b.page]) {
				t.Errorf("%s:%d: a block of the language %q is held by no test", page, b.line, b.lang)
			}
		}
	}
}

// heldElsewhere are pages whose blocks a test of another package reads.
var heldElsewhere = map[string]bool{"docs/redis.md": true, "docs/redis-keys.md": true}
