package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"carillon/internal/machine"
)

// StopWithin bounds the time from a signal to the end of the process,
// whatever hangs.
const StopWithin = 28 * time.Second

// Run is the body of a command: it returns the exit status. It ends when ctx does.
type Run func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Main runs a command until it ends by itself or by SIGINT or SIGTERM, and returns its exit status.
// After a signal it waits StopWithin, then gives up hanging work and returns 0. A second signal ends
// the drain, if there is one (see Drain), and else the process at once. Files that the process makes
// are for its user only: secrets are in them.
func Main(run Run) int {
	machine.OwnFilesOnly()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	status := make(chan int, 1)
	go func() { status <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	var why *asked
	select {
	case code := <-status:
		return code
	case s := <-signals:
		why = &asked{Signal: s}
		end(why)
		Notify("STOPPING=1")
	}
	late := time.After(StopWithin)
	for {
		select {
		case code := <-status:
			return code
		case s := <-signals:
			if why.again() {
				continue
			}
			signal.Stop(signals)
			if err := signalSelf(s); err != nil {
				return 1
			}
		case <-late:
			fmt.Fprintf(os.Stderr, "not everything stopped within %s; ending all the same\n", StopWithin)
			return 0
		}
	}
}

// signalSelf sends a signal to the process itself.
func signalSelf(s os.Signal) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(s)
}

// Fail prints the one line with the reason why a command cannot go on, and returns the exit status for
// it. Control characters are escaped: errors repeat texts of strangers.
func Fail(stderr io.Writer, name string, err error) int {
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	var b strings.Builder
	for _, r := range line {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, &b)
	return 1
}
