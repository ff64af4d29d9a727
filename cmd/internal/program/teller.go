package program

import (
	"io"
	"log/slog"
	"time"
)

// How often a long command says how far it has come.
const (
	TellOnScreen = 200 * time.Millisecond
	tellInLog    = 10 * time.Second
)

// Teller reports the progress of a long command: in the last line of a Screen, or now and then in
// the log.
type Teller struct {
	screen *Screen // nil: progress goes to the log
	logger *slog.Logger
	begun  time.Time
	next   time.Time
}

// NewTeller makes a Teller that begins now. It logs where stderr is no Screen.
func NewTeller(stderr io.Writer, logger *slog.Logger) *Teller {
	t := &Teller{logger: logger, begun: time.Now()}
	t.next = t.begun.Add(tellInLog)
	if screen, ok := stderr.(*Screen); ok {
		t.screen, t.next = screen, t.begun
	}
	return t
}

// Due reports whether it is time for Tell, and says so once.
func (t *Teller) Due() bool {
	now := time.Now()
	if now.Before(t.next) {
		return false
	}
	every := tellInLog
	if t.screen != nil {
		every = TellOnScreen
	}
	t.next = now.Add(every)
	return true
}

// PerSecond returns how many of n there were in a second.
func (t *Teller) PerSecond(n int) int64 {
	return int64(float64(n) / max(time.Since(t.begun).Seconds(), 0.001))
}

// Tell shows a line, or logs a message with attributes.
func (t *Teller) Tell(line, message string, attributes ...any) {
	if t.screen != nil {
		t.screen.Show(line)
		return
	}
	t.logger.Info(message, attributes...)
}

// End takes the line away: the next line has the outcome.
func (t *Teller) End() {
	if t.screen != nil {
		t.screen.Show("")
	}
}
