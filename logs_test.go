package carillon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// levels are the methods by which lines are written, with how many arguments stand before
// the keys.
var levels = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1}

// sayWarnings are the files that log a text which is made elsewhere, as /readyz shows it too.
var sayWarnings = []string{
	"cmd/hub/serve.go", "internal/house/config.go", "internal/house/environment.go", "operator/api/auth_token.go", "cmd/internal/program/listen.go", "cmd/internal/program/tls.go",
	"cmd/internal/program/variables.go", // the name of the program is in it
	"cmd/internal/program/serve.go",     // what net/http says, at level debug
	"cmd/destination/command.go", "cmd/notifier/run.go", "cmd/hub/check.go",
	"cmd/internal/program/teller.go", // progress, by the command
	"delivery/dispatch/reader.go",    // readFailed: its callers have constants
	"destination/follow/hand.go",     // tried: likewise
	"store/pebblestore/engine_log.go",
}

// logLine is one call of a logger.
type logLine struct {
	at       string
	file     string
	constant bool
	message  string // where it stands in one part
	keys     []string
	odd      bool // a key that is no constant
}

// neverKeys are keys of secret values: a line names a callback by its host alone.
var neverKeys = []string{"callback", "secret", "token", "body", "password", "header", "query", "challenge"}

// keyStyle is how all keys are spelled.
var keyStyle = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// TestLogLines: messages are constants, so that lines can be searched for and counted; keys are of one
// style, and never of secret values. Those in docs/logs.md exist.
func TestLogLines(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			explained[key[1]] = false
		}
	}
	if len(explained) < 15 {
		t.Errorf("docs/logs.md explains only %d keys", len(explained))
	}
	messages, lines := map[string]bool{}, 0
	walkCode(t, func(name string) {
		name = filepath.ToSlash(name)
		if strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "internal/redistest/") {
			return
		}
		for _, line := range logLines(t, name, nil) {
			lines++
			messages[line.message] = true
			checkLine(t, line)
			for _, key := range line.keys {
				explained[key] = true
			}
		}
	})
	if lines < 150 {
		t.Errorf("only %d log lines were found", lines)
	}
	for key, used := range explained {
		if !used {
			t.Errorf("docs/logs.md: no line has the key %q", key)
		}
	}
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:info|warn|error)").FindAllStringSubmatch(string(page), -1)
	for _, row := range quoted {
		if !messages[row[1]] {
			t.Errorf("docs/logs.md: no line says %q", row[1])
		}
	}
	if len(quoted) < 15 {
		t.Errorf("docs/logs.md explains only %d lines", len(quoted))
	}
}

func checkLine(t *testing.T, line logLine) {
	t.Helper()
	if !line.constant && !slices.Contains(sayWarnings, line.file) {
		t.Errorf("%s: the message is no constant", line.at)
	}
	if line.odd {
		t.Errorf("%s: a key is no constant", line.at)
	}
	for _, key := range line.keys {
		if !keyStyle.MatchString(key) {
			t.Errorf("%s: the key %q is not in small letters and underscores", line.at, key)
		}
		if slices.Contains(neverKeys, key) {
			t.Errorf("%s: the key %q is of what no line may show", line.at, key)
		}
	}
}

// logLines finds the calls of loggers in a file, or in src if that is not nil.
func logLines(t *testing.T, name string, src any) (found []logLine) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || levels[method.Sel.Name] == 0 || !isLogger(method.X) || len(call.Args) == 0 {
			return true
		}
		line := logLine{at: set.Position(call.Pos()).String(), file: name, constant: isConstant(call.Args[0])}
		line.message, _ = literal(call.Args[0])
		for i, arg := range call.Args[1:] {
			if call.Ellipsis.IsValid() && i == len(call.Args)-2 {
				line.keys = append(line.keys, keysOf(arg)...)
				break
			}
			if key, ok := literal(arg); i%2 == 0 && ok {
				line.keys = append(line.keys, key)
			} else if i%2 == 0 {
				line.odd = true
			}
		}
		found = append(found, line)
		return true
	})
	return found
}

// isLogger recognizes loggers by their names.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log" || x.Name == "logger"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "logger" || x.Sel.Name == "Logger"
	case *ast.CallExpr:
		called, ok := x.Fun.(*ast.SelectorExpr)
		return ok && called.Sel.Name == "With" && isLogger(called.X)
	}
	return false
}

// isConstant recognizes texts that stand in the code, also in several parts.
func isConstant(x ast.Expr) bool {
	if sum, ok := x.(*ast.BinaryExpr); ok {
		return isConstant(sum.X) && isConstant(sum.Y)
	}
	_, ok := literal(x)
	return ok
}

func literal(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// keysOf are the keys in the list that append is given first.
func keysOf(x ast.Expr) (keys []string) {
	call, ok := x.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	list, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for i, element := range list.Elts {
		if key, ok := literal(element); ok && i%2 == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestLogLinesAreFound: the test finds its lines, and nothing else.
func TestLogLinesAreFound(t *testing.T) {
	for _, tt := range []struct {
		code     string
		lines    int
		constant bool
		keys     string
	}{
		{`d.log.Warn("it fails", "error", err)`, 1, true, "error"},
		{`h.cfg.Logger.Info("a" + "b", "one", 1, "two", 2)`, 1, true, "one two"},
		{`logger.With("x", 1).Error("it fails")`, 1, true, ""},
		{`log.Info(text)`, 1, false, ""},
		{`k.logger.Info("x", append([]any{"kind", k}, more...)...)`, 1, true, "kind"},
		{`t.Error("it fails")`, 0, false, ""},
		{`http.Error(w, "text", 1)`, 0, false, ""},
	} {
		found := logLines(t, "x.go", "package x\nfunc f() { "+tt.code+" }\n")
		if len(found) != tt.lines || tt.lines > 0 && (found[0].constant != tt.constant || strings.Join(found[0].keys, " ") != tt.keys) {
			t.Errorf("%s: %+v", tt.code, found)
		}
	}
}
