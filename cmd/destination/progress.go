package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination/mirror"
)

// How often a command says how far it has come.
const (
	progressOnTerminal = 200 * time.Millisecond
	progressInLog      = 30 * time.Second
)

// showProgress reports how far a mirror has come until the returned end is called: in one line of
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
	line += fmt.Sprintf(
		", %d fetched, %s, %.0f/s", at.Fetched, megabytes(at.Bytes), float64(at.Done())/max(since.Seconds(), 0.001),
	)
	if at.PackageBytes > 0 {
		line += fmt.Sprintf(", packages: %s", megabytes(at.PackageBytes))
		if at.PackageTotal >= at.PackageBytes {
			line += " of " + megabytes(at.PackageTotal)
		}
	}
	if left := timeLeft(at, since); left > 0 {
		line += ", " + left.String() + " left"
	}
	if failure := at.Failed + at.Missing + at.Refused + at.Invalid; failure > 0 {
		line += fmt.Sprintf(", %d not to be had", failure)
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

// outcome is the outcome of a run.
type outcome struct {
	mirror.Progress
	mirror.Counts
	took time.Duration
}

// invalid is how many resources cannot be asked for: those that are recorded, and those of this run
// whose loc is too long to be recorded.
func (o *outcome) invalid() int { return max(o.Counts[mirror.Invalid], int(o.Progress.Invalid)) }

func (o *outcome) text(w io.Writer, what string) error {
	_, err := fmt.Fprintf(w, "%s: %d fetched (%s%s), %d unchanged, %d deleted, in %s; the mirror has "+
		"%d whole, %d missing at their servers, %d failed, %d kept though deleted, %d outside, %d invalid\n",
		what, o.Fetched, megabytes(o.Bytes), o.origins(), o.Unchanged, o.Progress.Deleted,
		o.took.Round(time.Millisecond), o.Counts[mirror.Whole], o.Counts[mirror.Missing],
		o.Counts[mirror.Failed], o.Counts[mirror.Gone], o.Counts[mirror.Refused], o.invalid())
	return err
}

// origins says how many came from packages, where any package was used.
func (o *outcome) origins() string {
	if o.Packages+o.Unusable == 0 {
		return ""
	}
	return fmt.Sprintf("; %d from %d packages, %d by GET", o.Unpacked, o.Packages, o.Fetched-o.Unpacked)
}

func (o *outcome) json(w io.Writer, what string) error {
	return printJSON(w, struct {
		Command   string  `json:"command"`
		Fetched   int64   `json:"fetched"`
		Bytes     int64   `json:"bytes"`
		Unpacked  int64   `json:"from_packages"`
		Asked     int64   `json:"by_get"`
		Spoiled   int64   `json:"spoiled_in_packages"`
		Packages  int64   `json:"packages"`
		Unusable  int64   `json:"unusable_packages"`
		Unchanged int64   `json:"unchanged"`
		Deleted   int64   `json:"deleted"`
		Seconds   float64 `json:"seconds"`
		Whole     int     `json:"whole"`
		Missing   int     `json:"missing"`
		Failed    int     `json:"failed"`
		Kept      int     `json:"kept"`
		Outside   int     `json:"outside"`
		Invalid   int     `json:"invalid"`
	}{
		what, o.Fetched, o.Bytes, o.Unpacked, o.Fetched - o.Unpacked,
		o.Spoiled, o.Packages, o.Unusable, o.Unchanged, o.Progress.Deleted, o.took.Seconds(),
		o.Counts[mirror.Whole], o.Counts[mirror.Missing], o.Counts[mirror.Failed],
		o.Counts[mirror.Gone], o.Counts[mirror.Refused], o.invalid(),
	})
}
