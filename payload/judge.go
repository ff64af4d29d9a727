package payload

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Summary is what a change notification says as a whole.
type Summary struct {
	Capability string
	// From and Until stand as in the document; FromTime and UntilTime are the same as times.
	From, Until         string
	FromTime, UntilTime time.Time
	// Entries is how many changes it has.
	Entries int
	// Up is the URI of the Capability List, empty if the notification does
	// not link to it.
	Up string
}

// Violation is a rule that a document breaks. ValidateNotification sets Clause and Message only.
type Violation struct {
	// Clause is where the rule stands, such as "CN §3".
	Clause string
	// Message states the fault, with the place, in one clause of plain text. Quotations from the document
	// are short and quoted as Go does.
	Message string
	// Level is how the clause words the rule.
	Level Level
	// Absent reports that the document lacks something that is only recommended. Nothing in
	// it is wrong.
	Absent bool
	// Line is where the entry begins that breaks the rule, or the root element; 0 if
	// unknown.
	Line int
	// Element is what breaks the rule, from the root element on: "rs:md/@from",
	// "url[3]/rs:md/@hash", "url[3]/rs:ln[1]/@href". Elements count from 1.
	Element string
	// Mend says what to do, in a clause: "add at: the time when the snapshot began".
	Mend string
	// Times is how many times an Inspector saw the same kind of violation in the
	// document; of datetimes outside the interval it looks at the extremes only. The other
	// fields are those of the first time.
	Times int
}

// Level is how grave a violation is.
type Level int

const (
	// Error is a "must" of the clause, or an attribute that it calls mandatory.
	Error Level = iota
	// Warning is a "should", or something recommended.
	Warning
	// Note is how this project reads a clause, or what Destinations cannot use.
	Note
)

// String is error, warning or note.
func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Warning:
		return "warning"
	}
	return "note"
}

// String is the clause and the message.
func (v Violation) String() string { return v.Clause + ": " + v.Message }

// MaxViolations is how many violations an Invalid has at most; reading stops there.
const MaxViolations = 20

// Invalid is the error for a document that is not a change notification as the
// specification demands.
type Invalid struct {
	Violations []Violation // 1 to MaxViolations, in the order they were found
	// cause is why reading stopped early, if it did.
	cause error
}

