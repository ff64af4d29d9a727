package unpack

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"carillon/internal/dots"
)

// maxName is how long a name may be, bytes.
const maxName = 4096

// decodeName returns a name in UTF-8. Without the flag for UTF-8 a name is in code page 437 (APPNOTE
// D.1); many tools write UTF-8 all the same, so what is UTF-8 is taken as such.
func decodeName(raw []byte, flagged bool) (string, error) {
	switch {
	case utf8.Valid(raw):
		return string(raw), nil
	case flagged:
		return "", fmt.Errorf("%w: %.200q is said to be UTF-8 and is not", ErrNames, raw)
	}
	name, err := charmap.CodePage437.NewDecoder().Bytes(raw)
	if err != nil {
		return "", fmt.Errorf("%w: %.200q is in no known encoding", ErrNames, raw)
	}
	return string(name), nil
}

// CheckName returns ErrNames for a name that an entry must not have: one that leads out of a directory
// on some system, however it is encoded, or that a manifest cannot hold.
func CheckName(name string) error {
	what := ""
	switch {
	case name == "" || name == "/":
		what = "it is empty"
	case len(name) > maxName:
		what = fmt.Sprintf("it has more than %d bytes", maxName)
	case !utf8.ValidString(name):
		what = "it is not UTF-8"
	case strings.ContainsRune(name, '\\'):
		what = "it has a backslash"
	case name[0] == '/':
		what = "it is absolute"
	case len(name) >= 2 && name[1] == ':' && isLetter(name[0]):
		what = "it has a drive letter"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff }):
		what = "it has a control character"
	case dots.Hidden(name):
		what = "it has a dot segment"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: %.200q: %s", ErrNames, name, what)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
