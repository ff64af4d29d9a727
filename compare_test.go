package carillon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// secretName matches what holds something that others must not find out by how long a
// comparison with it takes.
var secretName = regexp.MustCompile(`(?i)(secret|token|tokenhash|signature|challenge|password|mac)$`)

// maySayEqual are the comparisons of such names by == that are good, each with its reason.
var maySayEqual = map[string]string{
	"delivery/dispatch/entry.go: secret != e.text":                "it is the subscription's own secret, kept again; nobody who asks learns how long that took",
	"internal/weblink/document.go: z.Next == html.ErrorToken":     "it is a piece of markup",
	"notifier/publish.go: token != got.sent":                      "both are the notifier's own: what its file has now, with what it had",
	"source/source.go: s.TokenHash == other.TokenHash":            "both are the hub's own: records of one Source, compared when stores are merged",
	"store/pebblestore/subscriptions.go: stored.Token != r.Token": "the token of a request tells it from a later one; nobody outside knows or sends any",
	"store/redisstore/subscriptions.go: now.Token != r.Token":     "as in store/pebblestore",
	"store/redisstore/subscriptions.go: record != r.Token":        "as in store/pebblestore",
	"subscription/books.go: stored.Secret == sub.Secret":          "both are the hub's own: what it has stored, with what it is about to store",
	"subscription/job.go: j.req.Token == token":                   "as in store/pebblestore",
	"transfer/record.go: l.Token != uuid.Nil":                     "as in store/pebblestore",
}

// TestSecretsAreComparedInConstantTime finds comparisons with == of what is named like a
// secret. With a constant, as "" or nil, anything may be compared.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	used := map[string]bool{}
	for _, found := range comparisons(t) {
		if maySayEqual[found] == "" {
			t.Errorf("%s: use hmac.Equal or crypto/subtle, or say in maySayEqual why this is good", found)
		}
		used[found] = true
	}
	for found := range maySayEqual {
		if !used[found] {
			t.Errorf("%s is not there any more: take it out of maySayEqual", found)
		}
	}
}

// comparisons finds them in every file of the house that is not a test.
func comparisons(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name == "tools" || name == "testdata" || name == "bench" || name != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "test/") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if text, risky := comparison(n); risky {
				found = append(found, filepath.ToSlash(name)+": "+text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// comparison reports whether a node compares something that is named like a secret with
// something that is no constant.
func comparison(n ast.Node) (text string, risky bool) {
	var x, y ast.Expr
	between := " == "
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op != token.EQL && n.Op != token.NEQ {
			return "", false
		}
		x, y, between = n.X, n.Y, " "+n.Op.String()+" "
	case *ast.CallExpr:
		f, selector := n.Fun.(*ast.SelectorExpr)
		if !selector || len(n.Args) != 2 {
			return "", false
		}
		pkg, named := f.X.(*ast.Ident)
		if !named || pkg.Name != "bytes" && pkg.Name != "slices" && pkg.Name != "strings" || f.Sel.Name != "Equal" && f.Sel.Name != "Compare" {
			return "", false
		}
		x, y = n.Args[0], n.Args[1]
	default:
		return "", false
	}
	left, right := nameOf(x), nameOf(y)
	if constant(x) || constant(y) || !secretName.MatchString(left) && !secretName.MatchString(right) {
		return "", false
	}
	return left + between + right, true
}

// nameOf writes an expression as far as it is made of names.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return nameOf(e.Args[0])
		}
		return nameOf(e.Fun)
	case *ast.SliceExpr:
		return nameOf(e.X)
	case *ast.ParenExpr:
		return nameOf(e.X)
	case *ast.UnaryExpr:
		return nameOf(e.X)
	case *ast.CompositeLit:
		return "literal"
	}
	return "…"
}

func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false"
	case *ast.ParenExpr:
		return constant(e.X)
	}
	return false
}
