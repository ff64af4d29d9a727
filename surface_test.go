package carillon_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoInternalTypeIsExported: no type of a package that a program outside cannot import is reachable
// from the root package and from payload, by fields, methods, parameters, results and embedded types.
func TestNoInternalTypeIsExported(t *testing.T) {
	for _, dir := range []string{".", "payload"} {
		for _, leak := range leaks(surfaceOf(t, dir, nil)) {
			t.Errorf("%s: %s", dir, leak)
		}
	}
	bad := surfaceOf(t, ".", []string{`package carillon

import "carillon/internal/house"

type wrapped struct{ Inner *house.House }

func (wrapped) Deep() map[string][]func(house.Hooks) { return nil }

// Reached leads to wrapped.
func Reached() (w *wrapped) { return nil }
`})
	found := strings.Join(leaks(bad), "\n")
	for _, want := range []string{"carillon/internal/house.House", "carillon/internal/house.Hooks"} {
		if !strings.Contains(found, want) {
			t.Errorf("a leak of %s is not found: %q", want, found)
		}
	}
}

// surfaceOf type-checks a package, with more files.
func surfaceOf(t *testing.T, dir string, more []string) *types.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(err, len(names))
	}
	set := token.NewFileSet()
	var files []*ast.File
	parse := func(name string, src any) {
		file, err := parser.ParseFile(set, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			parse(name, nil)
		}
	}
	for _, src := range more {
		parse("more.go", src)
	}
	exports := map[string]string{}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if path, file, _ := strings.Cut(strings.TrimSpace(line), " "); file != "" {
			exports[path] = file
		}
	}
	read := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	pkg, err := (&types.Config{Importer: read}).Check(strings.TrimSuffix("carillon/"+dir, "/."), set, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// leaks returns where types of internal packages are reached.
func leaks(pkg *types.Package) (found []string) {
	seen := map[types.Type]bool{}
	var walk func(types.Type, string)
	members := func(typ types.Type, at string) {
		methods := types.NewMethodSet(types.NewPointer(typ))
		for i := range methods.Len() {
			if m := methods.At(i).Obj(); m.Exported() {
				walk(m.Type(), at+"."+m.Name())
			}
		}
	}
	walk = func(typ types.Type, at string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch x := types.Unalias(typ).(type) {
		case *types.Named:
			if in := x.Obj().Pkg(); in != nil {
				if strings.HasPrefix(in.Path(), "carillon") && strings.Contains(in.Path(), "/internal/") {
					found = append(found, at+" has "+in.Path()+"."+x.Obj().Name())
					return
				}
				if !strings.HasPrefix(in.Path(), "carillon") {
					return
				}
			}
			members(x, at)
			walk(x.Underlying(), at)
		case *types.Struct:
			for f := range x.Fields() {
				if f.Exported() || f.Embedded() {
					walk(f.Type(), at+"."+f.Name())
				}
			}
		case *types.Interface:
			for m := range x.Methods() {
				walk(m.Type(), at+"."+m.Name())
			}
		case *types.Signature:
			walk(x.Params(), at)
			walk(x.Results(), at)
		case *types.Tuple:
			for v := range x.Variables() {
				walk(v.Type(), at)
			}
		case *types.Map:
			walk(x.Key(), at)
			walk(x.Elem(), at)
		case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
			walk(x.Elem(), at)
		}
	}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			walk(obj.Type(), name)
		}
	}
	return found
}
