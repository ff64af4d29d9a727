//go:build !race

package main

// See race_test.go.
const slowness, heaviness = 1, 1
