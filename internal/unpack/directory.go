package unpack

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Marks (the format calls them signatures) and fixed lengths of the format (APPNOTE 4.3).
const (
	localMark     = 0x04034b50
	centralMark   = 0x02014b50
	endMark       = 0x06054b50
	end64Mark     = 0x06064b50
	locator64Mark = 0x07064b50

	descriptorMark = 0x08074b50

	localLength     = 30
	centralLength   = 46
	endLength       = 22
	end64Length     = 56
	locator64Length = 20

	// extra64 is the extra field with the sizes that do not fit in 32 bits (APPNOTE 4.5.3).
	extra64 = 0x0001
	max16   = 1<<16 - 1
	max32   = 1<<32 - 1
)

// Flags and methods of an entry (APPNOTE 4.4.4, 4.4.5).
const (
	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3 // sizes and CRC follow the content
	flagPatched    = 1 << 5
	flagStrong     = 1 << 6
	flagUTF8       = 1 << 11
	flagMasked     = 1 << 13

	methodStore   = 0
	methodDeflate = 8
	methodAES     = 99
)

// maxDirectory bounds the directory, bytes: its names are kept in memory. It also bounds the names
// that are kept: those in code page 437 are kept as they are, and decoded with up to three bytes
// for each.
const maxDirectory = 64 << 20

var little = binary.LittleEndian

// directory is where the list of entries is.
type directory struct {
	offset, size int64
	entries      uint64
}

// findDirectory reads the end of the file.
func findDirectory(r io.ReaderAt, size int64) (directory, error) {
	tail := make([]byte, min(size, endLength+max16))
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return directory{}, err
	}
	at, err := findEnd(tail)
	if err != nil {
		return directory{}, err
	}
	if at < 0 {
		return directory{}, notZIP(r, size)
	}
	end := tail[at:]
	d := directory{
		offset: int64(little.Uint32(end[16:])), size: int64(little.Uint32(end[12:])), entries: uint64(little.Uint16(end[10:])),
	}
	position := size - int64(len(end)) // where the directory must end
	locator := make([]byte, locator64Length)
	if position >= locator64Length {
		if err := readAt(r, locator, position-locator64Length); err != nil {
			return directory{}, err
		}
	}
	disk, directoryDisk, here := little.Uint16(end[4:]), little.Uint16(end[6:]), uint64(little.Uint16(end[8:]))
	if little.Uint32(locator) == locator64Mark {
		if d, position, err = end64(r, position, locator, d); err != nil {
			return directory{}, err
		}
		if here == max16 {
			here = d.entries
		}
		if disk == max16 {
			disk = 0
		}
		if directoryDisk == max16 {
			directoryDisk = 0
		}
	}
	if disk != 0 || directoryDisk != 0 || here != d.entries {
		return directory{}, fmt.Errorf("%w: it is one part of several", ErrUnsupported)
	}
	if d.offset < 0 || d.size < 0 || d.offset > position || d.size != position-d.offset {
		return directory{}, fmt.Errorf(
			"%w: its directory is not where its end says, or something is between them", ErrFormat,
		)
	}
	return d, nil
}

// findEnd finds the end record in the last bytes of a file; -1 without one. Its comment must reach to
// the end of the file and look like no end record: readers would differ.
func findEnd(tail []byte) (int, error) {
	found, others := -1, 0
	for at := len(tail) - endLength; at >= 0; at-- {
		if little.Uint32(tail[at:]) != endMark {
			continue
		}
		fits := at+endLength+int(little.Uint16(tail[at+20:])) == len(tail)
		switch {
		case fits && found < 0:
			found = at
		case fits || found < 0:
			others++
		}
	}
	if found >= 0 && others > 0 {
		return 0, fmt.Errorf("%w: it has two ends", ErrFormat)
	}
	return found, nil
}

