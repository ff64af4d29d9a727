//go:build unix

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"carillon/destination/follow"
	"carillon/payload"
)

// Of a command that has failed nothing is left, whatever it started and whatever that ignores: the next
// run would be beside it.
func TestExecLeavesNothing(t *testing.T) {
	for name, command := range map[string]string{
		"ignores":    `trap "" TERM; echo begun; sleep 1000`,
		"its child":  `(trap "" TERM; echo begun; sleep 1000) & wait`,
		"background": `(trap "" TERM; echo begun; sleep 1000) & exit 3`,
		"no shell":   `echo begun; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe() // it ends when the last holder has closed it
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			r := &runner{
				command: command, timeout: time.Second, kill: 100 * time.Millisecond, stdout: write,
				stderr: io.Discard, logger: slog.New(slog.DiscardHandler),
			}
			if done, err := r.Handle(
				t.Context(), []follow.Change{{Entry: payload.Entry{Loc: "http://example.com/"}, Key: "k"}},
			); done != 0 || err == nil {
				t.Errorf("done %d: %v", done, err)
			}
			write.Close()
			if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if out, err := io.ReadAll(read); err != nil || len(bytes.TrimPrefix(out, []byte("begun\n"))) > 0 {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}
