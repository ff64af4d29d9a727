package unpack_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"carillon/internal/unpack"
)

// TestPlain reads what is legitimate, though not common.
func TestPlain(t *testing.T) {
	file := zipped([]made{
		{name: "b/"},
		{name: "b/a", content: "stored"},
		{name: "B/A", content: "of another case"},
		{name: "é", content: "composed", flags: 1 << 11},
		{name: "e\u0301", content: "decomposed"},
		{name: "gr\x81n", content: "in code page 437"},
		{name: "a..b/c:d/..e", content: "odd but harmless"},
		{name: "empty"},
		{name: "empty too", deflate: true},
		{name: "streamed", content: strings.Repeat("streamed ", 1000), deflate: true, descriptor: true},
		{name: "unix", content: "x", madeBy: 3 << 8, mode: 0o100644 << 16},
		{name: "manifest.xml", content: "<urlset/>"},
	})
	all := mustRead(t, file)
	want := map[string]string{
		"b/a": "stored", "B/A": "of another case", "é": "composed", "e\u0301": "decomposed", "grün": "in code page 437",
		"a..b/c:d/..e": "odd but harmless", "empty": "", "empty too": "", "streamed": strings.Repeat("streamed ", 1000), "unix": "x", "manifest.xml": "<urlset/>",
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("read %v\nwant %v", all, want)
	}
	a, err := open(file, unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "<urlset/>" || err != nil {
		t.Errorf("the manifest is %q, %v", b, err)
	}
	if e, known := a.Lookup("/b/a"); !known || e.Size != 6 {
		t.Errorf("Lookup: %+v, %v", e, known)
	}
}

// TestAsArchiveZip reads what the standard library writes: large and small, packed and not, in
// parallel; more entries than 16 bits count.
func TestAsArchiveZip(t *testing.T) {
	const entries = 70_000
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	want := map[string]string{}
	for i := range entries {
		name, size := fmt.Sprintf("dir/%d", i), 0
		switch i % 10_000 {
		case 0:
			size = 300_000
		case 1:
			size = 64 << 10
		}
		text := strings.Repeat(fmt.Sprint(random.Uint64()), size/10)
		one, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: uint16(8 * (i % 2))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(one, text); err != nil {
			t.Fatal(err)
		}
		want[name] = text
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := open(b.Bytes(), unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < entries; i += 4 {
				name := fmt.Sprintf("/dir/%d", i)
				r, err := a.Open(name)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(r)
				if err != nil || string(got) != want[name[1:]] {
					t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want[name[1:]]))
				}
				_ = r.Close()
			}
		})
	}
	all.Wait()
}

// sparse is a file with zeros where it has nothing.
type sparse struct {
	size  int64
	parts map[int64][]byte
}

func (s *sparse) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	n := min(int64(len(b)), max(s.size-at, 0))
	for from, part := range s.parts {
		if begin := max(from, at); begin < min(from+int64(len(part)), at+n) {
			copy(b[begin-at:n], part[begin-from:])
		}
	}
	if int(n) < len(b) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// TestZip64 reads a file with an entry of 5 GiB, and one behind it.
