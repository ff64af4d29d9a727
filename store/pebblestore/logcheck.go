package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble takes the first bad chunk of its newest write-ahead log, and of its manifest, for the end, as
// a crash in the middle of a write leaves it. It sees that there was more only from blocks of 32 KiB
// that follow. So one bit that changed on the disk would cost everything behind it in its block,
// unseen. The code below looks at the rest of that block too, before Pebble opens anything.

// A log is blocks of chunks: 4 bytes of sum, 2 of length, 1 of kind, and then, by kind,
// nothing (1 to 4: the manifest), 4 bytes of the log's number (5 to 8), or these and 8
// of how much of the log was synced when the chunk was written (9 to 12).
const (
	logBlock      = 32 << 10
	plainHeader   = 7
	numberHeader  = plainHeader + 4
	syncHeader    = numberHeader + 8
	lastPlainKind = 4
	lastKind      = 12
	trailerKind   = 5 // of the chunk that ends a log that was closed
)

// logBlockOf is one block of a log, as far as it is there.
type logBlockOf struct {
	content []byte
	offset  uint64 // in the file
	number  uint32 // of the log
	plain   bool   // it is a manifest
	closed  bool   // the log was closed, and all of it is there
}

// chunk says how long the chunk at the place is, and what was synced when it was
// written; 0 without one that is whole.
func (b logBlockOf) chunk(at int) (length int, synced uint64) {
	rest := b.content[at:]
	if len(rest) < plainHeader {
		return 0, 0
	}
	header, kind := plainHeader, rest[6]
	switch {
	case kind == 0 || kind > lastKind || (kind <= lastPlainKind) != b.plain:
		return 0, 0
	case kind > 8:
		header = syncHeader
	case kind > lastPlainKind:
		header = numberHeader
	}
	length = header + int(binary.LittleEndian.Uint16(rest[4:]))
	if length > len(rest) || !b.plain && binary.LittleEndian.Uint32(rest[7:]) != b.number {
		return 0, 0
	}
	if binary.LittleEndian.Uint32(rest) != chunkSum(rest[6:length]) {
		return 0, 0
	}
	if header == syncHeader {
		synced = binary.LittleEndian.Uint64(rest[numberHeader:])
	}
	return length, synced
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func chunkSum(content []byte) uint32 {
	sum := crc32.Checksum(content, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// closedAt reports whether the log was closed there.
func (b logBlockOf) closedAt(at int) bool {
	rest := b.content[at:]
	return !b.plain && len(rest) >= numberHeader && bytes.Equal(rest[:plainHeader], []byte{6: trailerKind}) &&
		binary.LittleEndian.Uint32(rest[7:]) == b.number+1
}

// check follows the chunks. more: the log goes on in the next block, if there is one.
func (b logBlockOf) check() (more bool, err error) {
	at := 0
	for at < len(b.content) {
		length, _ := b.chunk(at)
		if length == 0 {
			break
		}
		at += length
	}
	rest := b.content[at:]
	switch {
	case len(bytes.Trim(rest, "\x00")) == 0 && len(rest) < syncHeader && len(b.content) == logBlock:
		return true, nil // no chunk had room
	case len(rest) == 0, b.closedAt(at):
		return false, nil
	}
	if b.closed || b.goesOn(at) || b.plain && b.whole(at) {
		return false, fmt.Errorf("a record at byte %d is damaged", b.offset+uint64(at))
	}
	return false, nil
}

// goesOn reports whether something behind the bad chunk shows that it was whole once:
// a chunk that was written when it had been synced, or the end of a log that was closed.
// Of a manifest it is any chunk: each edit is synced before the next one.
func (b logBlockOf) goesOn(bad int) bool {
	for at := bad + 1; at < len(b.content); at++ {
		if b.closedAt(at) {
			return true
		}
		length, synced := b.chunk(at)
		if length > 0 && (b.plain || synced > b.offset+uint64(bad)) {
			return true
		}
	}
	return false
}

// whole reports whether the chunk has all its bytes, though not the right ones: a write
// that was cut short ends before, or in zeros.
func (b logBlockOf) whole(at int) bool {
	rest := b.content[at:]
	const zeros = 8
	if len(rest) < plainHeader || len(bytes.Trim(rest[max(len(rest)-zeros, 0):], "\x00")) == 0 {
		return false
	}
	return rest[6] == 0 || rest[6] > lastPlainKind || plainHeader+int(binary.LittleEndian.Uint16(rest[4:])) <= len(rest)
}

// checkLog looks through a log; block returns the number and kind of each block.
func checkLog(fsys vfs.FS, name string, block logBlockOf) (err error) {
	f, err := fsys.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffer := make([]byte, logBlock)
	for more := true; more; block.offset += logBlock {
		n, err := io.ReadFull(f, buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		block.content = buffer[:n]
		if more, err = block.check(); err != nil {
			return fmt.Errorf("%s: %w", fsys.PathBase(name), err)
		}
	}
	return nil
}
