package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Errors that tell what is wrong with a stream, wrapped with the number of the line.
var (
	// ErrNotExport: the first line is not the header of an export.
	ErrNotExport = errors.New("this is not an export of a hub")
	// ErrVersion: another version of the program wrote it.
	ErrVersion = fmt.Errorf("only the versions %d to %d of the format are understood", OldestVersion, Version)
	// ErrCutOff: the stream ends before its last line.
	ErrCutOff = errors.New("the stream is cut off: it has no last line")
	// ErrDamaged: the stream is not what the export wrote.
	ErrDamaged = errors.New("the stream is damaged")
)

// lines reads a stream line by line, and counts and sums up what it read.
type lines struct {
	in      *bufio.Reader
	max     int64 // how long a line may be
	buffer  []byte
	number  int // of the line read last, from 1
	sum     hash.Hash
	before  digest // of the lines before that line
	bytes   int64
	maxBody int64
}

func newLines(in io.Reader, maxBody int64) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), max: maxLine(maxBody), sum: sha256.New(), maxBody: maxBody}
}

// next returns the next line without its end; it is valid until the next call.
// At the end of the stream it is io.EOF.
func (l *lines) next() ([]byte, error) {
	l.number++
	l.sum.Sum(l.before[:0])
	l.buffer = l.buffer[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.buffer = append(l.buffer, part...)
		l.bytes += int64(len(part))
		l.sum.Write(part)
		switch {
		case int64(len(l.buffer)) > l.max:
			return nil, l.failed(fmt.Errorf("%w: a line of more than %d bytes", ErrDamaged, l.max))
		case err == nil:
			return l.buffer[:len(l.buffer)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.buffer) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, l.failed(ErrCutOff)
		default:
			return nil, l.failed(err)
		}
	}
}

// failed says on which line it was.
func (l *lines) failed(err error) error { return fmt.Errorf("line %d: %w", l.number, err) }

// header reads the first line.
func (l *lines) header() (headerLine, error) {
	var h headerLine
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return h, l.failed(fmt.Errorf("%w: it is empty", ErrNotExport))
	}
	if err != nil {
		return h, err
	}
	if k, err := kindOf(line); err != nil || k != kindHeader {
		return h, l.failed(ErrNotExport)
	}
	// Another version may have other fields.
	if err := json.Unmarshal(line, &h); err != nil || h.Format != Format {
		return h, l.failed(ErrNotExport)
	}
	if h.Version < OldestVersion || h.Version > Version {
		return h, l.failed(fmt.Errorf("%w, and this is version %d, written by hub %.40q", ErrVersion, h.Version, h.Hub))
	}
	if err := strict(line, &h); err != nil {
		return h, l.failed(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return h, nil
}

// record reads the next line after the header: a topicState, a notification
// and so on, or an endLine, checked by itself.
func (l *lines) record() (record, error) {
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil, l.failed(ErrCutOff)
	}
	if err != nil {
		return nil, err
	}
	r, err := parse(line, l.maxBody)
	if err != nil {
		return nil, l.failed(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return r, nil
}

// end checks what the last line says, and that it is the last.
func (l *lines) end(end endLine, counted Counts) error {
	switch {
	case end.Counts != counted:
		return l.failed(fmt.Errorf("%w: it has %s, and should have %s", ErrDamaged, counted, end.Counts))
	case end.SHA256 != l.before:
		return l.failed(fmt.Errorf("%w: its SHA-256 is %x, and should be %x", ErrDamaged, l.before, end.SHA256))
	}
	_, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil || errors.Is(err, ErrCutOff) {
		return l.failed(fmt.Errorf("%w: something follows the last line", ErrDamaged))
	}
	return err
}
