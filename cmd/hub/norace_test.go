//go:build !race

package main

// slowness is how much longer things take, see race_test.go.
const slowness = 1
