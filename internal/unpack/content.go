package unpack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// readBuffer is how much of a file is read in one step, bytes. An entry that has less is read whole.
const readBuffer = 64 << 10

// reading is what reading one entry needs; it is used again for others.
type reading struct {
	buffer  [readBuffer]byte
	whole   bytes.Reader
	part    *bufio.Reader
	inflate io.ReadCloser
}

var readings = sync.Pool{New: func() any { return &reading{} }}

// content reads one entry, and checks it.
type content struct {
	e      *Entry
	r      *reading
	from   io.Reader
	packed interface{ Len() int64 } // what of the packed form was not read
	read   int64
	crc    uint32
	err    error
}

// open opens an entry for reading.
func (a *Archive) open(e *Entry) (io.ReadCloser, error) {
	r := readings.Get().(*reading)
	c, err := a.begin(e, r)
	if err != nil {
		readings.Put(r)
		return nil, err
	}
	return c, nil
}

func (a *Archive) begin(e *Entry, r *reading) (*content, error) {
	head := r.buffer[:min(e.next-e.offset, readBuffer)]
	if err := readAt(a.r, head, e.offset); err != nil {
		return nil, err
	}
	at, err := e.local(head)
	if err != nil {
		return nil, err
	}
	if e.descriptor {
		if err := a.checkDescriptor(e, at+e.Packed); err != nil {
			return nil, err
		}
	}
	c := &content{e: e, r: r}
	var packed packedReader
	if begin := at - e.offset; begin+e.Packed <= int64(len(head)) {
		r.whole.Reset(head[begin : begin+e.Packed])
		c.packed, packed = lenOf{&r.whole}, &r.whole
	} else {
		section := io.NewSectionReader(a.r, at, e.Packed)
		if r.part == nil {
			r.part = bufio.NewReaderSize(section, readBuffer)
		} else {
			r.part.Reset(section)
		}
		c.packed, packed = &leftOf{section, r.part}, r.part
	}
	if c.from = packed; e.method == methodStore {
		return c, nil
	}
	if r.inflate == nil {
		r.inflate = flate.NewReader(packed)
	} else if err := r.inflate.(flate.Resetter).Reset(packed, nil); err != nil {
		return nil, err
	}
	c.from = r.inflate
	return c, nil
}

type packedReader interface {
	io.Reader
	io.ByteReader
}

type lenOf struct{ r *bytes.Reader }

func (l lenOf) Len() int64 { return int64(l.r.Len()) }

// leftOf counts what of a section was not taken from its buffer.
type leftOf struct {
	section *io.SectionReader
	buffer  *bufio.Reader
}

func (l *leftOf) Len() int64 {
	at, _ := l.section.Seek(0, io.SeekCurrent)
	return l.section.Size() - at + int64(l.buffer.Buffered())
}

// Read returns content. At its end it returns io.EOF only where size and CRC are those of the
// directory.
func (c *content) Read(b []byte) (int, error) {
	if c.err != nil || len(b) == 0 {
		return 0, c.err
	}
	if left := c.e.Size - c.read; int64(len(b)) > left+1 {
		b = b[:left+1] // one more than there may be
	}
	n, err := c.from.Read(b)
	if c.read += int64(n); c.read > c.e.Size {
		c.err = c.wrong("it has more bytes than the directory says")
		return 0, c.err
	}
	c.crc = crc32.Update(c.crc, crc32.IEEETable, b[:n])
	corrupt := flate.CorruptInputError(0)
	switch {
	case errors.Is(err, io.EOF):
		c.err = c.end()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &corrupt):
		c.err = c.wrong("its packed form is damaged")
	case err != nil:
		c.err = err
	}
	return n, c.err
}

// end judges content that has ended.
func (c *content) end() error {
	switch {
	case c.read != c.e.Size:
		return c.wrong("it has fewer bytes than the directory says")
	case c.crc != c.e.crc:
		return c.wrong("its CRC-32 is not that of the directory")
	case c.packed.Len() != 0:
		return c.wrong("its packed form goes on after its end")
	}
	return io.EOF
}

func (c *content) wrong(what string) error {
	return fmt.Errorf("%w: entry %.200q: %s", ErrFormat, c.e.Name, what)
}

// Close ends the reading. The content must not be read after it.
func (c *content) Close() error {
	if c.r != nil {
		c.err = errClosed
		readings.Put(c.r)
		c.r = nil
	}
	return nil
}

var errClosed = errors.New("the content is closed")
