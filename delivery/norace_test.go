//go:build !race

package delivery_test

const droppedByPool = 0
