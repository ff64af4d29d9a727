//go:build !race

package h1_test

const droppedByPool = 0
