package carillon_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOutsideTheTree: a module of its own uses the root package and payload by a replace, without
// the network, and its hub verifies a subscription and delivers a notification.
func TestOutsideTheTree(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/outside/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "main.go"), string(text))
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), strings.Replace(string(mod), "module carillon\n", "module outside\n", 1)+
		"\nrequire carillon v0.0.0\n\nreplace carillon => "+here+"\n")
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), string(sums))
	if out := goIn(t, dir, "run", "."); !strings.HasSuffix(out, "verified, and delivered\n") {
		t.Errorf("it says %q", out)
	}
}

// TestRename: the command that the documentation gives for another path of the module leaves no import by
// the path of before, and all resolve.
func TestRename(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)^go mod edit -module .*$").FindString(string(page))
	if command == "" {
		t.Fatal("docs/embedding.md has no command that renames the module")
	}
	dir := t.TempDir()
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", command)
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	renamed := 0
	for path := range strings.FieldsSeq(goIn(t, dir, "list", "-deps", "-test", "./...")) {
		if strings.HasPrefix(path, "carillon") {
			t.Errorf("%s is there by its path of before", path)
		}
		if strings.HasPrefix(path, "example.org/carillon") {
			renamed++
		}
	}
	if renamed < 50 {
		t.Errorf("only %d packages have the other path", renamed)
	}
	goIn(t, dir, "build", "-o", os.DevNull, "./payload")
}

// goIn runs the go command in a directory, without the network.
func goIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
