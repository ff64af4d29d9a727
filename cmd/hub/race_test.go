//go:build race

package main

// slowness is how much longer things take: the race detector looks at every byte that
// is copied.
const slowness = 5
