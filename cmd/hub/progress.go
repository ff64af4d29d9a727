package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/transfer"
)

// How often a long command says how far it has come.
const (
	progressOnTerminal = 200 * time.Millisecond
	progressInLog      = 10 * time.Second
)

// reporter tells how far an export or an import has come: in one line of a
// terminal that changes, or now and then in the log.
type reporter struct {
	what     string          // "exporting"
	size     int64           // of the stream in bytes; 0: not known
	terminal *program.Screen // nil: there is none
	logger   *slog.Logger
	begun    time.Time
	next     time.Time
	read     int64 // bytes, by reading
}

// newReporter makes a reporter that begins now.
func newReporter(what string, size int64, stderr io.Writer, logger *slog.Logger) *reporter {
	r := &reporter{what: what, size: size, logger: logger, begun: time.Now()}
	r.next = r.begun.Add(progressInLog)
	if screen, ok := stderr.(*program.Screen); ok {
		r.terminal, r.next = screen, r.begun
	}
	return r
}

// progress is called after every record.
func (r *reporter) progress(p transfer.Progress) {
	now := time.Now()
	if now.Before(r.next) {
		return
	}
	rate := int64(float64(p.Total()) / max(now.Sub(r.begun).Seconds(), 0.001))
	if r.terminal == nil {
		r.next = now.Add(progressInLog)
		r.logger.Info(r.what, "records", p.Counts.String(), "bytes", p.Bytes, "of_bytes", r.size, "records_per_second", rate)
		return
	}
	r.next = now.Add(progressOnTerminal)
	r.terminal.Show(fmt.Sprintf("%s: %s subscriptions %d, notifications %d, %d records/s",
		r.what, r.volume(p.Bytes), p.Subscriptions, p.Notifications, rate))
}

func (r *reporter) volume(bytes int64) string {
	const mega = 1e6
	if r.size == 0 {
		return fmt.Sprintf("%.1f MB,", float64(bytes)/mega)
	}
	return fmt.Sprintf("%3d%% of %.1f MB,", 100*bytes/r.size, float64(r.size)/mega)
}

// reading tells how much is read of what has no records to count.
func (r *reporter) reading(from io.Reader) io.Reader { return &counted{from, r} }

type counted struct {
	io.Reader
	to *reporter
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.to.bytes(int64(n))
	return n, err
}

// bytes is called after so many more.
func (r *reporter) bytes(n int64) {
	r.read += n
	now := time.Now()
	if now.Before(r.next) {
		return
	}
	if r.terminal == nil {
		r.next = now.Add(progressInLog)
		r.logger.Info(r.what, "bytes", r.read, "of_bytes", r.size)
		return
	}
	r.next = now.Add(progressOnTerminal)
	r.terminal.Show(fmt.Sprintf("%s: %s", r.what, strings.TrimSuffix(r.volume(r.read), ",")))
}

// end takes the line away: what follows says what became of it.
func (r *reporter) end() {
	if r.terminal != nil {
		r.terminal.Show("")
	}
}
