package check

import "fmt"

// maxEach is how many findings of one rule a document has; of the others the last says that
// there are more.
const maxEach = 10

// countKey is a rule and a document.
type countKey struct {
	rule ruleID
	uri  string
}

// report makes a finding of a rule. The clause of a rule that holds for several kinds of
// documents is that of d.
func (w *walk) report(id ruleID, at place, d *document, mend, format string, args ...any) {
	r := &rules[id]
	f := Finding{
		Level: r.level, Clause: r.clause, URI: at.uri, Line: at.line, Element: at.element,
		What: fmt.Sprintf(format, args...), Mend: mend, rule: &id,
	}
	if f.Clause == "" {
		f.Clause = d.clause()
	}
	counts := w.counts
	if w.judging {
		counts = w.heldCounts
	}
	key := countKey{id, at.uri}
	counts[key]++
	switch n := counts[key]; {
	case n > maxEach:
		return
	case n == maxEach:
		f.What += " (others of the kind in this document are not reported)"
	}
	if w.judging {
		w.held = append(w.held, held{f, w.about})
		return
	}
	w.tell(f)
}

// maxFindings is how many findings are handed on. The Summary counts the others too.
const maxFindings = 10_000

// tell counts a finding, and hands it on once.
func (w *walk) tell(f Finding) {
	line := f.String()
	if w.reported[line] {
		return // of a document that was read again
	}
	if len(w.reported) < maxFindings {
		w.reported[line] = true
	}
	switch f.Level {
	case Error:
		w.sum.Errors++
	case Warning:
		w.sum.Warnings++
	default:
		w.sum.Notes++
	}
	switch told := w.sum.Errors + w.sum.Warnings + w.sum.Notes; {
	case w.found == nil || told > maxFindings:
	case told == maxFindings:
		w.found(Finding{
			Level: Note, Clause: limits, URI: f.URI,
			What: fmt.Sprintf("there are more than %d findings, and the others are not told",
				maxFindings),
			Mend: "mend these first",
		})
	default:
		w.found(f)
	}
}

// limits is the clause of what was not looked at.
const limits = "limits"

// maxNotes is how many notes say that something was not looked at.
const maxNotes = 100

// leftOut notes that something was not looked at, once for each about.
func (w *walk) leftOut(about string, at place, what, mend string) {
	w.sum.Complete = false
	if w.told[about] || len(w.told) >= maxNotes {
		return
	}
	w.told[about] = true
	w.tell(Finding{
		Level: Note, Clause: limits, URI: at.uri, Line: at.line, Element: at.element,
		What: what, Mend: mend,
	})
}
