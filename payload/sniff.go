package payload

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// sniffBytes is how far IsNotification and Recognize look. The head of a notification is a
// few hundred bytes.
const sniffBytes = 64 << 10

// IsNotification reports, from its first lines, whether body is a ResourceSync notification. That is
// an XML document whose root is urlset, in the sitemap namespace under any prefix. Before its first
// url it has an rs:md whose capability ends in "-notification". ValidateNotification decides whether
// it is a good one.
//
// It looks no further than the first url and at most at 64 KiB of any body. A body that has a document
// type declaration, or is not in UTF-8, does not count.
func IsNotification(body []byte) bool {
	r, _ := sniff(body) // an error further on in the head is for the validator to name
	return r.notifies()
}

// notifies reports whether the head, as far as it was read, is that of a notification.
func (r *Reader) notifies() bool {
	return r != nil && r.root == RootURLSet && strings.HasSuffix(r.capability(), notificationSuffix)
}

// readSniffed returns a Reader of body if that is a notification, and nil if not. The Reader has
// read the head already, unless the head is longer than sniff reads.
func readSniffed(body []byte, lim Limits) *Reader {
	r, err := sniff(body)
	switch {
	case !r.notifies():
		return nil
	case err != nil && len(body) > sniffBytes || int64(len(body)) > lim.Bytes:
		return newReader(newBytesScanner(body, lim), lim)
	}
	r.lim, r.head.limit, r.cur.limit = lim, lim.EntryBytes, lim.EntryBytes
	r.scan.lim, r.scan.buf = lim, body
	return r
}

// sniff reads the head of a document. The error is the reason for an early end; the part read before
// is in the Reader. It returns nil for a body that does not begin as XML in UTF-8 does.
func sniff(body []byte) (*Reader, error) {
	lim := Limits{Bytes: sniffBytes, EntryBytes: sniffBytes}.withDefaults()
	head := body[:min(len(body), sniffBytes)]
	if !bytes.HasPrefix(trimSpace(bytes.TrimPrefix(head, utf8Mark)), []byte{'<'}) {
		return nil, nil // it is not worth a reader
	}
	r := newReader(newBytesScanner(head, lim), lim)
	return r, r.begin()
}

// capability is that of the document's head as far as it was read.
func (r *Reader) capability() string { return string(r.head.get(r.head.md[fCapability])) }

// Likeness is what a body is, by its first lines.
type Likeness int

const (
	// Unlike is a body that has nothing of a notification.
	Unlike Likeness = iota
	// Lookalike is a body that resembles a notification and is not one: a Miss gives the reason why.
	Lookalike
	// Notification is what IsNotification reports, and the same with sitemapindex as its root:
	// ValidateNotification judges both.
	Notification
)

// Miss is why a Lookalike is no notification.
type Miss struct {
	Kind MissKind
	Why  string // a clause of plain text: "its capability is …"
}

// MissKind is a kind of Miss, as metrics show it.
type MissKind string

// The kinds of a Miss.
const (
	MissEncoding   MissKind = "encoding"   // not in UTF-8
	MissDoctype    MissKind = "doctype"    // a document type declaration
	MissSyntax     MissKind = "syntax"     // not well-formed
	MissRoot       MissKind = "root"       // the root element's namespace
	MissHead       MissKind = "head"       // no rs:md before the first entry
	MissCapability MissKind = "capability" // that of the rs:md
)

// MissKinds returns all kinds.
func MissKinds() []MissKind {
	return []MissKind{MissEncoding, MissDoctype, MissSyntax, MissRoot, MissHead, MissCapability}
}

// Recognize returns what body is. A Lookalike has urlset or sitemapindex as its root, in any
// namespace and encoding, and one of:
//
//   - an rs:md in its head without a capability, with that of a Change List, or with one that
//     ResourceSync does not have;
//   - no rs:md that can be read, and an attribute that ends in "-notification" within the 64 KiB
//     from the root on, or within the last 64 KiB.
func Recognize(body []byte) (Likeness, Miss) {
	r, err := sniff(body)
	if r != nil && strings.HasSuffix(r.capability(), notificationSuffix) {
		return Notification, Miss{}
	}
	u := unitsOf(body)
	if r == nil && u.width == 1 {
		return Unlike, Miss{}
	}
	p := readPreamble(u)
	if p.root != RootURLSet && p.root != RootSitemapIndex {
		return Unlike, Miss{}
	}
	if r != nil && r.head.mds > 0 {
		return missedCapability(r.capability())
	}
	if !u.claims(p.rootAt, p.rootAt+sniffBytes) && !u.claims(u.len()-sniffBytes, u.len()) {
		return Unlike, Miss{}
	}
	return Lookalike, missed(u, err)
}

// claims reports whether an attribute that ends as the capability of a notification does stands in
// the characters from..to.
func (u units) claims(from, to int) bool {
	return u.contains(from, to, notificationSuffix+`"`) ||
		u.contains(from, to, notificationSuffix+"'")
}

// missedCapability judges a document of ResourceSync by the capability that it has instead.
func missedCapability(capability string) (Likeness, Miss) {
	why := fmt.Sprintf("its capability is %.60q, not %s", capability, ChangeNotification)
	switch capability {
	case CapDescription, CapCapabilityList, CapResourceList, CapResourceDump,
		CapResourceDumpManifest, CapChangeDump, CapChangeDumpManifest,
		CapResourceListArchive, CapResourceDumpArchive, CapChangeListArchive, CapChangeDumpArchive:
		return Unlike, Miss{}
	case "":
		why = "its rs:md has no capability"
	}
	return Lookalike, Miss{MissCapability, why}
}

// missed gives the reason why nothing could be read of an rs:md before the first entry; err ended that.
func missed(u units, err error) Miss {
	switch {
	case u.width > 1:
		return Miss{MissEncoding, fmt.Sprintf("it is in UTF-%d, and only UTF-8 is read", 8*u.width)}
	case errors.Is(err, ErrEncoding):
		return Miss{MissEncoding, err.Error()}
	case errors.Is(err, ErrDoctype):
		return Miss{MissDoctype, err.Error()}
	case errors.Is(err, ErrNotResourceSync):
		return Miss{MissRoot, "it is " + err.Error()}
	case len(u.text) > sniffBytes && err != nil: // most likely the end of what is looked at
		return Miss{MissHead, fmt.Sprintf("no rs:md could be read within its first %d bytes",
			sniffBytes)}
	case err != nil:
		return Miss{MissSyntax, "it is " + err.Error()}
	}
	return Miss{MissHead, fmt.Sprintf("no rs:md (of the namespace %s) stands before its first entry", spaceRS)}
}
