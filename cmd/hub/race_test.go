//go:build race

package main

// The race detector looks at every byte that is copied and remembers who did: slowness is
// how much longer things take with it, and heaviness how much more memory.
const slowness, heaviness = 5, 2
