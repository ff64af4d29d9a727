package copies

import (
	"io"
	"log/slog"

	"carillon/internal/engine"
	"carillon/operator/ask"
	"carillon/transfer"
)

// NewReporter is Call.reporter.
func NewReporter(what string, size int64, stderr io.Writer, logger *slog.Logger) *reporter {
	return (&Call{Call: ask.Call{Stderr: stderr}, Engine: engine.Config{Logger: logger}}).reporter(what, size)
}

// Progress is progress.
func (r *reporter) Progress(p transfer.Progress) { r.progress(p) }
