package dump_test

import (
	"archive/zip"
	"io"
	"testing"

	"carillon/notifier/dump"
)

// sparse is a file of which only some bytes are not zero.
type sparse struct {
	size   int64
	pieces map[int64][]byte
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	n := int(min(int64(len(p)), s.size-off))
	for at, piece := range s.pieces {
		for i, c := range piece {
			if k := at + int64(i) - off; k >= 0 && k < int64(n) {
				p[k] = c
			}
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Members of 4 GiB and more, and those behind them, are where the directory says (Zip64).
func TestZip64(t *testing.T) {
	t.Parallel()
	const large = 5 << 30
	members := []dump.ZipMember{
		{Name: "manifest.xml", Size: 1000, Packed: 1000},
		{Name: "00/00001", Size: large, Packed: large, Offset: 1042},
		{Name: "00/00002", Size: 7, Packed: 7, Offset: 1042 + 58 + large},
		{Name: "00/00003", Size: 1<<32 - 1, Packed: 9, Offset: 1042 + 58 + large + 45},
	}
	const end = 1042 + 58 + large + 45 + 58 + 9
	locals, tail := dump.ZipEnds(members, end)
	file := &sparse{size: end + int64(len(tail)), pieces: map[int64][]byte{end: tail}}
	for i, m := range members {
		file.pieces[m.Offset] = locals[i]
	}
	z, err := zip.NewReader(file, file.size)
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(members) {
		t.Fatalf("%d members", len(z.File))
	}
	for i, f := range z.File {
		offset, err := f.DataOffset()
		if err != nil || offset != members[i].Offset+int64(len(locals[i])) {
			t.Errorf("%s: its content is at %d, %v", f.Name, offset, err)
		}
		if f.UncompressedSize64 != uint64(members[i].Size) || f.CompressedSize64 != uint64(members[i].Packed) {
			t.Errorf("%s: %d and %d bytes", f.Name, f.UncompressedSize64, f.CompressedSize64)
		}
	}
}
