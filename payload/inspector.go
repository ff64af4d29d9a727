package payload

import "fmt"

// Inspector notes what a document does otherwise than the clauses have it, while it
// is read: what a Reader takes all the same. Each kind is noted once, at its first
// place, so that it costs the same memory whatever the document is. It knows Change
// Lists, Resource Lists, indexes of both, Capability Lists, Source Descriptions and
// change notifications; of others it judges what holds for all.
//
// Also what is only recommended is noted, and says "should": these are warnings. Whether a
// change notification may be taken at all ValidateNotification tells.
//
// Head gets the Header before the first entry, Entry each entry in turn, and End the
// Header after the last, when it is complete. It is for one goroutine.
type Inspector struct {
	want    string // the capability that the document should have
	head    Header
	judged  bool // the head's rs:md was
	entries int
	noted   uint64 // a bit for each kind that was noted
	found   []Violation
}

// NewInspector returns an Inspector of a document that should have the capability,
// such as CapChangeList; empty for any.
func NewInspector(capability string) *Inspector { return &Inspector{want: capability} }

// Head takes what the document says of itself before its first entry.
func (i *Inspector) Head(h Header) { i.head = h }

// Entry takes the next entry. It keeps nothing of it but texts that are short.
func (i *Inspector) Entry(*Entry) { i.entries++ }

// End takes the Header as it is when the document was read to its end.
func (i *Inspector) End(h Header) { i.head = h }

// Violations returns what was noted so far, in the order it was found.
func (i *Inspector) Violations() []Violation { return i.found }

// note notes a kind of oddity, once.
func (i *Inspector) note(kind uint, clause, format string, args ...any) {
	if i.noted>>kind&1 == 0 {
		i.noted |= 1 << kind
		i.found = append(i.found, Violation{clause, fmt.Sprintf(format, args...)})
	}
}
