// Package measured counts and times the calls of an engine, whichever it is, by wrapping
// the interfaces that engines implement: one histogram, with the operation and what came
// of it as labels, both from closed sets.
//
// It changes nothing of what a call does, keeps nothing, and takes no lock; a call costs
// two looks at the clock and one observation more. What is read as a sequence is timed
// from the first to the last, with what the reader does in between. cmd/hub puts it
// between an engine and the rooms.
package measured
