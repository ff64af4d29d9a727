package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination/mirror"
	"carillon/internal/legible"
)

// How often a command says how far it has come.
const (
	progressOnTerminal = 200 * time.Millisecond
	progressInLog      = 30 * time.Second
)

// showProgress tells how far a mirror has come until the returned end is called: in one line of
// a terminal that changes, or now and then in the log.
func showProgress(what string, m *mirror.Mirror, in surroundings) (end func()) {
	screen, _ := in.stderr.(*program.Screen)
	every := progressInLog
	if screen != nil {
		every = progressOnTerminal
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		begun, tick := time.Now(), time.NewTicker(every)
		defer tick.Stop()
		before := m.Progress()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			at := m.Progress()
			switch {
			case screen != nil:
				screen.Show(progressLine(what, at, time.Since(begun)))
			case at != before:
				in.logger.Info("the mirror is being brought up to date", "command", what,
					"done", at.Done(), "of", at.Total, "fetched", at.Fetched, "bytes", at.Bytes,
					"from_packages", at.Unpacked, "package_bytes", at.PackageBytes,
					"time_left", timeLeft(at, time.Since(begun)),
					"not_to_be_had", at.Failed+at.Missing+at.Refused+at.Invalid)
			}
			before = at
		}
	}()
	return func() {
		stop()
		<-ended
		if screen != nil {
			screen.Show("")
		}
	}
}

func progressLine(what string, at mirror.Progress, since time.Duration) string {
	line := fmt.Sprintf("%s: %d", what, at.Done())
	if at.Total > 0 {
		line += fmt.Sprintf(" of %d (%d%%)", at.Total, min(100*at.Done()/at.Total, 100))
	}
	line += fmt.Sprintf(", %d fetched, %s, %.0f/s", at.Fetched, megabytes(at.Bytes), float64(at.Done())/max(since.Seconds(), 0.001))
	if at.PackageBytes > 0 {
		line += fmt.Sprintf(", packages: %s", megabytes(at.PackageBytes))
		if at.PackageTotal >= at.PackageBytes {
			line += " of " + megabytes(at.PackageTotal)
		}
	}
	if left := timeLeft(at, since); left > 0 {
		line += ", " + left.String() + " left"
	}
	if trouble := at.Failed + at.Missing + at.Refused + at.Invalid; trouble > 0 {
		line += fmt.Sprintf(", %d not to be had", trouble)
	}
	return line
}

// timeLeft estimates how long the rest takes, by what was done so far: resources, or else bytes of
// packages. 0 where nothing is known.
func timeLeft(at mirror.Progress, since time.Duration) time.Duration {
	done, total := at.Done(), at.Total
	if done == 0 {
		done, total = at.PackageBytes, at.PackageTotal
	}
	if done <= 0 || total <= done {
		return 0
	}
	const grain = time.Second
	return max(time.Duration(float64(since)*float64(total-done)/float64(done)).Round(grain), grain)
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
