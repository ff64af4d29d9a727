package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"carillon/notifier"
)

// longestAnswer is how much of a notifier's answer is read.
const longestAnswer = 4 << 10

// handOver sends the snapshot to the notifier that has the directory open.
func (f *importCommand) handOver(
	ctx context.Context, in io.Reader, tell func(notifier.Imported),
) (done notifier.Imported, err error) {
	target, err := f.intakeURL(
		fmt.Sprintf("--data %s is used by another process; to hand the snapshot to the notifier there, ", f.Data),
	)
	if err != nil {
		return done, err
	}
	target += "/sets/" + f.Set + "/resources"
	if f.AllowEmpty {
		target += "?allow-empty=true"
	}
	client, err := f.client()
	if err != nil {
		return done, err
	}
	defer client.CloseIdleConnections()
	checked := checkLines(in, tell)
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, target, checked)
	if err != nil {
		return done, err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := client.Do(r)
	if wrong := checked.wrong.Load(); wrong != nil { // whatever became of the request
		err = *wrong
		if resp != nil {
			resp.Body.Close()
		}
		return done, err
	}
	if err != nil {
		return done, fmt.Errorf(
			"another process has --data %s open, and no notifier answers at --intake %s: %w", f.Data, f.Intake, err,
		)
	}
	defer resp.Body.Close()
	return answered(resp)
}

// answered reads what the notifier says.
func answered(resp *http.Response) (done notifier.Imported, err error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
	if err != nil {
		return done, fmt.Errorf("the notifier's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return done, refusal(resp, text)
	}
	var answer struct {
		Resources, Created, Updated, Deleted int
		Events, Pending                      bool
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return done, fmt.Errorf("the notifier's answer is none: %w", err)
	}
	return notifier.Imported{
		Resources: answer.Resources, Events: answer.Events, Pending: answer.Pending,
		Differences: notifier.Differences{Created: answer.Created, Updated: answer.Updated, Deleted: answer.Deleted},
	}, nil
}

// checkedLines are the lines of a snapshot, each checked before it is sent. So the first wrong
// line is reported even if the connection breaks.
type checkedLines struct {
	source *bufio.Reader
	tell   func(notifier.Imported)
	rest   []byte // of what was looked at
	number int
	done   notifier.Imported
	wrong  atomic.Pointer[error]
}

func checkLines(in io.Reader, tell func(notifier.Imported)) *checkedLines {
	return &checkedLines{source: bufio.NewReaderSize(in, 64<<10), tell: tell}
}

func (c *checkedLines) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// next looks at the next line.
func (c *checkedLines) next() error {
	line, err := c.line()
	c.number++
	if len(bytes.TrimSpace(line)) > 0 && (err == nil || errors.Is(err, io.EOF)) {
		if _, wrong := notifier.ParseResource(line); wrong != nil {
			var input *notifier.InputError
			if errors.As(wrong, &input) {
				placed := *input
				placed.Unit, placed.Number = "line", c.number
				wrong = &placed
			}
			c.wrong.Store(&wrong)
			return wrong
		}
		c.done.Resources++
		c.tell(c.done)
	}
	c.rest = line
	if len(line) > 0 && errors.Is(err, io.EOF) {
		return nil // the next call finds the end
	}
	return err
}

// line reads a line with its end; one that is too long is cut off, which ParseResource
// refuses.
func (c *checkedLines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.source.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > notifier.MaxEventBytes {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return line, err
		}
	}
}
