package dump

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The parts of a ZIP (APPNOTE 6.3.10) that packages have. archive/zip writes members in the order in
// which they are packed, and cannot put a manifest in front that is known last; so the headers are
// written here. No member has a data descriptor or needs one: sizes are known when a header is
// written, so a package can be read as a stream.
const (
	localSignature     = 0x04034b50
	centralSignature   = 0x02014b50
	endSignature       = 0x06054b50
	end64Signature     = 0x06064b50
	locatorSignature   = 0x07064b50
	localBytes         = 30
	centralBytes       = 46
	endBytes           = 22
	end64Bytes         = 56
	locatorBytes       = 20
	extra64ID          = 1
	version20          = 20 // DEFLATE
	version45          = 45 // Zip64
	madeByUnix         = 3 << 8
	regularFile        = 0o100644 << 16
	methodStore        = 0
	methodDeflate      = 8
	max16              = 1<<16 - 1
	max32              = 1<<32 - 1
	localExtra64Bytes  = 4 + 16
	centralExtra64Most = 4 + 24
)

// member is one file of a ZIP.
type member struct {
	name         string
	method       uint16
	crc          uint32
	packed, size int64
	offset       int64 // of the local header, from where the members begin
}

// crcTable is that of every ZIP.
var crcTable = crc32.IEEETable

// dosTime is a moment as a ZIP has it: the local time of nowhere, here UTC, in steps of 2 s.
func dosTime(t time.Time) (date, clock uint16) {
	t = t.UTC()
	year := min(max(t.Year(), 1980), 2107)
	return uint16((year-1980)<<9 | int(t.Month())<<5 | t.Day()), uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2)
}

func (m *member) large() bool { return m.size >= max32 || m.packed >= max32 }

// appendLocal appends the header that precedes the member's bytes.
func (m *member) appendLocal(dst []byte, modified time.Time) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, localSignature)
	version, extra := uint16(version20), 0
	if m.large() {
		version, extra = version45, localExtra64Bytes
	}
	dst = m.appendCommon(le.AppendUint16(dst, version), modified, m.large())
	dst = le.AppendUint16(dst, uint16(len(m.name)))
	dst = le.AppendUint16(dst, uint16(extra))
	dst = append(dst, m.name...)
	if m.large() {
		dst = le.AppendUint16(dst, extra64ID)
		dst = le.AppendUint16(dst, 16)
		dst = le.AppendUint64(dst, uint64(m.size))
		dst = le.AppendUint64(dst, uint64(m.packed))
	}
	return dst
}

// appendCommon appends what both headers of a member have, from the flags to the sizes. Names are
// ASCII, so no flag is set.
func (m *member) appendCommon(dst []byte, modified time.Time, large bool) []byte {
	le := binary.LittleEndian
	date, clock := dosTime(modified)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint16(dst, m.method)
	dst = le.AppendUint16(dst, clock)
	dst = le.AppendUint16(dst, date)
	dst = le.AppendUint32(dst, m.crc)
	packed, size := uint32(max32), uint32(max32)
	if !large {
		packed, size = uint32(m.packed), uint32(m.size)
	}
	return le.AppendUint32(le.AppendUint32(dst, packed), size)
}

// appendCentral appends the member's header of the central directory. base is where the members
// begin in the file.
func (m *member) appendCentral(dst []byte, modified time.Time, base int64) []byte {
	le := binary.LittleEndian
	offset := base + m.offset
	far := offset >= max32
	version, extra := uint16(version20), 0
	if m.large() {
		extra = 16
	}
	if far {
		extra += 8
	}
	if extra > 0 {
		version, extra = version45, extra+4
	}
	dst = le.AppendUint32(dst, centralSignature)
	dst = le.AppendUint16(dst, madeByUnix|version)
	dst = m.appendCommon(le.AppendUint16(dst, version), modified, m.large())
	dst = le.AppendUint16(dst, uint16(len(m.name)))
	dst = le.AppendUint16(dst, uint16(extra))
	dst = append(dst, 0, 0, 0, 0, 0, 0) // comment, disk, internal attributes
	dst = le.AppendUint32(dst, regularFile)
	dst = le.AppendUint32(dst, uint32(min(offset, max32)))
	dst = append(dst, m.name...)
	if extra > 0 {
		dst = le.AppendUint16(dst, extra64ID)
		dst = le.AppendUint16(dst, uint16(extra-4))
	}
	if m.large() {
		dst = le.AppendUint64(dst, uint64(m.size))
		dst = le.AppendUint64(dst, uint64(m.packed))
	}
	if far {
		dst = le.AppendUint64(dst, uint64(offset))
	}
	return dst
}

// appendEnd appends what ends a ZIP: its central directory is at, and has so many bytes and members.
func appendEnd(dst []byte, members int, at, size int64) []byte {
	le := binary.LittleEndian
	if members >= max16 || at >= max32 || size >= max32 {
		dst = le.AppendUint32(dst, end64Signature)
		dst = le.AppendUint64(dst, end64Bytes-12)
		dst = le.AppendUint16(dst, madeByUnix|version45)
		dst = le.AppendUint16(dst, version45)
		dst = le.AppendUint64(dst, 0) // the disks
		dst = le.AppendUint64(dst, uint64(members))
		dst = le.AppendUint64(dst, uint64(members))
		dst = le.AppendUint64(dst, uint64(size))
		dst = le.AppendUint64(dst, uint64(at))
		dst = le.AppendUint32(dst, locatorSignature)
		dst = le.AppendUint32(dst, 0)
		dst = le.AppendUint64(dst, uint64(at+size))
		dst = le.AppendUint32(dst, 1)
	}
	dst = le.AppendUint32(dst, endSignature)
	dst = le.AppendUint32(dst, 0) // the disks
	dst = le.AppendUint16(dst, uint16(min(members, max16)))
	dst = le.AppendUint16(dst, uint16(min(members, max16)))
	dst = le.AppendUint32(dst, uint32(min(size, max32)))
	dst = le.AppendUint32(dst, uint32(min(at, max32)))
	return le.AppendUint16(dst, 0) // no comment
}
