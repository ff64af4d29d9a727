package carillon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// identifierLike matches a first word that can only be a name: it begins in lower case, or has a
// capital inside.
var identifierLike = regexp.MustCompile(`^(?:[a-z]\w*|[A-Z]\w*[a-z][A-Z]\w*)\b`)

// TestCommentsBeginWithTheName checks that a doc comment of a function or type which begins with a
// name begins with that of its declaration, so that a renamed thing keeps no old name there.
func TestCommentsBeginWithTheName(t *testing.T) {
	checked := 0
	walkCode(t, func(name string) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check := func(declared *ast.Ident, doc *ast.CommentGroup) {
			word := identifierLike.FindString(strings.TrimSpace(doc.Text()))
			if word == "" {
				return
			}
			if checked++; word != declared.Name {
				t.Errorf("%s: the comment of %s begins with %q", set.Position(doc.Pos()), declared.Name, word)
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Name, d.Doc)
			case *ast.GenDecl:
				if len(d.Specs) == 1 && d.Tok == token.TYPE {
					check(d.Specs[0].(*ast.TypeSpec).Name, d.Doc)
				}
			}
		}
	})
	if checked < 1000 {
		t.Errorf("only %d comments were checked", checked)
	}
}
