package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// helps maps each command of a program to its help: "hub", "hub source add".
type helps map[string]string

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)(?: {2,}\S.*)?$`)
	flagInHelp  = regexp.MustCompile(`--(?:\[no-\])?([a-z][a-z0-9-]*)`)
	flagInText  = regexp.MustCompile(`(?:^|[\s(])--([a-z][a-z0-9-]*)`)
	codeSpan    = regexp.MustCompile("`([^`]+)`")
)

// readHelps reads the help of all commands of the three programs.
func readHelps(t *testing.T) helps {
	t.Helper()
	all := helps{}
	for _, program := range []string{"hub", "notifier", "destination"} {
		all[program] = help(t, program)
		_, list, _ := strings.Cut(all[program], "\nCommands:\n")
		for _, m := range commandLine.FindAllStringSubmatch(list, -1) {
			words := strings.Fields(m[1])
			for i := range words { // "source" as well as "source add"
				name := program + " " + strings.Join(words[:i+1], " ")
				if all[name] == "" {
					all[name] = help(t, program, words[:i+1]...)
				}
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("only %d commands are known", len(all))
	}
	return all
}

func help(t *testing.T, program string, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs(t), program), slices.Concat(words, []string{"--help"})...).Output()
	if err != nil {
		t.Fatalf("%s %q --help: %v", program, words, err)
	}
	return string(out)
}

// has reports whether a help names a flag.
func has(help, flag string) bool {
	for _, m := range flagInHelp.FindAllStringSubmatch(help, -1) {
		if m[1] == flag || m[1] == strings.TrimPrefix(flag, "no-") || strings.HasSuffix(flag, "-") && strings.HasPrefix(m[1], flag) { // --tls-…
			return true
		}
	}
	return false
}

// TestCommandsExist checks that every command and flag of the programs in the pages exists.
// Flags of other programs follow the name of theirs.
func TestCommandsExist(t *testing.T) {
	all, checked := readHelps(t), 0
	for _, page := range append(pages(t), "SECURITY.md", "CHANGELOG.md") {
		text, blocks := readPage(t, page)
		for _, line := range commandsOf(withoutOldNames(text), blocks) {
			checked++
			if wrong := all.check(line); wrong != "" {
				t.Errorf("%s: %q: %s", page, line, wrong)
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d commands and flags were found", checked)
	}
}

// withoutOldNames is text without the first column of CHANGELOG's tables of renames.
func withoutOldNames(text string) string {
	lines := strings.Split(text, "\n")
	inTable := false
	for i, line := range lines {
		if strings.HasPrefix(line, "#") {
			inTable = line == "### Renamed"
		}
		if cells := strings.SplitN(line, "|", 3); inTable && len(cells) == 3 {
			lines[i] = "||" + cells[2]
		}
	}
	return strings.Join(lines, "\n")
}

// commandsOf returns the command lines of a page, and the code in its text.
func commandsOf(text string, blocks []block) (lines []string) {
	for _, b := range blocks {
		if b.lang == "sh" || b.lang == "console" {
			joined := strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", " ")
			for line := range strings.SplitSeq(joined, "\n") {
				line, given := strings.CutPrefix(line, "$ ")
				if given || b.lang == "sh" { // the other lines of a console are output
					lines = append(lines, line)
				}
			}
		}
	}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		if fenceLine.MatchString(line) {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, code)
		}
		for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
			lines = append(lines, span[1])
		}
	}
	return lines
}

// ours finds one of the three programs as the command of a line.
var ours = regexp.MustCompile(`(?:^|[|;&(]\s*|go run \./cmd/)(?:\w+=\S+\s+)*(?:\./|bin/|/usr/local/bin/)?(hub|notifier|destination)( .*)?$`)

// check returns what is wrong with a command line of the three programs.
func (all helps) check(line string) string {
	line = strings.TrimSpace(line)
	if before, rest, ok := strings.Cut(line, " | "); ok { // a pipe is two commands
		return first(all.check(before), all.check(rest))
	}
	help := ""
	if m := ours.FindStringSubmatch(line); m != nil {
		name := m[1]
		for _, word := range strings.Fields(m[2]) {
			longer := name + " " + word
			if all[longer] == "" {
				if name == "hub" && regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(word) {
					return "there is no command " + longer
				}
				break
			}
			name = longer
		}
		help = all[name]
	}
	for _, m := range flagInText.FindAllStringSubmatch(line, -1) {
		switch {
		case help != "" && !has(help, m[1]):
			return "the command has no flag --" + m[1]
		case help == "" && strings.HasPrefix(line, "--") && !all.any(m[1]) && !slices.Contains(ofOthers, m[1]):
			return "no command has a flag --" + m[1]
		}
	}
	return ""
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// ofOthers are flags of other programs that appear alone.
var ofOthers = []string{"target", "profile"}

func (all helps) any(flag string) bool {
	for _, help := range all {
		if has(help, flag) {
			return true
		}
	}
	return false
}
