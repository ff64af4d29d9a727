// Package measured counts and times the calls of an engine, whichever it is, by wrapping the
// interfaces that engines implement: one histogram, with the operation and its outcome as labels, both
// from closed sets.
//
// It does not change the calls, keeps nothing, and takes no lock; a call costs two looks at the clock
// and one observation more. A sequence is timed from the first element to the last, including the
// reader's work in between. cmd/hub puts it between an engine and the packages that use it.
package measured