// end64 reads the end record of Zip64, which the locator leads to. The other values of the plain
// record must be the same.
func end64(r io.ReaderAt, position int64, locator []byte, plain directory) (directory, int64, error) {
	at := little.Uint64(locator[8:])
	position -= locator64Length
	if little.Uint32(locator[4:]) != 0 || little.Uint32(locator[16:]) > 1 {
		return plain, 0, fmt.Errorf("%w: it is one part of several", ErrUnsupported)
	}
	if position < end64Length || at > uint64(position-end64Length) {
		return plain, 0, fmt.Errorf("%w: its Zip64 end is not where it says", ErrFormat)
	}
	record := make([]byte, end64Length)
	if err := readAt(r, record, int64(at)); err != nil {
		return plain, 0, err
	}
	d := directory{
		entries: little.Uint64(record[32:]), size: int64(little.Uint64(record[40:])),
		offset: int64(little.Uint64(record[48:])),
	}
	switch {
	case little.Uint32(record) != end64Mark || at+12+little.Uint64(record[4:]) != uint64(position):
		return plain, 0, fmt.Errorf("%w: its Zip64 end is not where it says", ErrFormat)
	case little.Uint32(record[16:]) != 0 || little.Uint32(record[20:]) != 0 || little.Uint64(record[24:]) != d.entries:
		return plain, 0, fmt.Errorf("%w: it is one part of several", ErrUnsupported)
	case plain.entries != max16 && plain.entries != d.entries, plain.size != max32 && plain.size != d.size, plain.offset != max32 && plain.offset != d.offset:
		return plain, 0, fmt.Errorf("%w: its two ends contradict each other", ErrFormat)
	}
	return d, int64(at), nil
}

// notZIP says what a file without an end is.
func notZIP(r io.ReaderAt, size int64) error {
	head := make([]byte, 4)
	if size >= int64(len(head)) {
		if err := readAt(r, head, 0); err != nil {
			return err
		}
	}
	if mark := little.Uint32(head); mark == localMark {
		return fmt.Errorf("%w, or has something after its end", ErrTruncated)
	}
	return fmt.Errorf("%w: it has no end record", ErrFormat)
}

