// Package faults makes engines and networks fail, by a plan. Only tests use it.
//
//	room ──▶ Store, Log, … of this package ──▶ those of an engine
//	                    │
//	                   Plan: passes on · fails before · fails after · delays · hangs
//
//	hub ──▶ Network (an http.Handler, a net.Listener) ──▶ what a callback answers
//	                    │
//	                   its own plan: resets, garbage, trickles, lies about lengths, …
//
// Guarantees of a wrapped engine:
//
//   - A call that fails before never reaches the engine ("not persisted"). One that
//     fails after was made and came to its end, and its result is thrown away
//     ("persisted"). Both errors are subscription.ErrUnavailable, as an engine's
//     own trouble is, and ErrInjected.
//   - A list that fails may have given a part of its elements.
//   - A call that is delayed is made; one that hangs is not, and ends with its
//     context or after Config.HangMax.
//   - With nothing planned a wrapper adds nothing: the conformance suites of the
//     interfaces pass through it.
//   - Seed, name and n alone decide the outcome of the n-th call of a name. So it
//     is the same in another run, however the calls of other names fall between.
//   - From Calm on every call is passed on.
//   - Config.Injected is called for every fault before its caller sees it, and the
//     fault is counted.
//
// Guarantee of a network: Network reports for each request, before its answer is on the way, whether
// that answer may be lost. One that is not lost arrives whole.
//
// The package does not decide which faults are likely, nor which behaviour after them is right. That
// is for the tests.
package faults