func TestZip64(t *testing.T) {
	const large = 5 << 30
	sizes := func(numbers ...uint64) []byte {
		var b bytes.Buffer
		write(&b, uint16(1), uint16(8*len(numbers)), numbers)
		return b.Bytes()
	}
	const max32 = 1<<32 - 1
	var first, second, directory bytes.Buffer
	local := func(b *bytes.Buffer, name string, crc, packed, size uint32, extra []byte) {
		write(b, uint32(0x04034b50), uint16(45), uint16(0), uint16(0), uint32(0), crc, packed, size, uint16(len(name)), uint16(len(extra)))
		b.WriteString(name)
		b.Write(extra)
	}
	central := func(name string, crc, packed, size, offset uint32, extra []byte) {
		write(&directory, uint32(0x02014b50), uint16(0), uint16(45), uint16(0), uint16(0), uint32(0), crc, packed, size,
			uint16(len(name)), uint16(len(extra)), uint16(0), uint16(0), uint16(0), uint32(0), offset)
		directory.WriteString(name)
		directory.Write(extra)
	}
	local(&first, "large", 0, max32, max32, sizes(large, large))
	central("large", 0, max32, max32, 0, sizes(large, large))
	behind := int64(first.Len()) + large
	local(&second, "small", 0xe8b7be43, 1, 1, nil)
	second.WriteString("a")
	central("small", 0xe8b7be43, 1, 1, max32, sizes(uint64(behind)))
	at := behind + int64(second.Len())
	end64 := at + int64(directory.Len())
	end := func(entries uint64) *sparse {
		tail := bytes.NewBuffer(bytes.Clone(directory.Bytes()))
		write(
			tail, uint32(0x06064b50), uint64(44), uint16(45), uint16(45), uint32(0), uint32(0),
			entries, entries, uint64(directory.Len()), uint64(at),
		)
		write(tail, uint32(0x07064b50), uint32(0), uint64(end64), uint32(1))
		write(tail, uint32(0x06054b50), uint16(0), uint16(0), uint16(2), uint16(2), uint32(directory.Len()), uint32(max32), uint16(0))
		return &sparse{size: at + int64(tail.Len()), parts: map[int64][]byte{0: first.Bytes(), behind: second.Bytes(), at: tail.Bytes()}}
	}
	file := end(2)
	a, err := unpack.Open(file, file.size, unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Open("small")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "a" || err != nil {
		t.Errorf("small is %q, %v", b, err)
	}
	if e, known := a.Lookup("large"); !known || e.Size != large {
		t.Errorf("large is %+v", e)
	}
	if r, err = a.Open("large"); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1000)); n == 0 || err != nil {
		t.Errorf("large: %d bytes, %v", n, err)
	}
	lying := end(3) // the plain end says 2
	if _, err := unpack.Open(lying, lying.size, unpack.Limits{}); !errors.Is(err, unpack.ErrFormat) {
		t.Errorf("two ends that differ: %v", err)
	}
	if _, err := unpack.Open(file, file.size, unpack.Limits{EntryBytes: large - 1}); !errors.Is(err, unpack.ErrBomb) {
		t.Errorf("an entry over the limit: %v", err)
	}
}

// broken fails to read.
type broken struct{}

var errBroken = errors.New("the disk is broken")

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// TestDiskErrors keeps trouble of the disk apart from that of the file.
func TestDiskErrors(t *testing.T) {
	if _, err := unpack.Open(broken{}, 1000, unpack.Limits{}); !errors.Is(err, errBroken) {
		t.Errorf("error is %v", err)
	}
}

// TestClosed refuses to read what was closed: its buffers may be another's.
func TestClosed(t *testing.T) {
	a, err := open(zipped([]made{{name: "a", content: "x"}}), unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// FuzzOpen opens anything: archive/zip reads an accepted file too, and it has no more than the limits
// allow.
func FuzzOpen(f *testing.F) {
	f.Add(zipped([]made{manifest, {name: "a", content: "12", deflate: true}, {name: "b/", madeBy: 3 << 8}}))
	f.Add(zipped([]made{manifest, {name: "a", content: "12", descriptor: true}, {name: "gr\x81n"}}))
	f.Add(twoEnds())
	f.Add(binary.LittleEndian.AppendUint32(nil, 0x04034b50))
	limits := unpack.Limits{Bytes: 1 << 20, EntryBytes: 1 << 19, Entries: 100}
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := open(file, limits)
		if err != nil {
			return
		}
		standard, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatalf("archive/zip refuses it: %v", err)
		}
		others := map[string]*zip.File{}
		for _, one := range standard.File {
			others[one.Name] = one
		}
		total := int64(0)
		for e := range a.Names() {
			if err := unpack.CheckName(e.Name); err != nil {
				t.Errorf("a name that is not safe: %v", err)
			}
			r, err := a.Open(e.Name)
			if err != nil {
				continue
			}
			got, err := io.ReadAll(r)
			_ = r.Close()
			if total += int64(len(got)); int64(len(got)) > limits.EntryBytes || total > limits.Bytes {
				t.Errorf("more than the limits: %d, in all %d", len(got), total)
			}
			other := others[e.Name]
			if err != nil || other == nil {
				continue // a name in another encoding
			}
			r, err = other.Open()
			if err != nil {
				t.Fatalf("archive/zip cannot open %q: %v", e.Name, err)
			}
			want, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q: %d bytes, archive/zip has %d, %v", e.Name, len(got), len(want), err)
			}
		}
	})
}
