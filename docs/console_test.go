package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"carillon/internal/redistest"
)

// TestConsole follows each page in order: it runs the commands as they are written and
// compares their output with the page, line by line. Ports, identifiers, times and sizes
// may differ; … matches any text.
func TestConsole(t *testing.T) {
	t.Parallel() // most of it is waiting
	ran := 0
	for _, page := range pages(t) {
		_, blocks := readPage(t, page)
		if !hasConsole(blocks) {
			continue
		}
		ran++
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			newWalk(t, blocks).through(blocks)
		})
	}
	if ran < 3 {
		t.Errorf("%d pages have commands to run", ran)
	}
}

func hasConsole(blocks []block) bool {
	for _, b := range blocks {
		if b.lang == "console" {
			return true
		}
	}
	return false
}

// walk is one pass through one page.
type walk struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	env     []string
	ports   map[string]string // a port of the page: the one that stands for it here
	known   map[string]string // an identifier of the page: the one that was seen for it
	shell   *shell
	running []*running
}

func newWalk(t *testing.T, blocks []block) *walk {
	t.Helper()
	bin := programs(t) // which takes its time
	ctx, cancel := context.WithTimeout(t.Context(), pageWithin)
	t.Cleanup(cancel)
	w := &walk{t: t, ctx: ctx, dir: t.TempDir(), known: map[string]string{}, ports: freePorts(t, blocks)}
	testdata, err := filepath.Abs(filepath.Join(root, "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	// The page builds the programs; the test has built them already.
	for name, target := range map[string]string{"bin": bin, "testdata": testdata} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOFLAGS=",
		w.here("HUB_LISTEN=127.0.0.1:8080"), w.here("HUB_ADMIN=127.0.0.1:8081"),
		w.here("NOTIFIER_LISTEN=127.0.0.1:8090"), w.here("NOTIFIER_INTAKE=127.0.0.1:8091"),
		w.here("NOTIFIER_HUB=http://127.0.0.1:8080/websub/"), w.here("DESTINATION_LISTEN=127.0.0.1:8092"))
	w.shell = newShell(w)
	return w
}

// usualPorts are the default ports of the programs.
var usualPorts = []string{"8080", "8081", "8090", "8091", "8092"}

// freePorts finds a free port for each port that the page names.
func freePorts(t *testing.T, blocks []block) map[string]string {
	t.Helper()
	names := append([]string{}, usualPorts...)
	for _, b := range blocks {
		for _, m := range regexp.MustCompile(`(?:127\.0\.0\.1|localhost):(\d{4,5})\b`).FindAllStringSubmatch(strings.Join(b.lines, "\n"), -1) {
			names = append(names, m[1])
		}
	}
	ports := map[string]string{}
	for _, name := range names {
		if ports[name] != "" {
			continue
		}
		port, err := redistest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports[name] = strconv.Itoa(port)
	}
	return ports
}

// through runs all blocks of the page.
func (w *walk) through(blocks []block) {
	for _, b := range blocks {
		if name, ok := b.directive("file"); ok {
			w.write(b, name)
		}
		if name, ok := b.directive("stop"); ok {
			w.stop(w.find(b, name))
		}
		if after, ok := b.directive("after"); ok {
			name, text, _ := strings.Cut(after, " ")
			w.find(b, name).waitLog(b, text)
		}
		if name, ok := b.directive("from"); ok {
			w.printed(b, w.find(b, name), name, b.lines)
		} else if b.lang == "console" {
			w.commands(b)
		}
	}
	for len(w.running) > 0 {
		w.stop(w.running[len(w.running)-1])
	}
}

// printed compares a program's next lines with the page. At a line … it reads on until the
// lines after it appear.
func (w *walk) printed(b block, r *running, who string, shows []string) {
	if !slices.Contains(shows, "…") {
		w.compare(b, who, shows, r.next(b, len(shows)))
		return
	}
	var lines []string
	for !w.fits(shows, lines) {
		lines = append(lines, r.next(b, 1)...)
	}
}

func (w *walk) write(b block, name string) {
	text := w.here(strings.Join(b.lines, "\n") + "\n")
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatalf("%s:%d: %v", b.page, b.line, err)
	}
}

