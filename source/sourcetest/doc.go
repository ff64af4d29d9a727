// Package sourcetest is the conformance suite of source.Store: every engine runs it.
package sourcetest