// readDirectory reads the entries, and judges each.
func (a *Archive) readDirectory(d directory, l *Limits) error {
	switch {
	case d.entries > uint64(l.Entries):
		return fmt.Errorf("%w: it has %d entries, and the limit is %d", ErrBomb, d.entries, l.Entries)
	case d.size > maxDirectory:
		return fmt.Errorf("%w: its directory has %d bytes, and the limit is %d", ErrBomb, d.size, maxDirectory)
	case d.size < int64(d.entries)*centralLength:
		return fmt.Errorf("%w: its directory is too small for %d entries", ErrFormat, d.entries)
	}
	a.entries = make([]Entry, 0, d.entries)
	from := bufio.NewReaderSize(io.NewSectionReader(a.r, d.offset, d.size), readBuffer)
	var size, packed, kept int64
	fixed, texts := make([]byte, centralLength), []byte(nil)
	for range d.entries {
		if err := readFull(from, fixed); err != nil {
			return err
		}
		if little.Uint32(fixed) != centralMark {
			return fmt.Errorf("%w: its directory is damaged", ErrFormat)
		}
		name, extra := int(little.Uint16(fixed[28:])), int(little.Uint16(fixed[30:]))
		texts = slices.Grow(texts[:0], name+extra)[:name+extra]
		if err := readFull(from, texts); err != nil {
			return err
		}
		if _, err := from.Discard(int(little.Uint16(fixed[32:]))); err != nil {
			return damaged(err)
		}
		e, err := readEntry(fixed, texts[:name], texts[name:])
		if err != nil {
			return err
		}
		if kept += int64(len(e.Name)); e.Name != e.raw {
			kept += int64(len(e.raw))
		}
		if kept > maxDirectory {
			return fmt.Errorf("%w: its names have more than %d bytes", ErrBomb, maxDirectory)
		}
		if err := l.check("entry", e.Name, e.Size, e.Packed, l.EntryBytes); err != nil {
			return err
		}
		if e.Packed > d.offset {
			return fmt.Errorf("%w: entry %.200q has more bytes than the file", ErrFormat, e.Name)
		}
		size, packed = size+e.Size, packed+e.Packed
		if err := l.check("all of it", "", size, packed, l.Bytes); err != nil {
			return err
		}
		if err := a.add(e); err != nil {
			return err
		}
	}
	if _, err := from.ReadByte(); err == nil {
		return fmt.Errorf("%w: its directory has more than %d entries", ErrFormat, d.entries)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (a *Archive) add(e Entry) error {
	name := e.Name
	if e.folder() {
		name = name[:len(name)-1]
	}
	if _, known := a.names[name]; known {
		return fmt.Errorf("%w: %.200q is there twice", ErrNames, name)
	}
	a.entries = append(a.entries, e)
	a.names[name] = len(a.entries) - 1
	return nil
}

// readEntry reads an entry of the directory.
func readEntry(fixed, rawName, extra []byte) (Entry, error) {
	flags := little.Uint16(fixed[8:])
	name, err := decodeName(rawName, flags&flagUTF8 != 0)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{
		Name: name, raw: name, method: little.Uint16(fixed[10:]), crc: little.Uint32(fixed[16:]),
		Packed: int64(little.Uint32(fixed[20:])), Size: int64(little.Uint32(fixed[24:])), offset: int64(little.Uint32(fixed[42:])),
		descriptor: flags&flagDescriptor != 0,
	}
	if name != string(rawName) {
		e.raw = string(rawName)
	}
	if err := CheckName(name); err != nil {
		return e, err
	}
	if err := checkKind(&e, little.Uint16(fixed[4:]), little.Uint32(fixed[38:])); err != nil {
		return e, err
	}
	if err := checkMethod(&e, flags); err != nil {
		return e, err
	}
	if disk := little.Uint16(fixed[34:]); disk != 0 && disk != max16 {
		return e, fmt.Errorf("%w: it is one part of several", ErrUnsupported)
	}
	if err := sizes64(extra, &e.Size, &e.Packed, &e.offset); err != nil {
		return e, fmt.Errorf("%w: entry %.200q: %w", ErrFormat, e.Name, err)
	}
	if e.method == methodStore && e.Size != e.Packed || e.folder() && e.Size != 0 {
		return e, fmt.Errorf("%w: entry %.200q: its sizes contradict each other", ErrFormat, e.Name)
	}
	return e, nil
}

// checkKind refuses what is not a file or a folder on the system that made it.
func checkKind(e *Entry, madeBy uint16, attributes uint32) error {
	const (
		unix, darwin   = 3, 19
		kind           = 0o170000
		folder, file   = 0o040000, 0o100000
		windowsDevice  = 0x40
		windowsReparse = 0x400
	)
	special := attributes&(windowsDevice|windowsReparse) != 0
	if system := madeBy >> 8; system == unix || system == darwin {
		mode := attributes >> 16 & kind
		special = mode != 0 && mode != file && mode != folder || mode == folder && !e.folder()
	}
	if special {
		return fmt.Errorf("%w: %.200q is a link, a device or the like", ErrSpecial, e.Name)
	}
	return nil
}

func checkMethod(e *Entry, flags uint16) error {
	switch {
	case flags&(flagEncrypted|flagStrong|flagMasked) != 0 || e.method == methodAES:
		return fmt.Errorf("%w: entry %.200q", ErrEncrypted, e.Name)
	case e.method != methodStore && e.method != methodDeflate:
		return fmt.Errorf(
			"%w: entry %.200q is packed by method %d; store (0) and deflate (8) are supported",
			ErrUnsupported, e.Name, e.method,
		)
	case flags&flagPatched != 0:
		return fmt.Errorf("%w: entry %.200q is a patch", ErrUnsupported, e.Name)
	}
	return nil
}

var errExtra = errors.New("its Zip64 sizes are missing or damaged")

// sizes64 replaces the numbers that did not fit in 32 bits by those of the extra field, which has
// them in this order.
func sizes64(extra []byte, numbers ...*int64) error {
	wanted := slices.DeleteFunc(numbers, func(n *int64) bool { return *n != max32 })
	seen := false
	for len(extra) >= 4 {
		id, n := little.Uint16(extra), int(little.Uint16(extra[2:]))
		if extra = extra[4:]; n > len(extra) {
			return errExtra
		}
		field := extra[:n]
		extra = extra[n:]
		if id != extra64 {
			continue
		}
		if seen {
			return errExtra
		}
		seen = true
		for ; len(wanted) > 0; wanted = wanted[1:] {
			if len(field) < 8 || little.Uint64(field) > 1<<62 {
				return errExtra
			}
			*wanted[0] = int64(little.Uint64(field))
			field = field[8:]
		}
	}
	if len(wanted) > 0 {
		return errExtra
	}
	return nil
}

// separate notes where the entry after each begins, and refuses entries that share bytes, and
// bytes before the first.
func (a *Archive) separate(end int64) error {
	order := make([]int, len(a.entries))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(a.entries[i].offset, a.entries[j].offset) })
	for n, i := range order {
		e := &a.entries[i]
		if n == 0 && e.offset != 0 {
			return fmt.Errorf("%w: something is before its first entry", ErrFormat)
		}
		if e.next = end; n+1 < len(order) {
			e.next = a.entries[order[n+1]].offset
		}
		if least := e.offset + localLength + int64(len(e.raw)); least > e.next || e.Packed > e.next-least {
			return fmt.Errorf("%w: entry %.200q overlaps what follows it", ErrBomb, e.Name)
		}
	}
	if len(order) == 0 && end != 0 {
		return fmt.Errorf("%w: something is before its directory", ErrFormat)
	}
	return nil
}

