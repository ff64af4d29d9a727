package notifier

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrBadLines: some lines were no events that could be taken.
var ErrBadLines = errors.New("some lines were refused")

// linesAtOnce is how many lines of a stream are put in the journal together, if
// they are there already.
const linesAtOnce = 1000

// LineReader takes the events of an NDJSON stream, for as long as it lasts.
type LineReader struct {
	// Refused is called for each line that is no event or names no set that is
	// served; its error is an *InputError with the number of the line.
	Refused func(error)
	// Strict stops at the first such line. The lines before it are taken.
	Strict bool
}

// ReadLines puts the events of r, one JSON object on each line, in the journal. An
// event that names no sets belongs to the one set there is; where there are
// several it is refused. When the journal is not available it waits and tries again.
// It returns the number of events that were taken, and ErrBadLines if lines
// were refused, the error of r, or ctx's. A Read of r that blocks is waited for.
func (n *Notifier) ReadLines(ctx context.Context, r io.Reader, how LineReader) (taken int, err error) {
	source := bufio.NewReaderSize(r, 64<<10)
	var waiting []Event
	bad, ended := false, false
	for number := 1; !ended; number++ {
		line, readErr := readLine(source)
		ended = readErr != nil && !errors.Is(readErr, errLineTooLong)
		if event, ok, refused := n.lineEvent(line, readErr); refused != nil {
			bad = true
			how.Refused(refused.at("line", number))
			ended = ended || how.Strict
		} else if ok {
			waiting = append(waiting, event)
		}
		if ended || len(waiting) >= linesAtOnce || !lineBuffered(source) {
			if err := n.appendPatiently(ctx, waiting); err != nil {
				return taken, err
			}
			taken += len(waiting)
			waiting = waiting[:0]
		}
		if ended && readErr != nil && !errors.Is(readErr, io.EOF) && !errors.Is(readErr, errLineTooLong) {
			return taken, fmt.Errorf("read line %d: %w", number, readErr)
		}
	}
	if bad {
		return taken, ErrBadLines
	}
	return taken, nil
}

// lineBuffered reports whether the next line can be read without waiting for its end.
func lineBuffered(r *bufio.Reader) bool {
	buffered, _ := r.Peek(r.Buffered()) // there are so many
	return bytes.IndexByte(buffered, '\n') >= 0
}

// lineEvent reads the event of a line, if there is one.
func (n *Notifier) lineEvent(line []byte, readErr error) (e Event, ok bool, refused *InputError) {
	if errors.Is(readErr, errLineTooLong) {
		return Event{}, false, errTooLong()
	}
	if blank(line) || readErr != nil && !errors.Is(readErr, io.EOF) { // nothing, or a part
		return Event{}, false, nil
	}
	e, err := ParseEvent(line)
	if err == nil && e.Sets == nil && len(n.channels) == 1 {
		e.Sets = []string{n.channels[0].set}
	}
	if err == nil {
		err = n.gate.admits(&e)
	}
	if err != nil {
		return Event{}, false, inputError(err)
	}
	return e, true, nil
}

var errLineTooLong = errors.New("line too long")

// readLine reads a line, of bounded length: of one that is longer the rest is
// passed over, and the error is errLineTooLong. The last line may come
// together with io.EOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxEventBytes+2; !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLineTooLong // the end is found again by the next call
		default:
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// appendPatiently appends for as long as it takes the journal to be there.
func (n *Notifier) appendPatiently(ctx context.Context, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	return patiently(ctx, n.log, "reading lines", func() error { return n.Append(ctx, events) })
}
