package ask

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"carillon/internal/legible"
	"carillon/operator"
)

// The API's answers as text.

// table is aligned columns.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// row writes a row. A cell is foreign text: unprintable characters are left out.
func row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, legible.Text(fmt.Sprint(cell)))
	}
	fmt.Fprintln(w)
}

// short is text of so many characters at most, without its middle.
func short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	all := []rune(text)
	front := (most - 1) / 2
	return string(all[:front]) + "…" + string(all[len(all)-(most-1-front):])
}

// size is a number of bytes for people.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, at := float64(n)/1000, 0
	for f >= 999.95 && at < len(units)-1 {
		f, at = f/1000, at+1
	}
	return fmt.Sprintf("%.1f %cB", f, units[at])
}

// span is a time for people, by its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// dash is text, or - for an empty one.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// ago is how long ago something was; - where that is not known.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(max(0, time.Since(t))) + " ago"
}

// moment is a time, and how far away it is.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	far := ago(t)
	if ahead := time.Until(t); ahead > 0 {
		far = "in " + span(ahead)
	}
	return t.UTC().Format("2006-01-02 15:04:05Z") + ", " + far
}

// nextTry is when the next attempt of a subscription is.
func nextTry(s operator.Subscription) string {
	switch {
	case s.State == operator.StateInFlight:
		return "now" // the time is that at which it began
	case s.NextAttempt.IsZero():
		return "-"
	}
	return "in " + span(max(0, time.Until(s.NextAttempt)))
}

// outcome is how an attempt ended, with the status where there was one.
func outcome(class string, status uint16) string {
	if status == 0 {
		return dash(class)
	}
	return strings.TrimSpace(fmt.Sprintf("%s, %d %s", dash(class), status, http.StatusText(int(status))))
}

// brief is outcome for a narrow column.
func brief(class string, status uint16) string {
	if status == 0 {
		return dash(class)
	}
	return fmt.Sprintf("%s %d", dash(class), status)
}

// host is a callback's host for a narrow column: without the scheme that is as it should be.
func host(callback string, most int) string {
	return short(strings.TrimPrefix(callback, "https://"), most)
}

// columns is how wide a terminal is; elsewhere a width that shortens little.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 160
}

// count is a number of things: 1 gap, 2 gaps.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
