package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/payload"
)

// lines prints each change as a line of JSON.
type lines struct {
	w     io.Writer
	topic string
	rest  []byte // of the first change's line, which was written in part
	buf   []byte
}

var _ follow.Handler = (*lines)(nil)

// Take implements follow.Taker. A change is done with when its whole line was written.
func (l *lines) Handle(_ context.Context, changes []follow.Change) (int, error) {
	done := 0
	if len(l.rest) > 0 {
		n, err := l.w.Write(l.rest)
		if l.rest = l.rest[n:]; err != nil {
			return 0, fmt.Errorf("printing: %w", err)
		}
		done, changes = 1, changes[1:]
	}
	l.buf = l.buf[:0]
	ends := make([]int, len(changes))
	for i := range changes {
		l.buf = destination.AppendChange(l.buf, &changes[i].Entry, originOf(l.topic, &changes[i]))
		ends[i] = len(l.buf)
	}
	n, err := l.w.Write(l.buf)
	if err == nil {
		return done + len(changes), nil
	}
	begin := 0
	for _, end := range ends {
		if end > n {
			if n > begin {
				l.rest = append([]byte(nil), l.buf[n:end]...)
			}
			break
		}
		begin = end
		done++
	}
	return done, fmt.Errorf("printing: %w", err)
}

const (
	// execNoted is how long commands run before the changes that they are done with are noted: a
	// crash has those of so long run again.
	execNoted = time.Second
	// execStop is how long a command may go on when the program is stopped.
	execStop = 15 * time.Second
	// execKill is how long a command, with everything it started, may take to end after the signal.
	execKill = 5 * time.Second
	// maxVariable is how long a variable of the environment may be, bytes: a longer one is left
	// out, since no command could be run with it. The JSON has it.
	maxVariable = 32 << 10
)

// runner runs a command for each change.
type runner struct {
	command        string
	topic          string
	timeout        time.Duration
	stop           time.Duration // how long it may go on when the program is stopped; 0: execStop
	kill           time.Duration // how long it may take to end then; 0: execKill
	stdout, stderr io.Writer
	logger         *slog.Logger
}

var _ follow.Handler = (*runner)(nil)

// Take implements follow.Taker. A change is done with when its command has ended with
// status 0.
func (r *runner) Handle(ctx context.Context, changes []follow.Change) (int, error) {
	begun := time.Now()
	for i := range changes {
		if ctx.Err() != nil || i > 0 && time.Since(begun) > execNoted {
			return i, ctx.Err()
		}
		if err := r.run(ctx, &changes[i]); err != nil {
			return i, err
		}
	}
	return len(changes), nil
}

// run runs the command once. When ctx ends it may finish, within a bound.
func (r *runner) run(ctx context.Context, c *follow.Change) error {
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-running.Done():
		case <-time.After(cmp.Or(r.stop, execStop)):
			cancel()
		}
	})()
	cmd, end := shell(running, r.command, cmp.Or(r.kill, execKill))
	cmd.Stdin = bytes.NewReader(destination.AppendChange(nil, &c.Entry, originOf(r.topic, c)))
	cmd.Stdout, cmd.Stderr = r.stdout, r.stderr
	cmd.Env = append(foreign(os.Environ()), variables(r.topic, c)...)
	if err := cmd.Run(); err != nil {
		end() // it is run again: nothing of this run may be beside that one
		if running.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("--exec: it took longer than %s, and was ended", r.timeout)
		}
		return fmt.Errorf("--exec: %w", err)
	}
	return nil
}

// foreign are the variables that are not of a change: one that is left out is not there.
func foreign(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		switch strings.TrimPrefix(name, "CARILLON_") {
		case "KEY", "LOC", "CHANGE", "DATETIME", "VIA", "TOPIC":
			return strings.HasPrefix(name, "CARILLON_")
		}
		return false
	})
}

// variables are what a command finds in its environment.
func variables(topic string, c *follow.Change) []string {
	datetime := ""
	if !c.Datetime.IsZero() {
		datetime = payload.FormatDatetime(c.Datetime)
	}
	var all []string
	for _, v := range []struct{ name, value string }{
		{"KEY", c.Key},
		{"LOC", c.Loc},
		{"CHANGE", string(c.Change)},
		{"DATETIME", datetime},
		{"VIA", string(c.Via)},
		{"TOPIC", topic},
	} {
		if len(v.value) > maxVariable {
			continue
		}
		all = append(all, "CARILLON_"+v.name+"="+v.value)
	}
	return all
}

// shell is the command as the system's shell runs it, in a group of its own: signals of the terminal
// to this program do not reach the command. end is as of inOwnGroup.
func shell(ctx context.Context, command string, grace time.Duration) (cmd *exec.Cmd, end func()) {
	name, flag := shellOf()
	cmd = exec.CommandContext(ctx, name, flag, command)
	cmd.WaitDelay = grace
	return cmd, inOwnGroup(cmd, grace)
}

// originOf is where a change came from.
func originOf(topic string, c *follow.Change) destination.Origin {
	return destination.Origin{Topic: topic, Notification: c.Notification, Key: c.Key, Via: string(c.Via)}
}
