package payload

import (
	"time"
)

// Limits of one document (core §7; sitemaps.org).
const (
	// MaxEntries is how many url entries one document may have.
	MaxEntries = 50_000
	// MaxBytes is how large one document that we write may be, uncompressed.
	MaxBytes = 50_000_000
	// MaxReadBytes is how large a document may be that we read, uncompressed:
	// 50 MB as sitemaps.org counts them.
	MaxReadBytes = 52_428_800
)

// Change is what happened to a resource (core §7, CN §3).
type Change string

// The three kinds of change.
const (
	Created Change = "created"
	Updated Change = "updated"
	Deleted Change = "deleted"
)

// Entry is one url element of a document: one change of one resource, one resource
// of a Resource List, one document that another lists. Optional fields are left out
// of the document where they are empty.
type Entry struct {
	Loc string // URI of the resource, verbatim
	// LastMod is the resource's own modification time, a W3C Datetime; it is not
	// the time of the change (core §7).
	LastMod string
	Change  Change
	// Datetime is the time of the change. The writer demands it and writes
	// microseconds; read documents may lack it (zero).
	Datetime time.Time
	// DatetimeTold is what was read as Datetime where that is not a complete time in
	// UTC (core §7): one with an offset, a day, or no W3C Datetime at all. Only
	// AppendTold writes it.
	DatetimeTold string

	Hash     string // algorithm:hexdigest, several separated by spaces
	Length   string // bytes, a whole number in decimal digits of any size
	Type     string // media type
	Encoding string // content coding
	// Path is where the bitstream lies in its package: "/" and the names of folders and
	// file (core §11.2, §13.2). Only entries of dump manifests have one. A Reader returns
	// what the document says, also without the slash.
	Path  string
	Links []Link

	// Line is the line where the entry begins, from 1 on. Only a Reader sets it, and no
	// writer looks at it.
	Line int

	// The fields below are for reading only; of the writers AppendTold alone writes them.

	// Capability says what Loc is: "change-notification", "capabilitylist", …
	// It stands in Capability Lists and Source Descriptions (core §8, §9).
	Capability string
	// From and Until are the covered interval of an entry of an index, in the document's words; At and
	// Completed are when it was taken (core §7).
	From, Until, At, Completed string
}

// Link is an rs:ln element: a related resource (core §7, §14). Optional fields
// are left out of the document where they are empty.
type Link struct {
	Rel      string
	Href     string
	Hash     string
	Length   string
	Type     string
	Encoding string
	Modified string // W3C Datetime
	Path     string // only of a patch in a Change Dump Manifest (core §14.4)
	Pri      string // 1 to 999999, lower is preferred
}

// Interval is what a document of changes covers. A change notification has every change with
// From <= datetime < Until (CN §3).
type Interval struct {
	From, Until time.Time
}