// local compares the local header of an entry with the directory, and returns where its content
// begins. head is what the file has at e.offset.
func (e *Entry) local(head []byte) (content int64, err error) {
	if len(head) < localLength || little.Uint32(head) != localMark {
		return 0, e.contradicted()
	}
	name, extra := int(little.Uint16(head[26:])), int(little.Uint16(head[28:]))
	all := localLength + name + extra
	flags := little.Uint16(head[6:])
	if len(head) < all || int64(all)+e.Packed > e.next-e.offset ||
		!bytes.Equal(head[localLength:localLength+name], []byte(e.raw)) || little.Uint16(head[8:]) != e.method ||
		flags&(flagEncrypted|flagStrong|flagMasked) != 0 || (flags&flagDescriptor != 0) != e.descriptor {
		return 0, e.contradicted()
	}
	crc := int64(little.Uint32(head[14:]))
	packed, size := int64(little.Uint32(head[18:])), int64(little.Uint32(head[22:]))
	if err := sizes64(head[localLength+name:all], &size, &packed); err != nil {
		return 0, e.contradicted()
	}
	same := func(has, want int64) bool { return has == want || e.descriptor && has == 0 }
	if !same(crc, int64(e.crc)) || !same(packed, e.Packed) || !same(size, e.Size) {
		return 0, e.contradicted()
	}
	return e.offset + int64(all), nil
}

// checkDescriptor compares the CRC that follows the content, behind a signature or not, with that
// of the directory.
func (a *Archive) checkDescriptor(e *Entry, at int64) error {
	const signed, plain = 16, 12
	b := make([]byte, min(signed, e.next-at))
	if len(b) < plain {
		return e.contradicted()
	}
	if err := readAt(a.r, b, at); err != nil {
		return err
	}
	if little.Uint32(b) == descriptorMark {
		b = b[4:]
	}
	if little.Uint32(b) != e.crc {
		return e.contradicted()
	}
	return nil
}

func (e *Entry) contradicted() error {
	return fmt.Errorf("%w: entry %.200q: its header and the directory contradict each other", ErrFormat, e.Name)
}

// readAt fills b.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return damaged(err)
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return damaged(err)
}

// damaged is ErrTruncated where something ended too soon.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in the middle of an entry", ErrTruncated)
	}
	return err
}
