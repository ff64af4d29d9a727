package program

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Screen is a terminal whose last line may show progress. Everything written to it, as by a
// Logger, appears above that line.
type Screen struct {
	to io.Writer

	mu   sync.Mutex
	line string // that is shown; guarded by mu
}

// OnScreen returns a Screen if w is a terminal, and else w itself, such as a pipe or a file.
func OnScreen(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return NewScreen(f)
	}
	return w
}

// NewScreen makes a Screen of a terminal.
func NewScreen(terminal io.Writer) *Screen { return &Screen{to: terminal} }

// clearLine goes to the beginning of the line and empties it.
const clearLine = "\r\x1b[K"

// Write writes lines above the last one.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == "" {
		return s.to.Write(p)
	}
	whole := append([]byte(clearLine), p...)
	if _, err := s.to.Write(append(whole, s.line...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Show has the last line be a text; "" takes it away.
func (s *Screen) Show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.line {
		s.line = line
		_, _ = io.WriteString(s.to, clearLine+line) // a terminal that is gone needs none
	}
}
