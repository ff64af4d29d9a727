package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	clauseName = regexp.MustCompile(`\b([A-Z]{1,2})(?:-)?(\d+)(?: to [A-Z]{1,2}-?(\d+))?`)
	testName   = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w+)`")
)

// clauses counts the clauses of each list of requirements, by the letters of their numbers.
var clauses = map[string]int{
	"H": 46, "P": 7, "S": 11, "W": 6,
	"CN": 27, "HB": 13, "DS": 18, "G": 25, "SD": 7, "CL": 7, "DI": 5, "LN": 8, "AR": 8, "X": 20,
	"RL": 5, "RI": 4, "RD": 6, "RM": 4, "CH": 7, "CX": 4, "CD": 7, "CM": 5,
}

// TestConformance compares the table of requirements with the tests: each clause has one row
// with its state, and the tests that it names exist.
func TestConformance(t *testing.T) {
	tests := allTests(t)
	seen := map[string]bool{}
	prose(t, "conformance.md", func(line string) {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || !clauseName.MatchString(cells[0]) {
			return
		}
		if len(cells) != 5 {
			t.Errorf("%s: %d cells", cells[0], len(cells))
			return
		}
		for _, name := range numbers(t, cells[0]) {
			if seen[name] {
				t.Errorf("%s has two rows", name)
			}
			seen[name] = true
		}
		checkRow(t, tests, cells)
	})
	for letters, n := range clauses {
		for i := 1; i <= n; i++ {
			if name := letters + strconv.Itoa(i); !seen[name] {
				t.Errorf("%s has no row", name)
			}
		}
	}
	total := 0
	for _, n := range clauses {
		total += n
	}
	if len(seen) != total {
		t.Errorf("%d clauses have a row, of %d", len(seen), total)
	}
}

// numbers returns the clauses of a first cell, up to the section: "RL-1 to RL-5".
func numbers(t *testing.T, cell string) (names []string) {
	t.Helper()
	for part := range strings.SplitSeq(cell, ", ") {
		m := clauseName.FindStringSubmatch(part)
		if m == nil || m[0] != part {
			break // CN §4.1
		}
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for i := first; i <= last; i++ {
			names = append(names, m[1]+strconv.Itoa(i))
		}
	}
	return names
}

func checkRow(t *testing.T, tests map[string]bool, cells []string) {
	t.Helper()
	named := testName.FindAllStringSubmatch(cells[4], -1)
	for _, m := range named {
		if !tests[m[1]+"."+m[2]] {
			t.Errorf("%s: there is no test %s in %s", cells[0], m[2], m[1])
		}
	}
	words := len(strings.Fields(testName.ReplaceAllString(cells[4], "")))
	switch cells[3] {
	case "met":
		if len(named) == 0 {
			t.Errorf("%s is met, and no test proves it", cells[0])
		}
	case "not applicable", "not done", "deviates":
		if words < 3 {
			t.Errorf("%s: %s, and nothing says why", cells[0], cells[3])
		}
	default:
		t.Errorf("%s: it stands %q", cells[0], cells[3])
	}
}

// allTests returns the tests, fuzz targets and examples of the module: "hub.TestExchanges".
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		room, err := filepath.Rel(root, filepath.Dir(name))
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				all[filepath.ToSlash(room)+"."+f.Name.Name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
