package payload

import (
	"cmp"
	"errors"
)

// Errors of a Reader, wrapped with the line where reading stopped. The writer
// uses ErrTooLarge too.
var (
	// ErrSyntax: the document is not well-formed XML.
	ErrSyntax = errors.New("not well-formed XML")
	// ErrDoctype: the document has a document type declaration. It is refused: it could declare entities,
	// and those are never expanded.
	ErrDoctype = errors.New("a document type declaration is not accepted")
	// ErrEncoding: the document is not, or says that it is not, in UTF-8.
	ErrEncoding = errors.New("only UTF-8 is accepted")
	// ErrTooLarge: the document, or one entry of it, has too many bytes.
	ErrTooLarge = errors.New("document too large")
	// ErrTooDeep: elements are nested too deeply.
	ErrTooDeep = errors.New("elements nested too deeply")
)

// Limits bound what reading a document may cost. Zero fields have the default.
type Limits struct {
	// Bytes of the whole document, uncompressed; default MaxReadBytes.
	Bytes int64
	// Entries of the document; default MaxEntries.
	Entries int
	// EntryBytes bounds one entry, and the head, and any single tag or run of
	// text; default MaxEntryBytes. It is what reading may hold in memory, about.
	EntryBytes int
	// Depth of nested elements; default 32. A ResourceSync document has 3.
	Depth int
}

const defaultDepth = 32

func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes:      cmp.Or(max(l.Bytes, 0), MaxReadBytes),
		Entries:    cmp.Or(max(l.Entries, 0), MaxEntries),
		EntryBytes: cmp.Or(max(l.EntryBytes, 0), MaxEntryBytes),
		Depth:      cmp.Or(max(l.Depth, 0), defaultDepth),
	}
}
