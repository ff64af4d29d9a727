package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination/follow"
	"carillon/internal/legible"
	"carillon/internal/machine"
	"carillon/internal/release"
)

const (
	name      = "destination"
	userAgent = "Carillon-Destination/" + release.Version
)

// Words that a setting may be instead of a URL.
const (
	auto = "auto"
	none = "none"
)

// command is one of the things that the program does.
type command interface {
	run(ctx context.Context, in surroundings) error
}

// surroundings are what a command works in.
type surroundings struct {
	logger         *slog.Logger
	stdout, stderr io.Writer
	again          program.Reloading // for what takes a change of its settings while it runs
}

// errReported ends the program with status 1 where its output has said why.
var errReported = errors.New("reported already")

// flagError names a setting as the command line does.
func flagError(err error) error {
	if setting, _, ok := strings.Cut(err.Error(), ": "); ok && !strings.Contains(setting, " ") {
		return fmt.Errorf("--%w", err)
	}
	return err
}

func isWebURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// notAhead refuses a moment in the future: nothing would be taken until then.
func notAhead(flag, told string, at time.Time) error {
	if at.After(time.Now().Add(follow.DefaultSkew)) {
		return fmt.Errorf("--%s: %s lies in the future, and every change before it would be passed over", flag, told)
	}
	return nil
}

// checkData looks at a data directory as a start would, and changes nothing.
func checkData(data string, logger *slog.Logger) error {
	if data == "" {
		return nil // which Validate reports
	}
	warnExposed(data, logger)
	if err := machine.CheckDirectory(data); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// warnExposed reports a data directory that others can read.
func warnExposed(data string, logger *slog.Logger) {
	for _, warning := range machine.ExposedDirectory("--data", data) {
		logger.Warn(warning)
	}
}

// printJSON prints an object as one line. Strangers' text in it does nothing to a terminal.
func printJSON(w io.Writer, v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(append(legible.AppendJSON(nil, bytes.TrimSuffix(line.Bytes(), []byte("\n"))), '\n'))
	return err
}

func megabytes(n int64) string {
	const mega = 1e6
	return fmt.Sprintf("%.1f MB", float64(n)/mega)
}