// commands returns the commands of a block. Each begins a line with "$ ".
func (w *walk) commands(b block) {
	if len(b.lines) == 0 || !strings.HasPrefix(b.lines[0], "$ ") {
		w.t.Fatalf("%s:%d: the block begins with no command", b.page, b.line)
	}
	for i := 0; i < len(b.lines); {
		command := strings.TrimPrefix(b.lines[i], "$ ")
		for i++; strings.HasSuffix(command, `\`) && i < len(b.lines); i++ {
			command += "\n" + b.lines[i]
		}
		var shows []string
		for ; i < len(b.lines) && !strings.HasPrefix(b.lines[i], "$ "); i++ {
			shows = append(shows, b.lines[i])
		}
		w.command(b, command, shows)
	}
}

func (w *walk) command(b block, command string, shows []string) {
	if command == "go build -o bin/ ./cmd/..." {
		return // programs does so
	}
	name, runs := b.directive("runs")
	if !runs && len(shows) > 0 && strings.Contains(shows[0], " ready ") {
		name, _, _ = strings.Cut(shows[0], " ")
		runs = strings.Contains(command, name) // and not a look at what it has printed
	}
	if runs {
		w.printed(b, w.start(b, name, command), command, shows)
		return
	}
	_, again := b.directive("until")
	for {
		out, status := w.shell.run(b, w.here(command))
		fits := w.fits(shows, out)
		switch {
		case again && !fits && w.ctx.Err() == nil:
			continue
		case len(shows) > 0:
			w.compare(b, command, shows, out)
		case status != 0:
			w.t.Errorf("%s:%d: %s\nended with status %d and printed\n%s", b.page, b.line, command, status, strings.Join(out, "\n"))
		}
		return
	}
}

// here replaces the page's ports and identifiers by those of this walk.
func (w *walk) here(text string) string {
	for page, port := range w.ports {
		text = regexp.MustCompile(`\b`+page+`\b`).ReplaceAllString(text, "@"+port) // @: not to be replaced again
	}
	text = regexp.MustCompile(`@(\d{4,5})\b`).ReplaceAllString(text, "$1")
	for page, seen := range w.known {
		text = strings.ReplaceAll(text, page, seen)
	}
	return strings.ReplaceAll(text, "go run ./cmd/", "")
}

const uuidForm = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

const (
	timeForm = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?`
	spanForm = `\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\b` // 9d23h, 1.1s
	sizeForm = `\b\d+(?:\.\d+)? [kMG]?B\b`
)

// vary matches the parts of the output that differ from run to run.
var vary = regexp.MustCompile(`(?m)^…\n?|…|` + timeForm + `|` + uuidForm + `|` + spanForm + `|` + sizeForm + `|[ \t]+`)

// form returns the placeholder for such a part.
var form = map[*regexp.Regexp]string{
	regexp.MustCompile(`^` + timeForm + `$`): timeForm,
	regexp.MustCompile(`^` + spanForm + `$`): spanForm,
	regexp.MustCompile(`^` + sizeForm + `$`): sizeForm,
}

// fits reports whether lines match the page, and learns identifiers from them.
func (w *walk) fits(shows, lines []string) bool {
	want, pattern, last := w.here(strings.Join(shows, "\n")+"\n"), `\A`, 0
	var names []string
	for _, at := range vary.FindAllStringIndex(want, -1) {
		pattern += regexp.QuoteMeta(want[last:at[0]])
		switch piece := want[at[0]:at[1]]; {
		case piece == "…\n":
			pattern += `(?:.*\n)*?`
		case piece == "…":
			pattern += `.*`
		case strings.TrimLeft(piece, " \t") == "":
			pattern += `[ \t]+`
		case regexp.MustCompile(`^` + uuidForm + `$`).MatchString(piece):
			if w.seen(piece) {
				pattern += piece
			} else {
				pattern, names = pattern+`(`+uuidForm+`)`, append(names, piece)
			}
		default:
			for piecewise, any := range form {
				if piecewise.MatchString(piece) {
					pattern += any
				}
			}
		}
		last = at[1]
	}
	pattern += regexp.QuoteMeta(want[last:]) + `\z`
	var got strings.Builder
	for _, line := range lines {
		got.WriteString(strings.TrimRight(line, " \t\r") + "\n")
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(got.String())
	for i, name := range names {
		if found != nil {
			w.known[name] = found[i+1]
		}
	}
	return found != nil
}

func (w *walk) seen(id string) bool {
	for _, known := range w.known {
		if known == id {
			return true
		}
	}
	return false
}

func (w *walk) compare(b block, who string, shows, lines []string) {
	w.t.Helper()
	if !w.fits(shows, lines) {
		w.t.Errorf("%s:%d: %s\nprinted\n  %s\nthe page shows\n  %s", b.page, b.line, who,
			strings.Join(lines, "\n  "), w.here(strings.Join(shows, "\n  ")))
		for _, r := range w.running {
			w.t.Logf("the log of %s:\n%s", r.name, r.logged())
		}
	}
}

// shell runs the commands that end by themselves.
type shell struct {
	w   *walk
	in  io.Writer
	out *bufio.Reader
}

// endOfCommand is printed after each command, with its exit status.
const endOfCommand = "--- the command has ended: "

func newShell(w *walk) *shell {
	cmd := exec.CommandContext(w.ctx, "sh")
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = in.Close()
		// Background jobs of the page would run forever.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return &shell{w: w, in: in, out: bufio.NewReader(out)}
}

func (s *shell) run(b block, command string) (lines []string, status int) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1; printf '\\n%s%%s\\n' $?\n", command, endOfCommand); err != nil {
		s.w.t.Fatalf("%s:%d: %s: %v", b.page, b.line, command, err)
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.w.t.Fatalf("%s:%d: %s: the shell has ended; it printed\n%s", b.page, b.line, command, strings.Join(lines, "\n"))
		}
		line = strings.TrimSuffix(line, "\n")
		if end, ok := strings.CutPrefix(line, endOfCommand); ok {
			_, err := fmt.Sscan(end, &status)
			if n := len(lines) - 1; n >= 0 && lines[n] == "" { // what printf began
				lines = lines[:n]
			}
			if err != nil {
				s.w.t.Fatal(err)
			}
			return lines, status
		}
		lines = append(lines, line)
	}
}
