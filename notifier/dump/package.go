package dump

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/flate"

	"carillon/payload"
)

// packageWriter puts one package together. Members and the manifest's entries come in order, each
// into a file; the package is made of these when it is full, as its manifest stands first and names
// hashes that are known last. Copying costs little beside packing.
type packageWriter struct {
	dir      string
	room     *room
	bytes    int64 // bound of the package
	entries  int   // bound of its manifest
	modified time.Time

	members  []member
	spool    spool // headers and small members
	manifest spool // entries, not packed
	parts    []part
	listed   int // entries of the manifest
	content  int64
	offset   int64 // where the next member begins, from where they begin
}

// part is a piece of the package: bytes of the spool, or a file.
type part struct {
	from, until int64
	file        string
}

// Files in which a package is put together.
const (
	spoolName    = "members" + tempSuffix
	manifestName = "manifest" + tempSuffix
	packedName   = "manifest.packed" + tempSuffix
	spoolBuffer  = 256 << 10
)

// Members are numbered, and in folders of a thousand: such names are safe on every file system.
const folderMembers = 1000

func memberName(n int) string { return fmt.Sprintf("%02d/%05d", n/folderMembers, n) }

// fixedBytes is more than what a ZIP has besides members, their headers and the manifest.
const fixedBytes = 8 << 10

// spool is a file that grows, and is read once.
type spool struct {
	name string
	file *os.File
	out  *bufio.Writer
	size int64
}

func (s *spool) open(dir, name string, r *room) (err error) {
	s.name = filepath.Join(dir, name)
	if s.file, err = os.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return err
	}
	s.out = bufio.NewWriterSize(r.writer(s.file), spoolBuffer)
	return nil
}

func (s *spool) Write(b []byte) (int, error) {
	n, err := s.out.Write(b)
	s.size += int64(n)
	return n, err
}

// rewind makes the spool ready to be read.
func (s *spool) rewind() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// close removes the file.
func (s *spool) close(r *room) error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), r.remove(s.name))
	s.file = nil
	return err
}

func (w *packageWriter) open() error {
	err := w.spool.open(w.dir, spoolName, w.room)
	if err == nil {
		err = w.manifest.open(w.dir, manifestName, w.room)
	}
	return err
}

// empty reports whether nothing is in the package yet.
func (w *packageWriter) empty() bool { return w.listed == 0 }

// fits reports whether there is room for an entry of the manifest, and for the member if there is one.
// The packed size of the manifest is bounded by its size before.
func (w *packageWriter) fits(entry []byte, m *member) bool {
	manifest := w.manifest.size + int64(len(entry)) + fixedBytes
	if w.listed == w.entries || manifest > payload.MaxBytes {
		return false
	}
	count, body := int64(len(w.members)), w.offset
	if m != nil {
		count++
		body += localBytes + localExtra64Bytes + int64(len(memberName(1))) + m.packed
	}
	directory := count * (centralBytes + centralExtra64Most + int64(len(memberName(1))))
	return body+directory+manifest+fixedBytes <= w.bytes
}

// nextName is the name that the next member gets.
func (w *packageWriter) nextName() string { return memberName(len(w.members) + 1) }

// add puts a member into the package, and takes what the item holds.
func (w *packageWriter) add(it *item) error {
	it.name, it.offset = w.nextName(), w.offset
	header := it.appendLocal(nil, w.modified)
	from := w.spool.size
	if _, err := w.spool.Write(header); err != nil {
		return err
	}
	if it.buffer != nil {
		if _, err := w.spool.Write(it.buffer.Bytes()); err != nil {
			return err
		}
	}
	w.piece(part{from: from, until: w.spool.size})
	if it.file != "" {
		w.parts = append(w.parts, part{file: it.file})
		it.file = "" // it is the package's
	}
	w.offset += int64(len(header)) + it.packed
	w.content += it.size
	w.members = append(w.members, it.member)
	it.discard(w.room)
	return nil
}

// piece appends bytes of the spool to the parts.
func (w *packageWriter) piece(p part) {
	if n := len(w.parts); n > 0 && w.parts[n-1].file == "" && w.parts[n-1].until == p.from {
		w.parts[n-1].until = p.until
		return
	}
	w.parts = append(w.parts, p)
}

// list puts an entry into the manifest.
func (w *packageWriter) list(entry []byte) error {
	w.listed++
	_, err := w.manifest.Write(entry)
	return err
}

// finish writes the package, durable and whole, to name. head is that of the manifest.
func (w *packageWriter) finish(name string, head []byte) (p zipFile, err error) {
	manifest := member{name: "manifest.xml", method: methodDeflate}
	packed, err := w.packManifest(head, &manifest)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, packed.close(w.room)) }()
	sum := newBackgroundHash()
	err = w.room.writeFile(name, func(f io.Writer) error {
		return w.assemble(&countingWriter{to: io.MultiWriter(f, sum)}, &manifest, packed, &p)
	})
	p.Hash = fmt.Sprintf("sha-256:%x", sum.end())
	p.Entries, p.Content = w.listed, w.content
	return p, err
}

