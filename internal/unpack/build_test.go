package unpack_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/klauspost/compress/flate"

	"carillon/internal/unpack"
)

// made is an entry of a ZIP that a test makes, byte by byte. A field that begins with lie replaces the
// true one.
type made struct {
	name    string
	content string
	deflate bool
	packed  []byte // in the place of the packed content
	method  uint16 // in the place of that of deflate
	flags   uint16
	madeBy  uint16
	mode    uint32 // external attributes
	extra   []byte // in the directory

	localName     string
	localExtra    []byte
	localFlags    uint16
	lieSize       uint32 // in the directory and the local header
	liePacked     uint32
	lieLocalSize  uint32
	lieCRC        uint32
	lieOffset     uint32
	disk          uint16
	descriptor    bool
	lieDescriptor uint32
	withoutHeader bool // shares the header and content of the entry before
}

// zipped is a ZIP with the entries. ends changes its end record.
func zipped(entries []made, ends ...func(end []byte)) []byte {
	var b, directory bytes.Buffer
	last := uint32(0)
	for _, e := range entries {
		packed, method := []byte(e.content), uint16(0)
		if e.deflate {
			packed, method = deflated(e.content), 8
		}
		if e.packed != nil {
			packed = e.packed
		}
		if e.method != 0 {
			method = e.method
		}
		crc, size, length := crc32.ChecksumIEEE([]byte(e.content)), uint32(len(e.content)), uint32(len(packed))
		or(&crc, e.lieCRC)
		or(&size, e.lieSize)
		or(&length, e.liePacked)
		if !e.withoutHeader {
			last = uint32(b.Len())
			b.Write(localHeader(&e, method, crc, size, length))
			b.Write(packed)
			if e.descriptor {
				write(&b, uint32(0x08074b50), crc^e.lieDescriptor, length, size)
			}
		}
		offset := last
		or(&offset, e.lieOffset)
		flags := e.flags
		if e.descriptor {
			flags |= 1 << 3
		}
		write(&directory, uint32(0x02014b50), e.madeBy, uint16(20), flags, method, uint32(0), crc, length, size,
			uint16(len(e.name)), uint16(len(e.extra)), uint16(0), e.disk, uint16(0), e.mode, offset)
		directory.WriteString(e.name)
		directory.Write(e.extra)
	}
	at := uint32(b.Len())
	b.Write(directory.Bytes())
	var end bytes.Buffer
	write(&end, uint32(0x06054b50), uint16(0), uint16(0), uint16(len(entries)), uint16(len(entries)), uint32(directory.Len()), at, uint16(0))
	for _, change := range ends {
		change(end.Bytes())
	}
	b.Write(end.Bytes())
	return b.Bytes()
}

func localHeader(e *made, method uint16, crc, size, length uint32) []byte {
	var b bytes.Buffer
	flags := e.flags | e.localFlags
	if e.descriptor {
		flags, crc, size, length = flags|1<<3, 0, 0, 0
	}
	or(&size, e.lieLocalSize)
	name := e.name
	if e.localName != "" {
		name = e.localName
	}
	write(&b, uint32(0x04034b50), uint16(20), flags, method, uint32(0), crc, length, size, uint16(len(name)), uint16(len(e.localExtra)))
	b.WriteString(name)
	b.Write(e.localExtra)
	return b.Bytes()
}

func or(v *uint32, lie uint32) {
	if lie != 0 {
		*v = lie
	}
}

func write(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v)
	}
}

func deflated(s string) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

func open(b []byte, l unpack.Limits) (*unpack.Archive, error) {
	return unpack.Open(bytes.NewReader(b), int64(len(b)), l)
}

// readAll opens a ZIP and reads all of it.
func readAll(b []byte, l unpack.Limits) (map[string]string, error) {
	a, err := open(b, l)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for e := range a.Names() {
		r, err := a.Open(e.Name)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
		all[e.Name] = string(content)
	}
	return all, nil
}

func mustRead(t *testing.T, b []byte) map[string]string {
	t.Helper()
	all, err := readAll(b, unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
