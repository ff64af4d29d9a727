package check

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"carillon/payload"
)

// maxEach is how many findings of one rule a document has; of the others the last says that
// there are more.
const maxEach = 10

// countKey is a rule and a document.
type countKey struct {
	rule ruleID
	uri  string
}

// reporter counts findings and passes them to the caller. While judging it holds them back.
type reporter struct {
	cfg      Config
	found    func(Finding)
	sum      Summary
	told     map[string]bool  // limit notes, by subject
	counts   map[countKey]int // findings of a rule in a document
	reported map[string]bool  // findings, as lines
	cut      bool             // a limit has kept something of this round from being read

	judging    bool
	about      func() []*document // the documents that the next finding compares
	held       []held
	heldCounts map[countKey]int
}

func newReporter(cfg Config, found func(Finding)) *reporter {
	return &reporter{
		cfg: cfg, found: found, sum: Summary{Complete: true},
		told: map[string]bool{}, counts: map[countKey]int{}, reported: map[string]bool{},
	}
}

// hold holds findings back until release. It drops those that were held before.
func (rep *reporter) hold() {
	rep.judging, rep.held, rep.heldCounts = true, nil, map[countKey]int{}
}

func (rep *reporter) release() { rep.judging = false }

// report makes a finding of a rule. The clause of a rule that holds for several kinds of
// documents is that of d.
func (rep *reporter) report(id ruleID, at place, d *document, mend, format string, args ...any) {
	r := &rules[id]
	f := Finding{
		Level: r.level, Clause: r.clause, URI: at.uri, Line: at.line, Element: at.element,
		What: fmt.Sprintf(format, args...), Mend: mend, rule: &id,
	}
	if f.Clause == "" {
		f.Clause = d.clause()
	}
	counts := rep.counts
	if rep.judging {
		counts = rep.heldCounts
	}
	key := countKey{id, at.uri}
	counts[key]++
	switch n := counts[key]; {
	case n > maxEach:
		return
	case n == maxEach:
		f.What += " (others of the kind in this document are not reported)"
	}
	if rep.judging {
		rep.held = append(rep.held, held{f, rep.about})
		return
	}
	rep.tell(f)
}

// maxFindings is how many findings are handed on. The Summary counts the others too.
const maxFindings = 10_000

// tell counts a finding, and hands it on once.
func (rep *reporter) tell(f Finding) {
	line := f.String()
	if rep.reported[line] {
		return // of a document that was read again
	}
	if len(rep.reported) < maxFindings {
		rep.reported[line] = true
	}
	switch f.Level {
	case Error:
		rep.sum.Errors++
	case Warning:
		rep.sum.Warnings++
	default:
		rep.sum.Notes++
	}
	switch told := rep.sum.Errors + rep.sum.Warnings + rep.sum.Notes; {
	case rep.found == nil || told > maxFindings:
	case told == maxFindings:
		rep.found(Finding{
			Level: Note, Clause: limits, URI: f.URI,
			What: fmt.Sprintf("there are more than %d findings, and the others are not told",
				maxFindings),
			Mend: "mend these first",
		})
	default:
		rep.found(f)
	}
}

// limits is the clause of what was not looked at.
const limits = "limits"

// maxNotes is how many notes say that something was not looked at.
const maxNotes = 100

// leftOut records that something was not looked at, once for each about.
func (rep *reporter) leftOut(about string, at place, what, mend string) {
	rep.sum.Complete = false
	if rep.told[about] || len(rep.told) >= maxNotes {
		return
	}
	rep.told[about] = true
	rep.tell(Finding{
		Level: Note, Clause: limits, URI: at.uri, Line: at.line, Element: at.element,
		What: what, Mend: mend,
	})
}

// limited records that something was not looked at, if err says so.
func (rep *reporter) limited(err error, at place, to *url.URL) bool {
	switch {
	case errors.Is(err, errNotAllowed):
		rep.leftOut("host "+to.Host, at,
			fmt.Sprintf("%s was not looked at: %s", quote(to.String()), reason(err)), "")
		return true
	case errors.Is(err, errTime):
		rep.leftOut("time", at, fmt.Sprintf("not everything was looked at: %v (%s)", errTime,
			rep.cfg.Limits.Time), "allow more time")
	case errors.Is(err, errRequests):
		rep.leftOut("requests", at, fmt.Sprintf("not everything was looked at: %v (%d)", errRequests,
			rep.cfg.Limits.Requests), "allow more requests")
	case errors.Is(err, errBytes):
		rep.leftOut("bytes", at, fmt.Sprintf("not everything was looked at: %v (%d)", errBytes,
			rep.cfg.Limits.Bytes), "allow more bytes")
	case errors.Is(err, errUnpacked):
		rep.leftOut("unpacked", at, fmt.Sprintf("not everything was looked at: %v (%d)", errUnpacked,
			rep.cfg.Limits.Unpacked), "allow more unpacked bytes")
	case errors.Is(err, errNoFile):
		rep.leftOut("packages", at, "packages were not looked at: "+reason(err),
			"see that the directory for temporary files (TMPDIR) can be written, and has space")
	case errors.Is(err, context.Canceled):
		rep.sum.Complete = false // the caller knows
	default:
		return false
	}
	rep.cut = true
	return true
}

// held is a finding that compares documents. about returns them.
type held struct {
	Finding
	about func() []*document
}

// inspected reports what the document shows by itself.
func (rep *reporter) inspected(d *document, violations []payload.Violation) {
	for i := range violations {
		v := &violations[i]
		f := Finding{
			Level: Level(v.Level.String()), Clause: payload.PlainClause(v.Clause), URI: d.uri,
			Line: v.Line, Element: v.Element, What: plainMessage(v), Mend: v.Mend,
		}
		rep.tell(f)
	}
}

// plainMessage is the message without its clause, and without the number of the entry where
// Element has it.
func plainMessage(v *payload.Violation) string {
	text := strings.Replace(v.Message, " ("+v.Clause+")", "", 1)
	entry, rest, is := strings.Cut(text, ": ")
	if is && v.Element != "" && strings.HasPrefix(entry, "entry ") {
		return rest
	}
	return text
}

// unreadable reports why a document could not be read to its end.
func (rep *reporter) unreadable(d *document, err error) {
	switch {
	case errors.Is(err, payload.ErrTooLarge), errors.Is(err, payload.ErrTooManyEntries):
		rep.report(ruleLimits, d.place(""), d, "split it, and list the parts in an index",
			"it is over a limit: %s", reason(err))
	default:
		rep.report(
			ruleXML, d.place(""), d,
			"write well-formed XML in UTF-8, without a document type declaration",
			"it cannot be read: %s", reason(err),
		)
	}
}