// packManifest packs the manifest.
func (w *packageWriter) packManifest(head []byte, m *member) (packed *spool, err error) {
	packed = &spool{}
	if err := packed.open(w.dir, packedName, w.room); err != nil {
		return nil, err
	}
	if err := w.manifest.rewind(); err != nil {
		return packed, err
	}
	deflater := deflatePool.Get().(*flate.Writer)
	defer deflatePool.Put(deflater)
	deflater.Reset(packed)
	sum := crc32.New(crcTable)
	raw := &countingWriter{to: io.MultiWriter(deflater, sum)}
	if _, err = raw.Write(head); err == nil {
		_, err = io.Copy(raw, w.manifest.file)
	}
	if err == nil {
		_, err = raw.Write(payload.AppendTail(nil, false))
	}
	if err == nil {
		err = deflater.Close()
	}
	if err == nil {
		err = packed.rewind()
	}
	m.crc, m.size, m.packed = sum.Sum32(), raw.n, packed.size
	return packed, err
}

// assemble writes the whole ZIP.
func (w *packageWriter) assemble(to *countingWriter, manifest *member, packed *spool, p *zipFile) error {
	if _, err := to.Write(manifest.appendLocal(nil, w.modified)); err != nil {
		return err
	}
	p.Manifest = extent{Offset: to.n, Packed: manifest.packed, Size: manifest.size}
	if _, err := io.Copy(to, packed.file); err != nil {
		return err
	}
	base := to.n
	if err := w.spool.rewind(); err != nil {
		return err
	}
	buffer := copyPool.Get().(*[copyBuffer]byte)
	defer copyPool.Put(buffer)
	for _, part := range w.parts {
		if err := w.copyPart(to, part, buffer[:]); err != nil {
			return err
		}
	}
	if to.n != base+w.offset {
		return errors.New("the parts of a package have not the size that they had")
	}
	directory := to.n
	out := bufio.NewWriterSize(to, copyBuffer)
	scratch := manifest.appendCentral(nil, w.modified, 0)
	for i := range w.members {
		if _, err := out.Write(scratch); err != nil {
			return err
		}
		scratch = w.members[i].appendCentral(scratch[:0], w.modified, base)
	}
	if _, err := out.Write(scratch); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := to.Write(appendEnd(nil, len(w.members)+1, directory, to.n-directory))
	p.Bytes = to.n
	return err
}

// copyPart copies a part, and removes its file, so that the disk has it once only.
func (w *packageWriter) copyPart(to io.Writer, p part, buffer []byte) error {
	// Plain readers and writers: the buffer is used.
	if p.file == "" {
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, io.LimitReader(w.spool.file, p.until-p.from), buffer)
		return err
	}
	f, err := os.Open(p.file)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{f}, buffer)
	return errors.Join(err, f.Close(), w.room.remove(p.file))
}

// close removes the files of the package that is being put together.
func (w *packageWriter) close() error {
	err := errors.Join(w.spool.close(w.room), w.manifest.close(w.room))
	for _, p := range w.parts {
		if p.file != "" {
			err = errors.Join(err, w.room.remove(p.file))
		}
	}
	return err
}

// backgroundHash computes SHA-256 while others read and write.
type backgroundHash struct {
	sum    hash.Hash
	full   chan []byte
	free   chan []byte
	ended  chan struct{}
	filled []byte
}

// hashAhead is how many buffers wait to be hashed.
const hashAhead = 4

func newBackgroundHash() *backgroundHash {
	h := &backgroundHash{
		sum: sha256.New(), full: make(chan []byte, hashAhead), free: make(chan []byte, hashAhead+1),
		ended: make(chan struct{}), filled: make([]byte, 0, copyBuffer),
	}
	for range hashAhead {
		h.free <- make([]byte, 0, copyBuffer)
	}
	go func() {
		defer close(h.ended)
		for b := range h.full {
			_, _ = h.sum.Write(b) // a hash takes everything
			h.free <- b[:0]
		}
	}()
	return h
}

func (h *backgroundHash) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		room := min(len(b), cap(h.filled)-len(h.filled))
		h.filled = append(h.filled, b[:room]...)
		b = b[room:]
		if len(h.filled) == cap(h.filled) {
			h.full <- h.filled
			h.filled = <-h.free
		}
	}
	return n, nil
}

// end returns the hash of what was written.
func (h *backgroundHash) end() []byte {
	h.full <- h.filled
	close(h.full)
	<-h.ended
	return h.sum.Sum(nil)
}
