package unpack_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"carillon/internal/unpack"
)

// manifest is an entry that every package has.
var manifest = made{name: "manifest.xml", content: "<urlset/>"}

func with(e ...made) []byte { return zipped(append([]made{manifest}, e...)) }

func put16(b []byte, at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
func put32(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }

// TestHostile has one file of each kind that must be refused, by Open or while it is read.
func TestHostile(t *testing.T) {
	const unix, darwin = 3 << 8, 19 << 8
	zeros := strings.Repeat("\x00", 70<<20)
	good := with(made{name: "a", content: "content of a", deflate: true})
	cases := []struct {
		name   string
		file   []byte
		limits unpack.Limits
		want   error
	}{
		{"a name with dots", with(made{name: "../a"}), unpack.Limits{}, unpack.ErrNames},
		{"dots within", with(made{name: "a/../../b"}), unpack.Limits{}, unpack.ErrNames},
		{"one dot", with(made{name: "./a"}), unpack.Limits{}, unpack.ErrNames},
		{"encoded dots", with(made{name: "%2e%2e%2fa"}), unpack.Limits{}, unpack.ErrNames},
		{"dots that are encoded twice", with(made{name: "%252e%252e/a"}), unpack.Limits{}, unpack.ErrNames},
		{"dots after a backslash", with(made{name: `..\a`}), unpack.Limits{}, unpack.ErrNames},
		{"a backslash", with(made{name: `a\b`}), unpack.Limits{}, unpack.ErrNames},
		{"an absolute name", with(made{name: "/etc/passwd"}), unpack.Limits{}, unpack.ErrNames},
		{"a drive letter", with(made{name: "C:/a"}), unpack.Limits{}, unpack.ErrNames},
		{"a drive letter alone", with(made{name: "c:a"}), unpack.Limits{}, unpack.ErrNames},
		{"a share", with(made{name: `\\host\share\a`}), unpack.Limits{}, unpack.ErrNames},
		{"a share with slashes", with(made{name: "//host/share/a"}), unpack.Limits{}, unpack.ErrNames},
		{"an empty name", with(made{name: ""}), unpack.Limits{}, unpack.ErrNames},
		{"a NUL", with(made{name: "a\x00b"}), unpack.Limits{}, unpack.ErrNames},
		{"a line's end", with(made{name: "a\nb"}), unpack.Limits{}, unpack.ErrNames},
		{"a long name", with(made{name: strings.Repeat("a", 5000)}), unpack.Limits{}, unpack.ErrNames},
		{"a name that is no UTF-8 and says it is", with(made{name: "\xff\xfe", flags: 1 << 11}), unpack.Limits{}, unpack.ErrNames},
		{"a name twice", with(made{name: "a"}, made{name: "a", content: "other"}), unpack.Limits{}, unpack.ErrNames},
		{"a manifest twice", with(manifest), unpack.Limits{}, unpack.ErrNames},
		{"a file and a folder of a name", with(made{name: "a"}, made{name: "a/"}), unpack.Limits{}, unpack.ErrNames},
		{"two encodings of a name", with(made{name: "\x82"}, made{name: "é"}), unpack.Limits{}, unpack.ErrNames},
		{"a symbolic link", with(made{name: "a", content: "/etc/passwd", madeBy: unix, mode: 0o120777 << 16}), unpack.Limits{}, unpack.ErrSpecial},
		{"a symbolic link of a Mac", with(made{name: "a", content: "..", madeBy: darwin, mode: 0o120777 << 16}), unpack.Limits{}, unpack.ErrSpecial},
		{"a device", with(made{name: "a", madeBy: unix, mode: 0o060666 << 16}), unpack.Limits{}, unpack.ErrSpecial},
		{"a FIFO", with(made{name: "a", madeBy: unix, mode: 0o010666 << 16}), unpack.Limits{}, unpack.ErrSpecial},
		{"a folder without its slash", with(made{name: "a", madeBy: unix, mode: 0o040755 << 16}), unpack.Limits{}, unpack.ErrSpecial},
		{"a reparse point", with(made{name: "a", mode: 0x400}), unpack.Limits{}, unpack.ErrSpecial},
		{"encrypted", with(made{name: "a", content: "x", flags: 1}), unpack.Limits{}, unpack.ErrEncrypted},
		{"strongly encrypted", with(made{name: "a", content: "x", flags: 1 | 1<<6}), unpack.Limits{}, unpack.ErrEncrypted},
		{"encrypted by AES", with(made{name: "a", content: "x", method: 99}), unpack.Limits{}, unpack.ErrEncrypted},
		{"encrypted, as only the header says", with(made{name: "a", content: "x", localFlags: 1}), unpack.Limits{}, unpack.ErrFormat},
		{"an unknown method", with(made{name: "a", content: "x", method: 12}), unpack.Limits{}, unpack.ErrUnsupported},
		{"a patch", with(made{name: "a", content: "x", flags: 1 << 5}), unpack.Limits{}, unpack.ErrUnsupported},
		{"one of several", zipped([]made{manifest}, func(end []byte) { put16(end, 4, 1) }), unpack.Limits{}, unpack.ErrUnsupported},
		{"an entry of another part", with(made{name: "a", disk: 2}), unpack.Limits{}, unpack.ErrUnsupported},

		{"a bomb by ratio", with(made{name: "a", content: zeros, deflate: true}), unpack.Limits{}, unpack.ErrBomb},
		{"an entry that is too large", with(made{name: "a", content: "123456"}), unpack.Limits{EntryBytes: 5}, unpack.ErrBomb},
		{"too much in all", with(made{name: "a", content: "123456"}, made{name: "b", content: "123456"}), unpack.Limits{Bytes: 20}, unpack.ErrBomb},
		{"too many entries", with(made{name: "a"}, made{name: "b"}), unpack.Limits{Entries: 2}, unpack.ErrBomb},
		{"entries that share content", with(
			made{name: "a", content: "12"}, made{name: "a2", content: "12", withoutHeader: true},
		), unpack.Limits{}, unpack.ErrBomb},
		{"an entry that quotes the next", zipped(
			[]made{{name: "a", content: "12", deflate: true, liePacked: 50}, {name: "b", content: "12"}},
		), unpack.Limits{}, unpack.ErrBomb},
		{"a huge size", with(made{name: "a", content: "x", deflate: true, lieSize: 1 << 31}), unpack.Limits{}, unpack.ErrBomb},

		{"a size that is too small", with(made{name: "a", content: "123456", deflate: true, lieSize: 5}), unpack.Limits{}, unpack.ErrFormat},
		{"a size that is too large", with(made{name: "a", content: "123456", deflate: true, lieSize: 7}), unpack.Limits{}, unpack.ErrFormat},
		{"a size of zero", with(made{name: "a", packed: deflated("123456"), method: 8}), unpack.Limits{}, unpack.ErrFormat},
		{"two sizes of what is stored", with(made{name: "a", content: "123456", lieSize: 5}), unpack.Limits{}, unpack.ErrFormat},
		{"a folder with content", with(made{name: "a/", content: "x"}), unpack.Limits{}, unpack.ErrFormat},
		{"a wrong CRC", with(made{name: "a", content: "123456", lieCRC: 77}), unpack.Limits{}, unpack.ErrFormat},
		{"damaged content", with(made{name: "a", content: "123456", method: 8, packed: []byte{0xff, 0xff, 0xff}}), unpack.Limits{}, unpack.ErrFormat},
		{"content that breaks off", with(
			made{name: "a", content: zeros[:9000], method: 8, packed: deflated(zeros[:9000])[:5]},
		), unpack.Limits{}, unpack.ErrFormat},
		{"content that goes on", with(
			made{name: "a", content: "12", method: 8, packed: append(deflated("12"), "more"...)},
		), unpack.Limits{}, unpack.ErrFormat},
		{"another name in the header", with(made{name: "a", localName: "b", content: "x"}), unpack.Limits{}, unpack.ErrFormat},
		{"another size in the header", with(made{name: "a", content: "x", lieLocalSize: 2}), unpack.Limits{}, unpack.ErrFormat},
		{"another CRC behind the content", with(
			made{name: "a", content: "x", descriptor: true, lieDescriptor: 1},
		), unpack.Limits{}, unpack.ErrFormat},
		{"a CRC behind the content, as only the header says", with(
			made{name: "a", content: "x", localFlags: 1 << 3},
		), unpack.Limits{}, unpack.ErrFormat},
		{"an extra field that reaches over", with(
			made{name: "a", content: "x", localExtra: []byte{1, 0, 200, 0}},
		), unpack.Limits{}, unpack.ErrFormat},
		{"an extra field of Zip64 that is missing", with(made{name: "a", content: "x", lieSize: 1<<32 - 1}), unpack.Limits{}, unpack.ErrFormat},
		{"an offset beyond the end", with(made{name: "a", content: "x", lieOffset: 1 << 30}), unpack.Limits{}, unpack.ErrBomb},

		{"nothing", nil, unpack.Limits{}, unpack.ErrFormat},
		{"no ZIP", []byte(strings.Repeat("<html>", 100)), unpack.Limits{}, unpack.ErrFormat},
		{"something before", append([]byte("#!/bin/sh\n"), good...), unpack.Limits{}, unpack.ErrFormat},
		{"something after", append(bytes.Clone(good), "more"...), unpack.Limits{}, unpack.ErrTruncated},
		{"the first half", good[:len(good)/2], unpack.Limits{}, unpack.ErrTruncated},
		{"all but the last byte", good[:len(good)-1], unpack.Limits{}, unpack.ErrTruncated},
		{"fewer entries than told", zipped(
			[]made{manifest}, func(end []byte) { put16(end, 8, 2); put16(end, 10, 2) },
		), unpack.Limits{}, unpack.ErrFormat},
		{"more entries than told", zipped(
			[]made{manifest, {name: "a"}}, func(end []byte) { put16(end, 8, 1); put16(end, 10, 1) },
		), unpack.Limits{}, unpack.ErrFormat},
		{"a directory elsewhere", zipped([]made{manifest}, func(end []byte) { put32(end, 16, 3) }), unpack.Limits{}, unpack.ErrFormat},
		{"two ends", twoEnds(), unpack.Limits{}, unpack.ErrFormat},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			all, err := readAll(c.file, c.limits)
			if !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v; read %d entries", err, c.want, len(all))
			}
			if err != nil && len(err.Error()) > 600 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

// twoEnds is a file with an end record in the comment of its end record.
func twoEnds() []byte {
	file := zipped([]made{manifest}, func(end []byte) { put16(end, 20, 22) })
	return append(file, zipped(nil)...)
}

// Names in code page 437 count as they are and as they are decoded: together they may be four times
// as long as in the directory.
func TestNamesInMemory(t *testing.T) {
	const each = 1365 // bytes of a name, which are 4,095 and fewer when decoded
	for _, tt := range []struct {
		entries int
		bad     bool
	}{{12_000, false}, {12_500, true}} {
		entries := make([]made, tt.entries)
		for i := range entries {
			n := fmt.Sprintf("%06d", i)
			entries[i].name = strings.Repeat("\xb0", each-len(n)) + n
		}
		all := zipped(entries)
		_, err := unpack.Open(bytes.NewReader(all), int64(len(all)), unpack.Limits{})
		if errors.Is(err, unpack.ErrBomb) != tt.bad || err != nil && !tt.bad {
			t.Errorf("%d names: %v", tt.entries, err)
		}
	}
}

// TestNoEntry is of names that a file has not.
func TestNoEntry(t *testing.T) {
	a, err := open(zipped([]made{{name: "b/"}, {name: "b/a"}, {name: "Manifest.XML"}}), unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Manifest(); !errors.Is(err, unpack.ErrManifest) {
		t.Errorf("Manifest: %v", err)
	}
	for _, path := range []string{"/b", "b/", "/b/", "a", "/B/a", "//b/a", "../b/a", ""} {
		if _, err := a.Open(path); !errors.Is(err, unpack.ErrNoEntry) {
			t.Errorf("Open(%q): %v", path, err)
		}
		if _, known := a.Lookup(path); known {
			t.Errorf("Lookup(%q) finds something", path)
		}
	}
}
