package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// input is what a scanner reads, within the Limits.
type input struct {
	src   io.Reader // nil: all input is in buf
	lim   Limits
	buf   []byte // buf[pos:] is read and not consumed
	pos   int
	eof   bool
	total int64 // bytes read from src
	line  int   // of buf[counted]

	counted int // buf[:counted] is in line
}

// need makes sure that n bytes of the current token are in the buffer.
func (in *input) need(n int) error {
	for len(in.buf)-in.pos < n {
		if err := in.more(); err != nil {
			return err
		}
	}
	return nil
}

// index returns where end first stands in the input, counted from pos, at or
// after from; the input up to there is in the buffer then.
func (in *input) index(end string, from int) (int, error) {
	if len(end) == 1 { // most often
		if i := bytes.IndexByte(in.buf[min(in.pos+from, len(in.buf)):], end[0]); i >= 0 {
			return in.within(from + i)
		}
	}
	for {
		have := in.buf[in.pos:]
		if i := bytes.Index(have[min(from, len(have)):], []byte(end)); i >= 0 {
			return in.within(from + i)
		}
		from = max(from, len(have)-len(end)+1)
		if err := in.more(); err != nil {
			return 0, in.inToken(err)
		}
	}
}

// within lets the length n of a token pass if it is within the limit.
func (in *input) within(n int) (int, error) {
	if n > in.lim.EntryBytes {
		return 0, in.fail(ErrTooLarge,
			fmt.Sprintf("one part of it has more than %d bytes", in.lim.EntryBytes))
	}
	return n, nil
}

// inToken turns the end of the input into what it is inside a token.
func (in *input) inToken(err error) error {
	if errors.Is(err, errEnd) {
		return in.syntax("the document ends too early")
	}
	return err
}

// more reads on. The buffer from pos on stays; everything before it is given up. It returns errEnd at
// the end.
func (in *input) more() error {
	if in.eof {
		return errEnd
	}
	if _, err := in.within(len(in.buf) - in.pos); err != nil {
		return err
	}
	in.countLines()
	in.buf = in.buf[:copy(in.buf, in.buf[in.pos:])]
	in.pos, in.counted = 0, 0
	if len(in.buf) == cap(in.buf) {
		in.buf = append(make([]byte, 0, 2*cap(in.buf)), in.buf...)
	}
	for range 100 {
		n, err := in.src.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+n]
		in.total += int64(n)
		switch {
		case in.total > in.lim.Bytes:
			return in.fail(ErrTooLarge, fmt.Sprintf("it has more than %d bytes", in.lim.Bytes))
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("reading XML: %w", err)
		}
		in.eof = err != nil
		if n > 0 {
			return nil
		}
		if in.eof {
			return errEnd
		}
	}
	return io.ErrNoProgress
}

// countLines brings line up to pos. It is put off until the bytes are given up or a caller needs it.
func (in *input) countLines() { in.countTo(in.pos) }

func (in *input) countTo(pos int) {
	in.line += bytes.Count(in.buf[in.counted:pos], []byte{'\n'})
	in.counted = pos
}

// consume passes over the next n bytes.
func (in *input) consume(n int) {
	in.pos += n
}

func (in *input) syntax(reason string) error { return in.fail(ErrSyntax, reason) }

func (in *input) fail(kind error, reason string) error {
	in.countLines()
	return fmt.Errorf("%w, line %d: %s", kind, in.line, reason)
}

// begins reports whether the input goes on with prefix.
func (in *input) begins(prefix string) bool {
	// The end of the input, or trouble, shows up where the token is read.
	_ = in.need(len(prefix))
	return bytes.HasPrefix(in.buf[in.pos:], []byte(prefix))
}

// errEnd is the end of the input; whether that is an error depends on the place.
var errEnd = errors.New("end of input")