// Error names the first violations.
func (e *Invalid) Error() string {
	const shown = 3
	var b strings.Builder
	for i, v := range e.Violations[:min(shown, len(e.Violations))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(v.String())
	}
	if more := len(e.Violations) - shown; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap returns why the document could not be read to its end, such as
// ErrSyntax or ErrTooLarge, or nil.
func (e *Invalid) Unwrap() error { return e.cause }

// ValidateNotification reads a change notification and judges it by the musts of Change Notification
// 1.0.1 and of the clauses of core §7 that it refers to. Recommendations are not judged, and a
// notification without entries passes. So does a notification of another kind (a framework
// notification): its frame is the same. The error is an *Invalid, or trouble with r itself, wrapped.
// The Summary has the part that was read, also beside an error.
//
// A datetime equal to until passes: core §7 allows it, though consecutive intervals then share that
// moment.
func ValidateNotification(r io.Reader) (Summary, error) {
	j := judge{r: NewReader(r, Limits{})}
	err := j.run()
	if len(j.found) > 0 {
		return j.sum, &Invalid{Violations: j.found, cause: err}
	}
	return j.sum, err
}

// ReadNotification reads the change notification in body and judges it by the rules of
// ValidateNotification, in one pass. It returns nil for a body that IsNotification rejects.
//
// The error is an *Invalid. The Changes are complete beside it, unless the Invalid unwraps to the
// error that stopped the reading: then they are empty.
func ReadNotification(body []byte, limits Limits) (*Changes, error) {
	r := readSniffed(body, limits.withDefaults())
	if r == nil {
		return nil, nil
	}
	n := &Changes{}
	j := judge{r: r, each: func(w *raw) { n.Entries = append(n.Entries, w.entry()) }}
	cause := j.run()
	if cause != nil {
		n.Entries = nil
	} else {
		n.Header, _ = r.Header() // was read
	}
	if len(j.found) > 0 {
		return n, &Invalid{Violations: j.found, cause: cause}
	}
	return n, nil
}

// Changes are the head and the entries of a change notification that was read.
type Changes struct {
	Header  Header
	Entries []Entry
}

// judge gathers the violations of one document.
type judge struct {
	r     *Reader
	sum   Summary
	found []Violation
	// each is called with each entry. If it is nil, reading stops at MaxViolations.
	each func(*raw)
	// headSeen: the rs:md of the head was judged.
	headSeen bool
	// last is the datetime of the entry before; oldest and newest are the
	// extremes so far. All have entry 0 until there is one.
	last, oldest, newest moment
}

// moment is the datetime of an entry; the first entry is 1.
type moment struct {
	time.Time
	entry int
	line  int // where the entry begins
}

func (j *judge) add(clause, format string, args ...any) {
	if len(j.found) < MaxViolations {
		j.found = append(j.found, Violation{Clause: clause, Message: fmt.Sprintf(format, args...)})
	}
}

// run reads and judges the document. It returns what stopped reading before its
// end, if anything did.
func (j *judge) run() error {
	err := j.r.begin()
	if j.r.root == RootSitemapIndex {
		j.add(clauseCN, "the root element must be urlset; change notifications do not use sitemapindex")
		return nil
	}
	for {
		if !j.headSeen && (j.r.head.mds > 0 || errors.Is(err, io.EOF)) {
			j.judgeHead()
		}
		if err != nil || len(j.found) == MaxViolations && j.each == nil {
			break
		}
		if err = j.r.next(); err == nil {
			j.sum.Entries++
			j.judgeEntry(&j.r.cur)
			if j.each != nil {
				j.each(&j.r.cur)
			}
		}
	}
	j.judgeInterval()
	j.sum.Up = j.r.head.link("up")
	if errors.Is(err, io.EOF) {
		if j.r.head.mds > 1 {
			j.add(clauseCore, "urlset must have exactly one rs:md, not %d", j.r.head.mds)
		}
		return nil
	}
	return j.stopped(err)
}

// stopped turns an error of the Reader into a violation, unless it is trouble
// with the input and not with the document.
func (j *judge) stopped(err error) error {
	switch {
	case err == nil: // there were violations enough
	case errors.Is(err, ErrNotResourceSync):
		j.add(clauseCN, "%v", err)
	case errors.Is(err, ErrSyntax), errors.Is(err, ErrDoctype), errors.Is(err, ErrEncoding):
		j.add(clauseCN, "the body must be an XML document: %v", err)
	case errors.Is(err, ErrTooManyEntries), errors.Is(err, ErrTooLarge), errors.Is(err, ErrTooDeep):
		j.add(clauseCore, "the document is over a limit: %v", err)
	default:
		j.found = nil // the rest was not read
		return fmt.Errorf("reading a change notification: %w", err)
	}
	return err
}

func (j *judge) judgeHead() {
	j.headSeen = true
	head := &j.r.head
	if head.mds == 0 {
		j.add(clauseCN, "urlset has no rs:md (in the namespace %s)", spaceRS)
		return
	}
	get := func(f field) string { return string(head.get(head.md[f])) }
	switch j.sum.Capability = get(fCapability); {
	case strings.HasSuffix(j.sum.Capability, notificationSuffix):
		// A framework notification has the same frame: urlset, from, until, order.
	case j.sum.Capability == "":
		j.add(clauseCN, "capability is missing")
	default:
		j.add(clauseCN, "capability must be %s, not %.60q", ChangeNotification, j.sum.Capability)
	}
	j.sum.From, j.sum.Until = get(fFrom), get(fUntil)
	j.sum.FromTime = j.bound("from", j.sum.From)
	j.sum.UntilTime = j.bound("until", j.sum.Until)
	if !j.sum.FromTime.IsZero() && !j.sum.UntilTime.IsZero() &&
		j.sum.UntilTime.Before(j.sum.FromTime) {
		j.add(clauseCN, "until %q is before from %q", j.sum.Until, j.sum.From)
	}
}

// bound judges an end of the interval and returns it as a time, zero if it is invalid.
func (j *judge) bound(name, told string) time.Time {
	if told == "" {
		j.add(clauseCN, "%s is missing", name)
		return time.Time{}
	}
	w, ok := scanDatetime(told)
	if !ok {
		j.add(clauseCore, "%s must be a W3C Datetime, not %.60q", name, told)
	}
	return w.time
}

func (j *judge) judgeEntry(w *raw) {
	n := j.sum.Entries
	if w.attrs {
		j.add(clauseCN, "entry %d: url must not have attributes", n)
	}
	switch loc := w.get(w.loc); {
	case len(loc) == 0:
		j.add(clauseCN, "entry %d: loc is missing", n)
	case !hasScheme(loc):
		j.add(clauseCN, "entry %d: loc must be an absolute URI, not %.60q", n, loc)
	}
	if w.locs > 1 {
		j.add(clauseCore, "entry %d: loc must not be repeated", n)
	}
	switch change := w.get(w.md[fChange]); {
	case w.mds == 0:
		j.add(clauseCN, "entry %d: rs:md is missing", n)
		return
	case w.mds > 1:
		j.add(clauseCore, "entry %d: rs:md must not be repeated", n)
	case len(change) == 0:
		j.add(clauseCN, "entry %d: change is missing", n)
	case changeRule(string(change)) != "":
		j.add(clauseCN, "entry %d: change must be created, updated or deleted, not %.60q", n,
			change)
	}
	if told := w.get(w.md[fDatetime]); len(told) > 0 {
		j.judgeDatetime(told)
	}
}

func (j *judge) judgeDatetime(told []byte) {
	w, ok := scanDatetime(string(told))
	if !ok {
		j.add(clauseCore, "entry %d: datetime must be a W3C Datetime, not %.60q", j.sum.Entries,
			told)
		return
	}
	now := moment{w.time, j.sum.Entries, j.r.cur.line}
	if j.last.entry > 0 && now.Before(j.last.Time) {
		j.add(clauseCN, "entry %d: its datetime is before that of entry %d; the oldest change comes first",
			now.entry, j.last.entry)
	}
	j.last = now
	if j.oldest.entry == 0 || now.Before(j.oldest.Time) {
		j.oldest = now
	}
	if j.newest.entry == 0 || now.After(j.newest.Time) {
		j.newest = now
	}
}

// judgeInterval judges the datetimes by their extremes: the interval may stand after them.
func (j *judge) judgeInterval() {
	if from := j.sum.FromTime; !from.IsZero() && j.oldest.entry > 0 && j.oldest.Before(from) {
		j.add(clauseCore, "entry %d: its datetime is before from", j.oldest.entry)
	}
	if until := j.sum.UntilTime; !until.IsZero() && j.newest.entry > 0 && j.newest.After(until) {
		j.add(clauseCore, "entry %d: its datetime is after until", j.newest.entry)
	}
}
